"""What a folder of shards says about its repositories: ``repos.jsonl`` and ``files.jsonl.zst``.

Both are optional. ``repos.jsonl`` has one repository a line (``owner``, ``repo``, ``licence``,
``commit``, ``fork_of``, ``retrieved``, all but the first two optional); ``files.jsonl.zst`` one
notebook a line (``path`` = ``owner/repo/path``, ``shard``, ``blob``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import open_packed

__all__ = ["FILES_NAME", "REPOS_NAME", "Repository", "read_blobs", "read_repositories"]

REPOS_NAME = "repos.jsonl"
FILES_NAME = "files.jsonl.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What is known about one repository; None stands for "not stated"."""

    licence: str | None = None
    licence_source: str | None = None
    commit: str | None = None
    fork_of: str | None = None
    retrieved: str | None = None


def read_repositories(folder: Path) -> dict[str, Repository]:
    """Read ``repos.jsonl`` of a folder, by ``owner/repo`` in lower case; empty without it.

    Raises:
        CorpusError: If a line is not as described above.
    """
    path = folder / REPOS_NAME
    if not path.is_file():
        return {}
    repositories: dict[str, Repository] = {}
    for line_number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        entry = _parse_line(path, line_number, line)
        owner, name = _text(entry, "owner"), _text(entry, "repo")
        if owner is None or name is None:
            raise _bad_line(path, line_number, "owner or repo is missing")
        licence = _text(entry, "licence")
        repositories[f"{owner}/{name}".lower()] = Repository(
            licence=licence,
            licence_source=REPOS_NAME if licence else None,
            commit=_text(entry, "commit"),
            fork_of=_text(entry, "fork_of"),
            retrieved=_text(entry, "retrieved"),
        )
    return repositories


def read_blobs(folder: Path, shard: str) -> dict[str, str]:
    """Read the git blob ids of one shard's notebooks from ``files.jsonl.zst``; empty without it.

    Raises:
        CorpusError: If a line is not as described above or the file is damaged.
    """
    path = folder / FILES_NAME
    if not path.is_file():
        return {}
    blobs: dict[str, str] = {}
    for line_number, line in enumerate(_lines(path), start=1):
        entry = _parse_line(path, line_number, line)
        name, blob = _text(entry, "path"), _text(entry, "blob")
        if name is None:
            raise _bad_line(path, line_number, "path is missing")
        if blob is not None and entry.get("shard") == shard:
            blobs[name] = blob
    return blobs


def _lines(path: Path) -> Iterator[bytes]:
    with open_packed(path) as stream:
        for line in stream:
            if line.strip():
                yield line


def _parse_line(path: Path, line_number: int, line: bytes) -> Mapping[str, object]:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise _bad_line(path, line_number, str(exc)) from exc
    if not isinstance(entry, dict):
        raise _bad_line(path, line_number, "not a JSON object")
    return cast("Mapping[str, object]", entry)


def _text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None


def _bad_line(path: Path, line_number: int, reason: str) -> CorpusError:
    return CorpusError(
        f"Line {line_number} of {path} cannot be used: {reason}. Mend the line, or take the file "
        "away to build without its metadata."
    )
