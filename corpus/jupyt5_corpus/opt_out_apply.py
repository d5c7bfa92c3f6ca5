"""``jupyt5-corpus opt-out``: a finished corpus without the notebooks of an opt-out list.

Nothing is computed anew. Shards without a listed notebook are linked (copied where the file
system cannot link), the others are written again less its rows. What went is listed in one more
file of ``removed/``; the manifest's counts, split and steps and the card are brought up to date.
Where a list of ``removed/`` or the decontamination report quotes a listed notebook, the quotation
goes and the rest of the entry stays.
Families keep their names, so no notebook changes its side of the split. What had been removed as a
duplicate of a notebook that goes now does not come back.
"""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa

from jupyt5.console import progress
from jupyt5.errors import CorpusError, UsageError
from jupyt5.files import atomic_folder, require_new_folder, sha256_file
from jupyt5_corpus.content import is_substantial
from jupyt5_corpus.description import DESCRIBING_FILES, describe_corpus
from jupyt5_corpus.opt_out import STEP, OptOut, find_reason, owner_of
from jupyt5_corpus.removals import (
    cited_places,
    may_quote,
    pack_removals,
    read_removals,
    without_quotation,
)
from jupyt5_corpus.row import Removal
from jupyt5_corpus.shards import (
    iter_row_groups,
    open_shard,
    removed_paths,
    repositories_in,
    require_manifest,
    shard_paths,
)
from jupyt5_corpus.tables import CORPUS_SCHEMA, count_rows, open_writer

__all__ = ["OptOutResult", "apply_opt_out"]

_COPY = "opted_out_copy"
_SEARCHED = ("repo", "fork_of", "content_hash")
_NAMES = ("repo", "family", "split")

_Hits = Mapping[int, Mapping[int, tuple[str, str]]]
"""Shard index → row index → reason and detail of what goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptOutResult:
    """What applying a list did.

    Attributes:
        removed: Reason → number of notebooks.
        num_kept: Notebooks that stay.
        num_kept_copies: Notebooks left in the corpus though they are in a known fork of what is
            listed, or equal to a listed notebook that had been removed as their duplicate.
        num_shards: Shards of the corpus.
        num_rewritten: Shards that had listed notebooks.
        unmatched: Values of the list that name nothing in the corpus or its ``removed/``.
    """

    removed: Mapping[str, int]
    num_kept: int
    num_kept_copies: int
    num_shards: int
    num_rewritten: int
    unmatched: Sequence[str]


@dataclass(slots=True)
class _Search:
    """The list, what of it was met, and contents and places of listed notebooks in ``removed/``."""

    opt_out: OptOut
    with_copies: bool
    copies: dict[str, str] = field(default_factory=dict[str, str])
    quoted: set[str] = field(default_factory=set[str])
    met: set[str] = field(default_factory=set[str])

    def find(self, repo: str, content: str) -> tuple[str, str] | None:
        """Return reason and detail if the list itself names it."""
        found = find_reason(repo, content, self.opt_out)
        if found is not None:
            self.met.update((repo.lower(), owner_of(repo.lower()), content))
        return found

    def find_copy(self, fork_of: str | None, content: str) -> tuple[str, str] | None:
        """Return reason and detail if it is a known fork or an equal notebook."""
        if fork_of and (found := find_reason(fork_of, "", self.opt_out)):
            return _COPY, f"{found[1]}: fork of {fork_of}"
        return (_COPY, self.copies[content]) if content in self.copies else None

    def must_not_quote(self, removal: Removal) -> bool:
        """Tell whether a removal quotes a notebook that is listed, or one like it."""
        content = removal.content_hash or ""
        return (
            find_reason(removal.repo, content, self.opt_out) is not None
            or (self.with_copies and self.find_copy(removal.fork_of, content) is not None)
            or not self.quoted.isdisjoint(cited_places(removal))
        )

    def record(self) -> dict[str, object]:
        """Return what the manifest says of the list and its use."""
        return self.opt_out.record() | {"with_copies": self.with_copies}

    def unmatched(self) -> list[str]:
        """Return what the list names in vain."""
        tables = (self.opt_out.repos, self.opt_out.owners, self.opt_out.contents)
        return [value for table in tables for value in table if value not in self.met]


@dataclass(slots=True)
class _Written:
    """What writing the touched shards gave."""

    shards: dict[int, dict[str, object]] = field(default_factory=dict[int, dict[str, object]])
    removals: list[Removal] = field(default_factory=list[Removal])
    removed_files: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    totals: Counter[str] = field(default_factory=Counter[str])

    def count_reasons(self) -> dict[str, int]:
        """Count what went by reason."""
        return dict(sorted(Counter(each.reason for each in self.removals).items()))


def apply_opt_out(
    folder: Path, out: Path, opt_out: OptOut, *, with_copies: bool = False
) -> OptOutResult:
    """Make ``out`` from the corpus in ``folder``, without what the list names.

    Args:
        folder: Finished corpus; it stays as it is.
        out: Folder to make.
        opt_out: The list.
        with_copies: Also take out known forks of what is listed, and notebooks that equal a
            listed one which had been removed as their duplicate.

    Raises:
        UsageError: If ``out`` exists or lies in the corpus.
        CorpusError: If ``folder`` holds no corpus or a damaged one.
        OSError: If ``out`` cannot be written.
    """
    folder, out = folder.resolve(), out.resolve()
    manifest = require_manifest(folder)
    repositories_in(folder, manifest)  # or it is an older version's
    _check_place(folder, out)
    search = _prepare(folder, manifest, opt_out, with_copies=with_copies)
    hits, num_kept_copies = _find_hits(folder, manifest, search)
    with atomic_folder(out) as partial:
        written = _write_corpus(folder, partial, manifest, hits)
        written.removed_files = [
            *_write_old_removals(folder, partial, manifest, search),
            _write_removals(partial, manifest, written.removals),
        ]
        gone = _count_gone_names(folder, manifest, hits) if hits else {}
        _describe_corpus(partial, _update(manifest, written, gone, search))
    return OptOutResult(
        removed=written.count_reasons(),
        num_kept=cast("int", manifest["notebooks_kept"]) - len(written.removals),
        num_kept_copies=num_kept_copies,
        num_shards=len(shard_paths(folder, manifest)),
        num_rewritten=len(hits),
        unmatched=search.unmatched(),
    )


def _describe_corpus(partial: Path, manifest: Mapping[str, object]) -> None:
    def write(name: str, content: bytes) -> None:
        (partial / name).write_bytes(content)

    describe_corpus(manifest, removed_paths(partial, manifest), write)


def _check_place(folder: Path, out: Path) -> None:
    if out == folder or folder in out.parents:
        message = f"{out} lies in the corpus that is read. Choose another --out."
        raise UsageError(message)
    try:
        require_new_folder(out)
    except FileExistsError as exc:
        raise UsageError(str(exc)) from exc


def _prepare(
    folder: Path, manifest: Mapping[str, object], opt_out: OptOut, *, with_copies: bool
) -> _Search:
    """Look through ``removed/`` for listed notebooks: their copies may be in the corpus."""
    search = _Search(opt_out, with_copies)
    for path in removed_paths(folder, manifest):
        for removal in read_removals(path):
            content = removal.content_hash or ""
            found = search.find(removal.repo, content)
            if found and content and removal.is_substantial:
                detail = f"{found[1]}: equal to {removal.repo}/{removal.path}"
                search.copies.setdefault(content, detail)
            if found and may_quote(removal):
                search.quoted.add(f"{removal.repo}/{removal.path}")
    return search


def _find_hits(folder: Path, manifest: Mapping[str, object], search: _Search) -> tuple[_Hits, int]:
    """Return what goes, and how many copies of it stay."""
    hits: dict[int, dict[int, tuple[str, str]]] = {}
    num_kept_copies = 0
    for shard_idx, row_idx, row in _iter_rows(folder, manifest, _SEARCHED, desc="Searching"):
        found = search.find(str(row["repo"]), str(row["content_hash"]))
        if found is None and (copy := search.find_copy(row["fork_of"], str(row["content_hash"]))):
            found = copy if search.with_copies else None
            num_kept_copies += not search.with_copies
        if found is not None:
            hits.setdefault(shard_idx, {})[row_idx] = found
    return hits, num_kept_copies


def _count_gone_names(
    folder: Path, manifest: Mapping[str, object], hits: _Hits
) -> Mapping[str, int]:
    """Return by how much the split's counts of repositories and families fall."""
    touched: dict[tuple[str, str | None], str | None] = {}
    for shard_idx, row_idx, row in _iter_rows(folder, manifest, _NAMES, desc="Counting"):
        if row_idx in hits.get(shard_idx, {}):
            touched |= {
                ("repo", row["repo"]): row["split"],
                ("family", row["family"]): row["split"],
            }
    for shard_idx, row_idx, row in _iter_rows(folder, manifest, _NAMES, desc="Counting"):
        if row_idx not in hits.get(shard_idx, {}):
            touched.pop(("repo", row["repo"]), None)
            touched.pop(("family", row["family"]), None)
    counts = Counter((column, side) for (column, _), side in touched.items())
    return {
        "num_repositories": sum(column == "repo" for column, _ in touched),
        "num_families": sum(column == "family" for column, _ in touched),
        "num_validation_repositories": counts["repo", "validation"],
        "num_validation_families": counts["family", "validation"],
    }


def _iter_rows(
    folder: Path, manifest: Mapping[str, object], columns: Sequence[str], *, desc: str
) -> Iterator[tuple[int, int, Mapping[str, str | None]]]:
    """Yield shard index, row index and some columns of every row."""
    shards = shard_paths(folder, manifest)
    for shard_idx, path in enumerate(progress(shards, desc=desc, total=len(shards), unit="shard")):
        row_idx = 0
        for rows in iter_row_groups(path, columns):
            for row in rows.to_pylist():
                yield shard_idx, row_idx, row
                row_idx += 1


def _write_corpus(
    folder: Path, partial: Path, manifest: Mapping[str, object], hits: _Hits
) -> _Written:
    """Link what stays as it is, write the touched shards again."""
    written = _Written()
    shards = shard_paths(folder, manifest)
    touched = {shards[shard_idx] for shard_idx in hits}
    beside = [path for path in sorted(folder.iterdir()) if path.is_file()]
    for path in (*shards, *beside):
        if path not in touched and path.name not in DESCRIBING_FILES:
            _link(path, partial / path.relative_to(folder))
    for shard_idx in progress(sorted(hits), desc="Writing", total=len(hits), unit="shard"):
        name = shards[shard_idx].relative_to(folder)
        num_rows = _write_shard(folder / name, partial / name, hits[shard_idx], written)
        digest = sha256_file(partial / name)
        written.shards[shard_idx] = {"file": name.as_posix(), "sha256": digest, "rows": num_rows}
    return written


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _write_shard(
    source: Path, target: Path, hits: Mapping[int, tuple[str, str]], written: _Written
) -> int:
    """Copy a shard less some rows; return how many it has left."""
    target.parent.mkdir(parents=True, exist_ok=True)
    start, num_kept = 0, 0
    with open_shard(source) as table_file, open_writer(target, table_file.schema_arrow) as writer:
        if not set(CORPUS_SCHEMA.names).issubset(table_file.schema_arrow.names):
            message = f"{source} is of an older version of jupyt5-corpus. Build the corpus again."
            raise CorpusError(message)
        for group_idx in range(table_file.num_row_groups):
            group = table_file.read_row_group(group_idx)
            places = range(start, start + group.num_rows)
            kept = [place - start for place in places if place not in hits]
            dropped = [place for place in places if place in hits]
            if kept:
                writer.write_table(group.take(kept).combine_chunks())
            if dropped:
                rows = group.take([place - start for place in dropped])
                written.totals.update(count_rows(rows))
                reasons = [hits[place] for place in dropped]
                written.removals += _describe_rows(rows, reasons)
            start += group.num_rows
            num_kept += len(kept)
    return num_kept


def _describe_rows(rows: pa.Table, reasons: Sequence[tuple[str, str]]) -> Iterator[Removal]:
    for row, (reason, detail) in zip(rows.to_pylist(), reasons, strict=True):
        yield Removal(
            repo=row["repo"],
            path=row["path"],
            commit=row["commit"],
            blob_sha=row["blob_sha"],
            fork_of=row["fork_of"],
            content_hash=row["content_hash"],
            is_substantial=is_substantial(cell["source"] for cell in row["cells"]),
            step=STEP,
            reason=reason,
            detail=detail,
        )


def _write_old_removals(
    folder: Path, partial: Path, manifest: Mapping[str, object], search: _Search
) -> list[Mapping[str, object]]:
    """Link the lists of ``removed/``; write those again that quote what is listed."""
    entries: list[Mapping[str, object]] = []
    paths = removed_paths(folder, manifest)
    for entry, path in zip(_entries(manifest, "removed_files"), paths, strict=True):
        target = partial / path.relative_to(folder)
        removals = list(read_removals(path))
        changed = [
            without_quotation(each) if search.must_not_quote(each) else each for each in removals
        ]
        if changed == removals:
            _link(path, target)
            entries.append(entry)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(pack_removals(changed))
            entries.append({**entry, "sha256": sha256_file(target)})
    return entries


def _write_removals(
    partial: Path, manifest: Mapping[str, object], removals: Sequence[Removal]
) -> dict[str, object]:
    """Write the next list of ``removed/``; a corpus may be opted out of several times."""
    name = (
        f"removed/opt-out-{len(cast('list[object]', manifest.get('opt_outs', []))):05d}.jsonl.zst"
    )
    path = partial / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack_removals(removals))
    return {"file": name, "sha256": sha256_file(path)}


def _update(
    manifest: Mapping[str, object],
    written: _Written,
    gone: Mapping[str, int],
    search: _Search,
) -> dict[str, object]:
    """Return the manifest of the smaller corpus."""
    num_before = cast("int", manifest["notebooks_kept"])
    num_after = num_before - len(written.removals)
    reasons = written.count_reasons()
    record = search.record() | {"removed": len(written.removals)}
    step = {
        "step": STEP,
        "notebooks_in": num_before,
        "notebooks_out": num_after,
        "removed": reasons,
    }
    removed = Counter(cast("Mapping[str, int]", manifest["removed"])) + Counter(reasons)
    num_validation = written.totals.pop("num_validation_notebooks", 0)
    gone = {
        **gone,
        "num_validation_notebooks": num_validation,
        "num_train_notebooks": len(written.removals) - num_validation,
    }
    shards = [
        written.shards.get(idx, entry) for idx, entry in enumerate(_entries(manifest, "shards"))
    ]
    return {
        **manifest,
        "notebooks_kept": num_after,
        "removed": dict(sorted(removed.items())),
        "steps": [*_entries(manifest, "steps"), step],
        "totals": _less(manifest["totals"], written.totals),
        "split": _less(manifest["split"], gone),
        "shards": shards,
        "removed_files": written.removed_files,
        "opt_outs": [*cast("list[object]", manifest.get("opt_outs", [])), record],
    }


def _less(counts: object, removed: Mapping[str, int]) -> dict[str, int]:
    before = cast("Mapping[str, int]", counts)
    return {name: count - removed.get(name, 0) for name, count in before.items()}


def _entries(manifest: Mapping[str, object], name: str) -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", manifest[name])
