"""What a folder of shards says about its repositories: ``repos.jsonl`` and ``files.jsonl.zst``.

Both are optional. ``repos.jsonl`` has one repository a line (``owner``, ``repo``, ``licence``,
``commit``, ``fork_of``, ``retrieved``, all but the first two optional); ``files.jsonl.zst`` one
notebook a line (``path`` = ``owner/repo/path``, ``shard``, ``blob``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import open_packed

__all__ = [
    "FILES_NAME",
    "REPOS_NAME",
    "Repository",
    "read_blobs",
    "read_repositories",
    "repository_of",
]

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


def read_repositories(folder: Path) -> Mapping[str, Repository]:
    """Read ``repos.jsonl`` of a folder, by ``owner/repo`` in lower case; empty without it.

    A process reads it once, however many units of the folder it works on.

    Raises:
        CorpusError: If a line is not as described above.
    """
    path = folder / REPOS_NAME
    return _read_repositories(path, path.stat().st_mtime_ns) if path.is_file() else {}


def read_blobs(folder: Path, shard: str) -> Mapping[str, str]:
    """Read the git blob ids of one shard's notebooks from ``files.jsonl.zst``; empty without it.

    A process reads it once, however many shards of the folder it works on.

    Raises:
        CorpusError: If a line is not as described above or the file is damaged.
    """
    path = folder / FILES_NAME
    return _read_blobs(path, path.stat().st_mtime_ns).get(shard, {}) if path.is_file() else {}


def repository_of(
    repo: str, found: Repository | None, listed: Mapping[str, Repository]
) -> Repository:
    """Put together what is known about a repository.

    Args:
        repo: ``owner/name``.
        found: What the source itself says, e.g. the commit of a clone.
        listed: What ``read_repositories`` returned; it goes before ``found``.
    """
    first = listed.get(repo.lower())
    if first is None or found is None:
        return first or found or Repository()
    licence = (first if first.licence else found).licence
    return Repository(
        licence=licence,
        licence_source=(first if first.licence else found).licence_source if licence else None,
        commit=first.commit or found.commit,
        fork_of=first.fork_of or found.fork_of,
        retrieved=first.retrieved or found.retrieved,
    )


@lru_cache(maxsize=2)
def _read_repositories(path: Path, _modified_ns: int) -> Mapping[str, Repository]:
    repositories: dict[str, Repository] = {}
    with path.open("rb") as stream:
        for line_number, line in enumerate(stream, start=1):
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


@lru_cache(maxsize=2)
def _read_blobs(path: Path, _modified_ns: int) -> Mapping[str, Mapping[str, str]]:
    blobs: dict[str, dict[str, str]] = {}
    for line_number, line in enumerate(_lines(path), start=1):
        entry = _parse_line(path, line_number, line)
        name, blob = _text(entry, "path"), _text(entry, "blob")
        if name is None:
            raise _bad_line(path, line_number, "path is missing")
        shard = _text(entry, "shard")
        if blob is not None and shard is not None:
            blobs.setdefault(shard, {})[name] = blob
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
