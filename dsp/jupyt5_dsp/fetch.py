"""Rebuild the published DSP problem set from the repositories that its notebooks come from.

The package ships where each problem lives and digests of its cells, not the notebooks: these are
course work of others, most of it without a licence.
"""

import json
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from jupyt5.console import progress
from jupyt5.errors import NotebookError, ProblemSetError, UsageError
from jupyt5.files import write_atomic
from jupyt5.notebook import Cell, read_notebook
from jupyt5_dsp.curation.records import cell_sha256, make_record, render_notebook
from jupyt5_dsp.fetch_git import GitError, Trouble, fetch_commit, find_git
from jupyt5_dsp.fetch_manifest import Entry, Source
from jupyt5_dsp.jsonl import render_jsonl
from jupyt5_dsp.parallel import run_parallel
from jupyt5_dsp.problems import PROBLEMS_FILE, digest

__all__ = ["DEFAULT_MIRROR", "FetchConfig", "Fetched", "Missing", "fetch", "find_fault"]

DEFAULT_MIRROR = "https://github.com"

_FETCH_FILE = "fetch.json"
_GONE_FILE = "gone.jsonl"
_WORK_FOLDER = ".fetch"
_TOLD: Mapping[Trouble, str] = {
    "gone": "are gone",
    "unreachable": "could not be reached (repeat the command to try again)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """What ``dsp-eval fetch`` was asked for.

    Attributes:
        sources: The repositories.
        out_path: The set's folder.
        mirror: What stands before ``owner/name``: an address or a folder.
        num_workers: Repositories at a time.
    """

    sources: tuple[Source, ...]
    out_path: Path
    mirror: str
    num_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A problem that could not be rebuilt; ``trouble`` says whether to try again."""

    task_id: str
    repo: str
    commit: str
    trouble: Trouble
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What there is now, and what is missing."""

    num_problems: int
    num_rebuilt: int
    num_repositories: int
    missing: tuple[Missing, ...]

    @property
    def is_complete(self) -> bool:
        """Whether another try would bring nothing more."""
        return all(one.trouble == "gone" for one in self.missing)

    def to_record(self) -> dict[str, object]:
        """Return all of it as plain data."""
        return asdict(self)

    def describe(self, out_path: Path) -> str:
        """Return it in words."""
        lines = [
            f"{self.num_rebuilt} of {self.num_problems} problems rebuilt in {out_path}, "
            f"from {self.num_repositories} repositories"
        ]
        for trouble, told in _TOLD.items():
            lost = [one for one in self.missing if one.trouble == trouble]
            if lost:
                repos = sorted({one.repo for one in lost})
                named = ", ".join(repos[:5]) + (", …" if len(repos) > 5 else "")
                lines.append(f"{len(lost)} {told}: {named} (reasons: {out_path / _GONE_FILE})")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """One repository's part of the set: lines of the list by place, and what is missing."""

    records: Mapping[int, dict[str, object]]
    missing: tuple[Missing, ...]


def fetch(config: FetchConfig) -> Fetched:
    """Fetch what is not there yet, check it, and write the list of problems.

    Raises:
        UsageError: If the folder is taken, or the mirror is no address.
        ExecutionError: If there is no git.
        ProblemSetError: If nothing at all could be rebuilt; gives the first reason.
        OSError: If something cannot be written.
    """
    base = _read_mirror(config.mirror)
    _claim(config)
    find_git()
    work_path = config.out_path / _WORK_FOLDER
    work_path.mkdir(exist_ok=True)
    found: dict[str, _Rebuilt] = {}
    for source in config.sources:
        if known := _read_known(work_path, source):
            found[source.folder_name] = known
    todo = [source for source in config.sources if source.folder_name not in found]

    def job(source: Source, cancel: threading.Event) -> _Rebuilt:
        return _rebuild(source, base, config.out_path, cancel)

    results = run_parallel(job, todo, num_workers=config.num_workers)
    for source, rebuilt in progress(
        results, desc="repositories fetched", total=len(todo), unit="repository"
    ):
        found[source.folder_name] = rebuilt
    return _conclude(config, [found[source.folder_name] for source in config.sources])


def _rebuild(source: Source, base: str, out_path: Path, cancel: threading.Event) -> _Rebuilt:
    """Bring one repository into the set; what is there already of it is replaced."""
    work_path = out_path / _WORK_FOLDER
    clone_path = work_path / f"{source.folder_name}.tmp"
    shutil.rmtree(clone_path, ignore_errors=True)
    try:
        fetch_commit(
            f"{base}/{source.repo}", source.commit, source.notebook_paths, clone_path, cancel
        )
    except GitError as exc:
        shutil.rmtree(clone_path, ignore_errors=True)
        return _remember(work_path, source, _lose_all(source, exc))
    shutil.rmtree(clone_path / ".git", ignore_errors=True)
    records: dict[int, dict[str, object]] = {}
    missing: list[Missing] = []
    for path in source.notebook_paths:
        entries = [entry for entry in source.entries if entry.path == path]
        for entry, outcome in _rebuild_notebook(clone_path, source, path, entries):
            if isinstance(outcome, str):
                missing.append(_lose(source, entry, "gone", outcome))
            else:
                records[entry.line] = outcome
    target_path = out_path / source.folder_name
    shutil.rmtree(target_path, ignore_errors=True)
    clone_path.replace(target_path)
    return _remember(work_path, source, _Rebuilt(records, tuple(missing)))


def _rebuild_notebook(
    clone_path: Path, source: Source, path: str, entries: Sequence[Entry]
) -> Iterator[tuple[Entry, dict[str, object] | str]]:
    """Check one notebook's problems and write it with their task ids.

    Yields:
        Each problem with its line of the list, or with the reason why it is missing.
    """
    try:
        notebook = read_notebook(clone_path / path, name=path)
    except NotebookError as exc:
        yield from ((entry, str(exc)) for entry in entries)
        return
    faults = {entry.task_id: find_fault(notebook.cells, entry) for entry in entries}
    task_ids = {e.cell_idx: e.task_id for e in entries if not faults[e.task_id]}
    text = render_notebook(notebook, notebook.cells, task_ids)
    write_atomic(clone_path / path, text)
    for at, entry in enumerate(entries):
        if fault := faults[entry.task_id]:
            yield entry, fault
            continue
        record = make_record(
            entry.task_id,
            f"{source.folder_name}/{path}",
            notebook.cells,
            entry.cell_idx,
            [entry.cell_idx + 1],
        )
        record |= {
            "notebook_problem_index": at,
            "repository": source.folder_name,
            "commit": source.commit,
        }
        yield entry, record


def find_fault(cells: Sequence[Cell], entry: Entry) -> str:
    """Return why a notebook's cells are not those of the manifest; "" if they are."""
    if entry.cell_idx + 1 >= len(cells):
        return f"{entry.path} has only {len(cells)} cells"
    if cell_sha256(cells[entry.cell_idx].source) != entry.cell_sha256:
        return f"cell {entry.cell_idx} of {entry.path} is another one (SHA-256 differs)"
    if cell_sha256(cells[entry.cell_idx + 1].source) != entry.grading_sha256:
        return f"cell {entry.cell_idx + 1} of {entry.path} is another one (SHA-256 differs)"
    return ""


def _lose_all(source: Source, error: GitError) -> _Rebuilt:
    lost = (_lose(source, entry, error.trouble, str(error)) for entry in source.entries)
    return _Rebuilt({}, tuple(lost))


def _lose(source: Source, entry: Entry, trouble: Trouble, reason: str) -> Missing:
    return Missing(
        task_id=entry.task_id,
        repo=source.repo,
        commit=source.commit,
        trouble=trouble,
        reason=reason,
    )


def _remember(work_path: Path, source: Source, rebuilt: _Rebuilt) -> _Rebuilt:
    """Note that a repository is done with; one that could not be reached is not."""
    if all(one.trouble == "gone" for one in rebuilt.missing):
        document = {
            "records": list(rebuilt.records.items()),
            "missing": [asdict(one) for one in rebuilt.missing],
        }
        write_atomic(work_path / f"{source.folder_name}.json", json.dumps(document))
    return rebuilt


def _read_known(work_path: Path, source: Source) -> _Rebuilt | None:
    path = work_path / f"{source.folder_name}.json"
    if not path.is_file():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    return _Rebuilt(
        {int(line): record for line, record in document["records"]},
        tuple(Missing(**one) for one in document["missing"]),
    )


def _conclude(config: FetchConfig, rebuilt: Sequence[_Rebuilt]) -> Fetched:
    records = dict(sorted(pair for one in rebuilt for pair in one.records.items()))
    missing = tuple(lost for one in rebuilt for lost in one.missing)
    write_atomic(
        config.out_path / _GONE_FILE,
        render_jsonl([cast("dict[str, object]", asdict(one)) for one in missing]),
    )
    if not records:
        reason = missing[0].reason if missing else "the manifest is empty"
        message = (
            f"None of {len(config.sources)} repositories could be fetched from {config.mirror}: "
            f"{reason}. Check the network, or give another --mirror."
        )
        raise ProblemSetError(message)
    write_atomic(config.out_path / PROBLEMS_FILE, render_jsonl(list(records.values())))
    return Fetched(
        num_problems=len(records) + len(missing),
        num_rebuilt=len(records),
        num_repositories=sum(bool(one.records) for one in rebuilt),
        missing=missing,
    )


def _claim(config: FetchConfig) -> None:
    """Make the folder, or make sure that this set was begun in it."""
    out_path = config.out_path
    identity = {"manifest": digest([repr(source) for source in config.sources])}
    fetch_path = out_path / _FETCH_FILE
    if fetch_path.is_file():
        if json.loads(fetch_path.read_text(encoding="utf-8")) != identity:
            message = f"{out_path} holds a set from another manifest. Choose another --out."
            raise UsageError(message)
        return
    if out_path.exists() and (not out_path.is_dir() or any(out_path.iterdir())):
        message = (
            f"{out_path} is not empty and was not made by dsp-eval fetch. Choose another --out."
        )
        raise UsageError(message)
    out_path.mkdir(parents=True, exist_ok=True)
    write_atomic(fetch_path, json.dumps(identity) + "\n")


def _read_mirror(mirror: str) -> str:
    if "://" in mirror:
        return mirror.rstrip("/")
    path = Path(mirror)
    if not path.is_dir():
        message = (
            f"--mirror {mirror} is neither an address, as in {DEFAULT_MIRROR}, nor a folder. "
            "Give what stands before owner/name."
        )
        raise UsageError(message)
    return path.resolve().as_uri()
