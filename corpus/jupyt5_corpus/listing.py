"""Listing repositories from GH Archive's events or answers of GitHub's REST interface.

Both describe repositories inside larger documents: events of pull requests and forks since 2015,
every event before, and the items of a search. A repository is listed if any description of it has
the wanted primary language and a date of creation before the given one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

import orjson

from jupyt5.console import progress
from jupyt5.errors import CorpusError
from jupyt5.files import write_atomic
from jupyt5_corpus.compression import open_packed

__all__ = ["list_repositories"]

_MAX_LINE_BYTES = 64 << 20
_MAX_DOCUMENT_BYTES = 256 << 20
_FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-]*/[A-Za-z0-9._\-]+")
_HOST = re.compile(r"[a-z0-9][a-z0-9.\-]*(:\d+)?")
_OLD_DATE = "%Y/%m/%d %H:%M:%S %z"
# Where events and answers keep descriptions of repositories.
_PLACES: tuple[tuple[str, ...], ...] = (
    ("repository",),
    ("payload", "repository"),
    ("payload", "forkee"),
    ("payload", "pull_request", "base", "repo"),
    ("payload", "pull_request", "head", "repo"),
)

_COUNTED = (
    "documents",
    "bad_lines",
    "damaged_files",
    "descriptions",
    "other_language",
    "too_young",
    "without_date_or_name",
    "repeated",
    "listed",
)

Json = Mapping[str, object]


@dataclass(slots=True, kw_only=True)
class _Found:
    url: str
    created: datetime
    fork_of: str | None = None
    licence: str | None = None


@dataclass(slots=True, kw_only=True)
class _State:
    language: str
    before: datetime
    found: dict[str, _Found] = field(default_factory=dict[str, _Found])
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))


def list_repositories(
    files: Sequence[Path], out: Path, *, language: str, before: datetime
) -> Mapping[str, int]:
    """Write a list that ``fetch`` takes, sorted by name.

    Args:
        files: Packed or plain: one JSON document a line, or one for the whole file.
        out: The list: JSON lines with ``url``, ``created``, ``fork_of`` and ``licence``.
        language: Primary language, as GitHub calls it; capitals do not matter.
        before: Repositories created then or later are left out.

    Returns:
        Counts of what was read and why it was left out; those after ``descriptions`` add up to it.

    Raises:
        OSError: If a file cannot be read or the list cannot be written.
    """
    state = _State(language=language, before=before)
    for path in progress(files, desc="Listing", total=len(files), unit="file"):
        try:
            with open_packed(path) as stream:
                for document in _documents(stream, state.counts):
                    for description, parent in _descriptions(document):
                        _consider(state, description, parent)
        except CorpusError:
            state.counts["damaged_files"] += 1
    state.counts["listed"] = len(state.found)
    lines = [
        orjson.dumps(
            {
                "url": found.url,
                "created": found.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "fork_of": found.fork_of,
                "licence": found.licence,
            }
        )
        for _, found in sorted(state.found.items())
    ]
    write_atomic(out, b"".join(line + b"\n" for line in lines))
    return state.counts


def _documents(stream: BinaryIO, counts: dict[str, int]) -> Iterator[object]:
    """Yield the JSON documents of a file: one a line, or else the whole of it."""
    first = stream.readline(_MAX_LINE_BYTES)
    document, rest = _parse(first), b""
    if document is None:
        rest = stream.read(_MAX_DOCUMENT_BYTES)
        document = _parse(first + rest)
        # Neither a whole document nor a good first line: the other lines may be good.
        rest = b"" if document is not None else rest
    documents = chain([document] if first.strip() else [], map(_parse, rest.splitlines()))
    for each in chain(documents, map(_parse, _lines(stream))):
        counts["bad_lines" if each is None else "documents"] += 1
        if each is not None:
            yield each


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(_MAX_LINE_BYTES):
        if line.strip():
            yield line


def _parse(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _descriptions(document: object) -> Iterator[tuple[Json, str | None]]:
    """Yield what a document says of repositories, with the name of what each was forked from."""
    for described in _entries(document):
        if "full_name" in described:
            parent = _name_of(described.get("parent")) or _name_of(described.get("source"))
            yield described, parent
        for place in _PLACES:
            value = _dig(described, place)
            if isinstance(value, dict):
                forked = {"full_name": _dig(described, ("repo", "name"))}
                parent = _name_of(forked) if place[-1] == "forkee" else None
                yield cast("Json", value), parent


def _entries(document: object) -> Iterator[Json]:
    values = cast("list[object]", document) if isinstance(document, list) else [document]
    for value in values:
        items = cast("Json", value).get("items") if isinstance(value, dict) else None
        entries = cast("list[object]", items if isinstance(items, list) else [value])
        yield from (cast("Json", entry) for entry in entries if isinstance(entry, dict))


def _dig(document: Json, place: Sequence[str]) -> object:
    value: object = document
    for name in place:
        value = cast("Json", value).get(name) if isinstance(value, dict) else None
    return value


def _consider(state: _State, description: Json, parent: str | None) -> None:
    state.counts["descriptions"] += 1
    name, created = _name_of(description), _moment(description.get("created_at"))
    language = description.get("language")
    if not isinstance(language, str) or language.casefold() != state.language.casefold():
        state.counts["other_language"] += 1
    elif name is None or created is None:
        state.counts["without_date_or_name"] += 1
    elif created >= state.before:
        state.counts["too_young"] += 1
    else:
        spdx = _dig(description, ("license", "spdx_id"))
        licence = spdx if isinstance(spdx, str) and spdx != "NOASSERTION" else None
        url = f"https://{_host(description)}/{name}.git"
        new = _Found(url=url, created=created, fork_of=parent, licence=licence)
        old = state.found.get(name.lower())
        state.counts["repeated"] += old is not None
        state.found[name.lower()] = _merge(old, new) if old else new


def _merge(one: _Found, other: _Found) -> _Found:
    """Put two descriptions together, the same in either order."""
    return _Found(
        url=min(one.url, other.url),
        created=min(one.created, other.created),
        fork_of=min(filter(None, (one.fork_of, other.fork_of)), default=None),
        licence=min(filter(None, (one.licence, other.licence)), default=None),
    )


def _name_of(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    description = cast("Json", value)
    name = description.get("full_name")
    if not isinstance(name, str):
        owner = description.get("owner")
        owner = cast("Json", owner).get("login") if isinstance(owner, dict) else owner
        name = description.get("name")
        if not isinstance(owner, str) or not isinstance(name, str):
            return None
        name = f"{owner}/{name}"
    is_name = _FULL_NAME.fullmatch(name) and name.rpartition("/")[2].strip(".")
    return name if is_name else None


def _host(description: Json) -> str:
    for field_name in ("clone_url", "html_url"):
        url = description.get(field_name)
        if isinstance(url, str):
            with suppress(ValueError):
                host = urlsplit(url).netloc.rpartition("@")[2].lower()
                if _HOST.fullmatch(host):
                    return host
    return "github.com"


def _moment(value: object) -> datetime | None:
    """Read a date as GitHub wrote it over the years: ISO 8601, with slashes, or in seconds."""
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, int):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str) and "/" in value:
            return datetime.strptime(value, _OLD_DATE)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
