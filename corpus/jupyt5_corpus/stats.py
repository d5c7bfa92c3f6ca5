"""``jupyt5-corpus stats``: what is in a corpus, counted from its rows, a row group at a time."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from jupyt5.console import progress
from jupyt5.errors import CorpusError
from jupyt5_corpus.removals import read_removals
from jupyt5_corpus.shards import iter_row_groups, removed_paths, require_manifest, shard_paths

__all__ = ["CorpusStats", "read_stats"]

_BYTES_PER_TOKEN = 3.5  # the estimate of num_tokens_estimate
_GROUPED_BY = ("language", "licence", "nbformat", "split")
_COLUMNS = ("repo", "markdown_focused", "num_tokens_estimate", "cells", *_GROUPED_BY)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStats:
    """Counts of a finished corpus.

    Cells and tokens are those of the notebooks in the corpus. Tokens are estimated as UTF-8 bytes
    of cell sources / 3.5, rounded for each notebook in ``num_tokens`` and ``num_focused_tokens``.

    Attributes:
        num_repositories_in: Repositories with any notebook that came in.
        num_repositories: Repositories with a notebook in the corpus.
        num_notebooks_in: Notebooks that came in, readable or not.
        num_notebooks: Those that could be read as notebooks.
        num_unique_notebooks: ``num_notebooks`` less the exact duplicates that were removed.
        num_kept_notebooks: Notebooks in the corpus, after all steps.
        num_focused_notebooks: Those of them that are Markdown focused.
        num_cells: Cells of all kinds; what is neither code nor Markdown is the rest.
        num_redactions: None if the corpus has no such column.
        groups: Column → value → number of notebooks, most frequent first.
        removed: Step → reason → number of notebooks removed, in the order of the steps.
    """

    num_repositories_in: int
    num_repositories: int
    num_notebooks_in: int
    num_notebooks: int
    num_unique_notebooks: int
    num_kept_notebooks: int
    num_focused_notebooks: int
    num_cells: int
    num_code_cells: int
    num_markdown_cells: int
    num_tokens: int
    num_code_tokens: int
    num_markdown_tokens: int
    num_focused_tokens: int
    num_redactions: int | None
    groups: Mapping[str, Mapping[str, int]]
    removed: Mapping[str, Mapping[str, int]]


class _Tally:
    """Sums over row groups; repositories are kept as 8-byte digests."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_focused = 0
        self.num_tokens = 0
        self.num_focused_tokens = 0
        self.num_redactions: int | None = None
        self.cells: Counter[str] = Counter()
        self.num_bytes: Counter[str] = Counter()
        self.groups: dict[str, Counter[str]] = {name: Counter() for name in _GROUPED_BY}
        self.repos: set[bytes] = set()

    def add(self, rows: pa.Table) -> None:
        """Count the rows of one row group."""
        self.num_rows += rows.num_rows
        focused = rows.column("markdown_focused").to_numpy()
        self.num_focused += int(focused.sum())
        num_tokens = rows.column("num_tokens_estimate").to_numpy()
        self.num_tokens += int(num_tokens.sum())
        self.num_focused_tokens += int(num_tokens[focused].sum())
        self.repos.update(map(_digest, pc.unique(rows.column("repo")).to_pylist()))
        if "num_redactions" in rows.column_names:
            added = pc.sum(rows.column("num_redactions")).as_py() or 0
            self.num_redactions = (self.num_redactions or 0) + added
        for name, counts in self.groups.items():
            for entry in rows.column(name).value_counts().to_pylist():
                value = entry["values"]
                counts[_UNKNOWN if value is None else str(value)] += entry["counts"]
        for chunk in rows.column("cells").chunks:
            self._add_cells(chunk)

    def _add_cells(self, cells: pa.ListArray) -> None:
        flat = cells.flatten()
        num_bytes = pc.binary_length(flat.field("source")).to_numpy(zero_copy_only=False)
        kinds = flat.field("kind")
        for entry in kinds.value_counts().to_pylist():
            kind = entry["values"]
            self.cells[kind] += entry["counts"]
            of_kind = pc.equal(kinds, kind).to_numpy(zero_copy_only=False)
            self.num_bytes[kind] += int(num_bytes[of_kind].sum())


def read_stats(folder: Path) -> CorpusStats:
    """Count a finished corpus. Memory does not grow with it but for 8 bytes a repository.

    Raises:
        CorpusError: If the folder holds no corpus, or its shards are damaged or not what the
            manifest says.
    """
    manifest = require_manifest(folder)
    tally = _Tally()
    shards = shard_paths(folder, manifest)
    for path in progress(shards, desc="Counting", total=len(shards), unit="shard"):
        for rows in iter_row_groups(path, _COLUMNS, where_present=["num_redactions"]):
            tally.add(rows)
    if tally.num_rows != manifest["notebooks_kept"]:
        message = (
            f"The shards of {folder} have {tally.num_rows} rows, its manifest says "
            f"{manifest['notebooks_kept']}. Run `jupyt5-corpus check` on it."
        )
        raise CorpusError(message)
    return _make_stats(manifest, tally, _count_repositories_in(folder, manifest, tally.repos))


def _count_repositories_in(folder: Path, manifest: Mapping[str, object], kept: set[bytes]) -> int:
    seen = set(kept)
    for path in removed_paths(folder, manifest):
        seen.update(_digest(each.repo) for each in read_removals(path))
    return len(seen)


def _make_stats(
    manifest: Mapping[str, object], tally: _Tally, num_repositories_in: int
) -> CorpusStats:
    steps = cast("Sequence[Mapping[str, object]]", manifest["steps"])
    removed: dict[str, Counter[str]] = {}
    for step in steps:  # `opt_out` may be there several times
        of_step = removed.setdefault(str(step["step"]), Counter())
        of_step.update(cast("Mapping[str, int]", step["removed"]))
    num_in = cast("int", manifest["notebooks_in"])
    num_readable = num_in - sum(removed.get("parse", {}).values())
    return CorpusStats(
        num_repositories_in=num_repositories_in,
        num_repositories=len(tally.repos),
        num_notebooks_in=num_in,
        num_notebooks=num_readable,
        num_unique_notebooks=num_readable - sum(removed.get("exact_duplicates", {}).values()),
        num_kept_notebooks=tally.num_rows,
        num_focused_notebooks=tally.num_focused,
        num_cells=tally.cells.total(),
        num_code_cells=tally.cells["code"],
        num_markdown_cells=tally.cells["markdown"],
        num_tokens=tally.num_tokens,
        num_code_tokens=round(tally.num_bytes["code"] / _BYTES_PER_TOKEN),
        num_markdown_tokens=round(tally.num_bytes["markdown"] / _BYTES_PER_TOKEN),
        num_focused_tokens=tally.num_focused_tokens,
        num_redactions=tally.num_redactions,
        groups={name: _sorted(counts) for name, counts in tally.groups.items()},
        removed={step: dict(reasons) for step, reasons in removed.items()},
    )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _digest(repo: str) -> bytes:
    return hashlib.blake2b(repo.lower().encode(), digest_size=8).digest()
