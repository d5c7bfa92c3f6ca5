"""Holdout lists: what must never be trained on, as JSON lines of hashes and names.

One entry a line: ``{"source": "DSP", "repo": "owner/name"}`` (a folder of notebooks goes by its
name alone), or with ``content_sha256`` (see
``jupyt5_corpus.content``) or ``cell_sha256`` (SHA-256 of a cell's UTF-8 source) instead. An entry
may have several of the three; each one matches by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.list_entries import parse_entry, read_names

__all__ = [
    "BUNDLED_NAME",
    "HoldoutFile",
    "Holdouts",
    "bundled_file",
    "count_entries",
    "from_dsp_manifest",
    "load",
    "read_file",
]

BUNDLED_NAME = "dsp.jsonl"
_FIELDS = ("repo", "content_sha256", "cell_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutFile:
    """A list as it was read: its name and its bytes, which the manifest records by hash."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdouts:
    """All lists together: what to look for → the entry's source (the benchmark's name)."""

    repos: Mapping[str, str]
    contents: Mapping[str, str]
    cells: Mapping[str, str]


def bundled_file() -> HoldoutFile:
    """Return the list that is always applied: repositories and cells of the DSP benchmark."""
    resource = files("jupyt5_corpus") / "holdouts" / BUNDLED_NAME
    return HoldoutFile(name=BUNDLED_NAME, data=resource.read_bytes())


def read_file(path: Path) -> HoldoutFile:
    """Read a list from disk.

    Raises:
        UsageError: If it cannot be read.
    """
    try:
        return HoldoutFile(name=path.name, data=path.read_bytes())
    except OSError as exc:
        message = f"Holdout list {path} cannot be read: {exc.strerror}. Check the path."
        raise UsageError(message) from exc


def load(holdout_files: Sequence[HoldoutFile]) -> Holdouts:
    """Put the lists together.

    Raises:
        CorpusError: If a line is malformed; names file and line.
    """
    tables: dict[str, dict[str, str]] = {field: {} for field in _FIELDS}
    for holdout_file in holdout_files:
        for line_number, line in enumerate(holdout_file.data.splitlines(), start=1):
            if not line.strip():
                continue
            for field, value, source in _read_line(line, f"{holdout_file.name}:{line_number}"):
                tables[field].setdefault(value, source)
    return Holdouts(
        repos=tables["repo"], contents=tables["content_sha256"], cells=tables["cell_sha256"]
    )


def from_dsp_manifest(path: Path, source: str) -> bytes:
    """Make a list from a DSP manifest: every repository, every solution and grading cell.

    Raises:
        CorpusError: If the file is not such a manifest.
        OSError: If it cannot be read.
    """
    repos: set[str] = set()
    cells: set[str] = set()
    for line_number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            entry = cast("dict[str, str]", orjson.loads(line))
            repos.add(entry["repo"])
            cells.update((entry["cell_sha256"], entry["grading_sha256"]))
        except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
            message = (
                f"Line {line_number} of {path} has no repo, cell_sha256 or grading_sha256. "
                "Give the manifest.jsonl of a DSP problem set."
            )
            raise CorpusError(message) from exc
    entries = [{"repo": repo, "source": source} for repo in sorted(repos)]
    entries += [{"cell_sha256": digest, "source": source} for digest in sorted(cells)]
    return b"".join(orjson.dumps(entry) + b"\n" for entry in entries)


def _read_line(line: bytes, where: str) -> Iterator[tuple[str, str, str]]:
    fail = partial(_bad_line, where)
    entry = parse_entry(line, fail)
    source = entry.get("source")
    if not isinstance(source, str) or not source:
        raise fail('no "source" (the name of what is held out)')
    for field, value in read_names(entry, _FIELDS, fail):
        yield field, value, source


def _bad_line(where: str, reason: str) -> CorpusError:
    return CorpusError(
        f"Holdout list {where} cannot be used: {reason}. Each line is a JSON object with source "
        "and at least one of repo (owner/name, or a folder's name), content_sha256, cell_sha256."
    )


def count_entries(holdouts: Holdouts) -> Mapping[str, int]:
    """Count what is looked for, by kind."""
    tables = zip(_FIELDS, (holdouts.repos, holdouts.contents, holdouts.cells), strict=True)
    return {field: len(table) for field, table in tables}
