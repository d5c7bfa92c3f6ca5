"""The list of repositories to fetch: one address a line, or JSON lines with ``url``."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import SplitResult, urlsplit

import orjson

from jupyt5_corpus.compression import open_packed

__all__ = ["PROTOCOLS", "Failure", "Target", "read_targets", "without_credentials"]

PROTOCOLS = ("https", "http", "git")
"""What repositories are fetched over; not ssh, which would act in the user's name."""

_MAX_LINE_BYTES = 64 << 10
_MAX_URL_CHARS = 2_000
_HOST = re.compile(r"[a-z0-9]([a-z0-9.\-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_PATH = re.compile(r"[A-Za-z0-9._~%+\-/]+")
_NAME = re.compile(r"[A-Za-z0-9._~%+\-]+")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A repository to fetch.

    Attributes:
        url: Where from, with user and password if the list had them: for git only.
        host: Its host and port, which are asked politely.
        owner: ``ann`` of ``https://host/ann/book.git``; further folders are joined by dots.
        name: ``book``.
        fork_of: What the list says it was forked from.
        licence: What the list says of its licence.
    """

    url: str
    host: str
    owner: str
    name: str
    fork_of: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A line that cannot be fetched, or a repository that could not be; ``url`` is fit to print."""

    url: str
    reason: str
    detail: str
    num_attempts: int = 0


def read_targets(path: Path) -> Iterator[Target | Failure]:
    """Read a list, one entry for each line that is neither blank nor a comment (``#``).

    Of several lines for one repository, the first counts; the others are failures.

    Raises:
        CorpusError: If the file is packed and damaged.
        OSError: If it cannot be read.
    """
    # Eight bytes a name: lists have millions of lines.
    seen: set[int] = set()
    with open_packed(path) as stream:
        while line := stream.readline(_MAX_LINE_BYTES):
            if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
                _pass_over_line(stream)
                yield Failure(url="", reason="bad_line", detail=f"over {_MAX_LINE_BYTES} bytes")
                continue
            text = line.decode("utf-8", "replace").strip().removeprefix("\ufeff")
            if not text or text.startswith("#"):
                continue
            target = _parse(text)
            if isinstance(target, Target):
                key = _key(target)
                if key in seen:
                    name = f"{target.owner}/{target.name}"
                    target = _failure(target.url, "listed_twice", f"{name} stands above already")
                seen.add(key)
            yield target


def without_credentials(text: str) -> str:
    """Take user names and passwords out of the addresses in a text."""
    return _CREDENTIALS.sub("", text)


def _parse(text: str) -> Target | Failure:
    entry: Mapping[str, object] = {"url": text}
    if text.startswith("{"):
        try:
            entry = cast("Mapping[str, object]", orjson.loads(text))
        except orjson.JSONDecodeError as exc:
            return Failure(url="", reason="bad_line", detail=f"no JSON: {exc}")
    url = entry.get("url")
    if not isinstance(url, str):
        return Failure(url="", reason="bad_line", detail="no url in it")
    try:
        parts = urlsplit(url)
        host = _check(url, parts)
    except ValueError as exc:
        return _failure(url, "bad_url", str(exc))
    *owners, name = [part for part in parts.path.removesuffix("/").split("/") if part]
    fork_of, licence = entry.get("fork_of"), entry.get("licence")
    return Target(
        url=url,
        host=host,
        owner=".".join(owners) or host,
        name=name.removesuffix(".git"),
        fork_of=fork_of if isinstance(fork_of, str) else None,
        licence=licence if isinstance(licence, str) else None,
    )


def _check(url: str, parts: SplitResult) -> str:
    """Return the host of an address that git may be given.

    Raises:
        ValueError: If it may not.
    """
    if len(url) > _MAX_URL_CHARS or not url.isprintable() or " " in url:
        message = "blanks, control characters, or over 2,000 characters"
        raise ValueError(message)
    if parts.scheme not in PROTOCOLS or not url.startswith(f"{parts.scheme}://"):
        message = f"it does not begin with {', '.join(f'{name}://' for name in PROTOCOLS)}"
        raise ValueError(message)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(host):
        message = "no host name"
        raise ValueError(message)
    *folders, name = [part for part in parts.path.removesuffix("/").split("/") if part] or [""]
    names = [*folders, name.removesuffix(".git")]
    if parts.query or parts.fragment or not all(map(_is_name, names)):
        message = "no plain path of a repository"
        raise ValueError(message)
    return f"{host}:{parts.port}" if parts.port else host


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.startswith("-") and name.strip(".") != ""


def _key(target: Target) -> int:
    name = f"{target.owner}/{target.name}".lower().encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")


def _failure(url: str, reason: str, detail: str) -> Failure:
    printable = "".join(char if char.isprintable() else "\ufffd" for char in url)
    return Failure(
        url=without_credentials(printable)[:_MAX_URL_CHARS], reason=reason, detail=detail
    )


def _pass_over_line(stream: BinaryIO) -> None:
    while (piece := stream.readline(_MAX_LINE_BYTES)) and not piece.endswith(b"\n"):
        pass
