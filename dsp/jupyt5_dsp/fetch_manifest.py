"""The manifest of the published DSP set: where each problem lives, and digests of its cells."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import cast

from jupyt5.errors import ProblemSetError

__all__ = ["Entry", "Source", "read_manifest"]

_FILE = "manifest.jsonl"
_REPO = re.compile(r"[\w.\-]+/[\w.\-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One problem: its solution cell, with the grading cell right after it.

    ``line`` is its place in the manifest.
    """

    line: int
    task_id: str
    path: str
    cell_idx: int
    cell_sha256: str
    grading_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A repository at a commit, and its problems in the order of their list."""

    repo: str
    commit: str
    entries: tuple[Entry, ...]

    @property
    def folder_name(self) -> str:
        """Name of the repository's folder in the set."""
        return self.repo.replace("/", ".")

    @property
    def notebook_paths(self) -> tuple[str, ...]:
        """The notebooks that have problems."""
        return tuple(dict.fromkeys(entry.path for entry in self.entries))


def read_manifest(path: Path | None = None) -> tuple[Source, ...]:
    """Read the manifest that ships with the package, or another one.

    Raises:
        ProblemSetError: If a line is damaged; names file and line.
        OSError: If it cannot be read.
    """
    if path is None:
        text = (files("jupyt5_dsp") / "data" / _FILE).read_text(encoding="utf-8")
        return _group(_iter_lines(text, _FILE), _FILE)
    return _group(_iter_lines(path.read_text(encoding="utf-8"), str(path)), str(path))


def _group(lines: Iterable[tuple[str, str, Entry]], label: str) -> tuple[Source, ...]:
    """Put the problems of each repository together."""
    groups: dict[str, tuple[str, list[Entry]]] = {}
    for repo, commit, entry in lines:
        known_commit, entries = groups.setdefault(repo, (commit, []))
        if known_commit != commit:
            message = f"{label} names {repo} at two commits. Keep one of them."
            raise ProblemSetError(message)
        entries.append(entry)
    return tuple(
        Source(repo=repo, commit=commit, entries=tuple(entries))
        for repo, (commit, entries) in groups.items()
    )


def _iter_lines(text: str, label: str) -> Iterator[tuple[str, str, Entry]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = cast("dict[str, object]", json.loads(line))
            yield _read_line(record, number)
        except (ValueError, KeyError, TypeError) as exc:
            reason = f"field {exc} is missing" if isinstance(exc, KeyError) else str(exc)
            message = f"{label}, line {number}: {reason}. Mend or remove the line."
            raise ProblemSetError(message) from exc


def _read_line(record: dict[str, object], line: int) -> tuple[str, str, Entry]:
    """Read one line; it becomes part of paths and of commands, so nothing odd may pass."""
    path = PurePosixPath(str(record["path"]))
    if path.is_absolute() or ".." in path.parts or not path.name:
        message = f"path {path} leads out of the repository"
        raise ValueError(message)
    cell_idx = record["cell_index"]
    if not isinstance(cell_idx, int) or isinstance(cell_idx, bool) or cell_idx < 0:
        message = f"cell_index {cell_idx!r} is not the index of a cell"
        raise ValueError(message)
    entry = Entry(
        line=line,
        task_id=str(record["task_id"]),
        path=str(path),
        cell_idx=cell_idx,
        cell_sha256=_match(record, "cell_sha256", _DIGEST),
        grading_sha256=_match(record, "grading_sha256", _DIGEST),
    )
    return _match(record, "repo", _REPO), _match(record, "commit", _COMMIT), entry


def _match(record: dict[str, object], name: str, pattern: re.Pattern[str]) -> str:
    value = str(record[name])
    if not pattern.fullmatch(value) or set(value.split("/")) & {".", ".."}:
        message = f"{name} is {value!r}"
        raise ValueError(message)
    return value
