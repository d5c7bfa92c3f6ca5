"""What a folder of shards says about its repositories: ``repos.jsonl`` and ``files.jsonl.zst``.

Both are optional. ``repos.jsonl`` has one repository a line (``owner``, ``repo``, ``licence``,
``commit``, ``fork_of``, ``retrieved``, all but the first two optional); ``files.jsonl.zst`` one
notebook a line (``path`` = ``owner/repo/path``, ``shard``, ``blob``). All values are text or null.
Of several lines for one repository the last counts, but two may not state different licences.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import orjson
from numpy.typing import NDArray

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
_MAX_SHOWN_BYTES = 60


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


class _Listed(Mapping[str, Repository]):
    """``repos.jsonl``, of which only the places of its lines stay in memory: 16 bytes a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        keys, places, licences = array("Q"), array("q"), array("I")
        numbers: dict[str | None, int] = {None: 0}
        with path.open("rb") as stream:
            for place, name, repository in _repository_lines(path, stream):
                keys.append(_key(name))
                places.append(place)
                licence = repository.licence and repository.licence.lower()
                licences.append(numbers.setdefault(licence, len(numbers)))
        order = np.argsort(np.asarray(keys, np.uint64), kind="stable")
        self._keys = np.asarray(keys, np.uint64)[order]
        self._places = np.asarray(places, np.int64)[order]
        _check_licences(path, self._keys, self._places, np.asarray(licences, np.uint32)[order])
        # Notebooks of one repository follow each other.
        self._look_up = lru_cache(maxsize=256)(self._read)

    def __getitem__(self, name: str) -> Repository:
        repository = self._look_up(name)
        if repository is None:
            raise KeyError(name)
        return repository

    def __iter__(self) -> Iterator[str]:
        with self._path.open("rb") as stream:
            yield from dict.fromkeys(name for _, name, _ in _repository_lines(self._path, stream))

    def __len__(self) -> int:
        return len(set(self))

    def _read(self, name: str) -> Repository | None:
        start, stop = (
            int(np.searchsorted(self._keys, np.uint64(_key(name)), side=side))
            for side in ("left", "right")
        )
        # Of several lines for one repository, the last counts.
        for place in reversed(self._places[start:stop].tolist()):
            with self._path.open("rb") as stream:
                stream.seek(place)
                _, found, repository = next(_repository_lines(self._path, stream))
            if found == name:
                return repository
        return None


def _check_licences(
    path: Path,
    keys: NDArray[np.uint64],
    places: NDArray[np.int64],
    licences: NDArray[np.uint32],
) -> None:
    """Check that no repository has two licences; 0 stands for none.

    Raises:
        CorpusError: If one has.
    """
    has_licence = licences > 0
    keys, places, licences = keys[has_licence], places[has_licence], licences[has_licence]
    is_other = (keys[1:] == keys[:-1]) & (licences[1:] != licences[:-1])
    if is_other.any():
        idx = int(np.flatnonzero(is_other)[0])
        first_line, _, first = _line_at(path, int(places[idx]))
        line_number, name, second = _line_at(path, int(places[idx + 1]))
        reason = f"{name} has the licence {second} here and {first} in line {first_line}"
        raise _bad_line(path, line_number, reason)


def _line_at(path: Path, place: int) -> tuple[int, str, str | None]:
    """Return the number of the line that begins at ``place``, and the name and licence in it."""
    line_number = 1
    with path.open("rb") as stream:
        while stream.tell() < place:
            stream.readline()
            line_number += 1
        _, name, repository = next(_repository_lines(path, stream))
    return line_number, name, repository.licence


@lru_cache(maxsize=2)
def _read_repositories(path: Path, _modified_ns: int) -> Mapping[str, Repository]:
    return _Listed(path)


def _repository_lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, str, Repository]]:
    """Yield the place, name and content of each line from where the stream stands."""
    place = stream.tell()
    for line_number, line in enumerate(stream, start=1):
        if line.strip():
            entry = _parse_line(path, line_number, line)
            text = partial(_text, path, line_number, entry)
            if "owner" not in entry and "created" in entry and "url" in entry:
                raise _is_output_of_list(path, line_number)
            owner, name, licence = text("owner"), text("repo"), text("licence")
            if owner is None or name is None:
                raise _bad_line(path, line_number, "owner or repo is missing")
            yield (
                place,
                f"{owner}/{name}".lower(),
                Repository(
                    licence=licence,
                    licence_source=REPOS_NAME if licence else None,
                    commit=text("commit"),
                    fork_of=text("fork_of"),
                    retrieved=text("retrieved"),
                ),
            )
        place += len(line)


def _key(name: str) -> int:
    name_bytes = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name_bytes, digest_size=8).digest(), "big")


@lru_cache(maxsize=2)
def _read_blobs(path: Path, _modified_ns: int) -> Mapping[str, Mapping[str, str]]:
    blobs: dict[str, dict[str, str]] = {}
    for line_number, line in enumerate(_lines(path), start=1):
        entry = _parse_line(path, line_number, line)
        text = partial(_text, path, line_number, entry)
        name, blob, shard = text("path"), text("blob"), text("shard")
        if name is None:
            raise _bad_line(path, line_number, "path is missing")
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


def _text(path: Path, line_number: int, entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        shown = orjson.dumps(value)[:_MAX_SHOWN_BYTES].decode("utf-8", "replace")
        raise _bad_line(path, line_number, f"{name} is {shown}, not text")
    return value or None


def _is_output_of_list(path: Path, line_number: int) -> CorpusError:
    return CorpusError(
        f"Line {line_number} of {path} describes no fetched repository: it looks like the output "
        f"of `jupyt5-corpus list`. Call that file list.jsonl; a {path.name} beside notebooks says "
        "what is known of their repositories (`owner`, `repo`, `licence`, …)."
    )


def _bad_line(path: Path, line_number: int, reason: str) -> CorpusError:
    return CorpusError(
        f"Line {line_number} of {path} cannot be used: {reason}. Mend the line, or take the file "
        "away to build without its metadata."
    )
