r"""What a notebook's content is: its cell kinds and sources, and the numbers drawn from them.

``content_hash`` is the SHA-256 over all cells in order, each written as ``<kind> <n>\n`` (n =
number of bytes) followed by the n UTF-8 bytes of its source, after ``\r\n`` and ``\r`` became
``\n``. Outputs, metadata, cell ids and execution counts don't count.
"""

import hashlib
from collections.abc import Iterable, Sequence

from jupyt5.notebook import Cell
from jupyt5_corpus.row import CellText

__all__ = [
    "SUBSTANTIAL_CHARS",
    "cell_sha256",
    "content_hash",
    "estimate_num_tokens",
    "git_blob_sha",
    "is_substantial",
]

SUBSTANTIAL_CHARS = 40
"""Texts with fewer characters than this, white space aside, prove nothing by being equal."""

_BYTES_PER_TOKEN = 3.5


def content_hash(cells: Iterable[CellText | Cell]) -> str:
    """Return the SHA-256 of a notebook's content as 64 hex digits."""
    parts: list[bytes] = []
    for cell in cells:
        source = cell.source
        if "\r" in source:
            source = source.replace("\r\n", "\n").replace("\r", "\n")
        source_bytes = source.encode()
        parts += (f"{cell.kind} {len(source_bytes)}\n".encode(), source_bytes)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def cell_sha256(source: str) -> str:
    """Return the SHA-256 of a cell's UTF-8 source, as it stands, as 64 hex digits."""
    return hashlib.sha256(source.encode()).hexdigest()


def is_substantial(sources: Iterable[str]) -> bool:
    """Tell whether the sources together hold enough text to tell them from others."""
    num_chars = 0
    for source in sources:
        num_chars += sum(map(len, source.split()))
        if num_chars >= SUBSTANTIAL_CHARS:
            return True
    return False


def estimate_num_tokens(cells: Sequence[CellText]) -> int:
    """Estimate the number of tokens: source bytes / 3.5, rounded to the nearest integer."""
    return round(sum(len(cell.source.encode()) for cell in cells) / _BYTES_PER_TOKEN)


def git_blob_sha(data: bytes) -> str:
    """Return the id git gives to a file with these bytes."""
    # Git's object ids are SHA-1; nothing here relies on it being hard to forge.
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
