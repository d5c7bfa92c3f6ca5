"""Notebooks in ``.tar`` and ``.tar.zst`` archives, read as streams.

Archives and zstd frames may follow each other in a file; all are read.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import DecompressionBombError, open_packed
from jupyt5_corpus.sources.records import (
    NOTEBOOK_SUFFIX,
    LicenceFile,
    Location,
    Problem,
    RawFile,
    check_size,
    is_licence,
    is_unsafe,
    locate,
    make_file,
    readable,
)

__all__ = ["ARCHIVE_SUFFIXES", "files_of_archive"]

ARCHIVE_SUFFIXES = (".tar", ".tar.zst")

_SKIP_BYTES = 1 << 20
# Headers of one member: names, owners and times take some hundred bytes.
_MAX_HEADER_BYTES = 1 << 20
_ZEROS = bytes(tarfile.BLOCKSIZE)


def files_of_archive(path: Path) -> Iterator[RawFile | LicenceFile]:
    """Read an archive's notebooks and licence files.

    Where it is damaged, what was read before counts, and the archive itself comes last, as a file
    with a problem.
    """
    default_repo = path.name.split(".tar")[0]
    problem: Problem | None = None
    try:
        with open_packed(path) as stream:
            yield from _files(_Forward(stream), path.name, default_repo)
    except DecompressionBombError as exc:
        problem = ("decompression_bomb", str(exc).replace(str(path), path.name))
    except OSError as exc:
        problem = ("unreadable_archive", exc.strerror or str(exc))
    # Besides its own errors, tarfile lets these of a broken header through.
    except (CorpusError, tarfile.TarError, ValueError, OverflowError, RecursionError) as exc:
        problem = ("damaged_archive", str(exc).replace(str(path), path.name))
    if problem:
        name = readable(path.name)
        location = Location(repo=readable(default_repo), old_commit=None, path=name)
        yield RawFile(name=name, location=location, data=None, problem=problem, archive=name)


def _files(stream: "_Forward", name: str, default_repo: str) -> Iterator[RawFile | LicenceFile]:
    """Read an archive, and those that follow it in the same file (``cat a.tar b.tar``)."""
    has_members, has_more = False, True
    while has_more:
        for archive, member in _members(stream):
            has_members = True
            location = locate(readable(member.name), readable(default_repo))
            if not member.name.endswith(NOTEBOOK_SUFFIX) and not is_licence(location):
                continue
            data, problem = _read_member(archive, member, stream)
            if data is None and is_licence(location):
                continue
            yield make_file(
                readable(member.name), location, data, problem=problem, archive=readable(name)
            )
        if not stream.is_at_end_mark:
            message = "it ends early, without the two blocks of zeros that end an archive"
            raise tarfile.ReadError(message)
        has_more = _find_next(stream)
    # An honest archive without members is one record long.
    if not has_members and stream.tell() > tarfile.RECORDSIZE:
        message = f"it holds nothing but {stream.tell()} bytes of zeros"
        raise tarfile.ReadError(message)


def _members(stream: "_Forward") -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    stream.allow(_MAX_HEADER_BYTES)
    with tarfile.open(fileobj=stream, mode="r:", errors="surrogateescape") as archive:
        while True:
            stream.allow(_MAX_HEADER_BYTES)
            member = archive.next()
            if member is None:
                return
            # What tarfile keeps would grow with the archive.
            archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            archive.pax_headers = {}
            yield archive, member


def _find_next(stream: "_Forward") -> bool:
    """Tell whether another archive follows.

    Raises:
        tarfile.ReadError: If something else does.
    """
    block = stream.pass_zeros()
    try:
        if block:
            tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError as exc:
        message = f"after its end, from byte {stream.tell()}, follow data that are no archive"
        raise tarfile.ReadError(message) from exc
    return bool(block)


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, stream: "_Forward"
) -> tuple[bytes | None, Problem | None]:
    if is_unsafe(member.name):
        return None, ("unsafe_path", "the path leads out of the archive")
    if not member.isreg() or member.issparse():
        return None, ("not_a_file", "a link, folder, device or sparse file in the archive")
    problem = check_size(member.size, is_notebook=member.name.endswith(NOTEBOOK_SUFFIX))
    if problem:
        return None, problem
    stream.allow(member.size)
    content = archive.extractfile(member)
    return (content.read() if content else b""), None


class _Forward(io.RawIOBase):
    """A stream that is read once, from front to end, and gives no more than it was told to.

    tarfile would read whatever size a header states; here the reader says beforehand how many
    bytes it is prepared to hold. Passing over bytes costs no memory and is not counted.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = 0
        self._num_allowed = 0
        self._ahead = b""
        self.is_at_end_mark = False

    def allow(self, num_bytes: int) -> None:
        """Set how many bytes may be read from here."""
        self._num_allowed = num_bytes

    def pass_zeros(self) -> bytes:
        """Pass over blocks of zeros; return the block that follows, which stays to be read."""
        while block := self._read_whole(tarfile.BLOCKSIZE):
            if block != _ZEROS[: len(block)]:
                self._ahead = block
                self._position -= len(block)
                return block
        return b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= self._num_allowed:
            message = f"a header states {size} bytes, over {self._num_allowed}"
            raise tarfile.ReadError(message)
        data = self._read_whole(size)
        self._num_allowed -= len(data)
        self.is_at_end_mark = len(data) == tarfile.BLOCKSIZE and not any(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            message = f"a header points back, to byte {offset} before {self._position}"
            raise tarfile.ReadError(message)
        while self._position < offset:
            if not self._read_whole(min(offset - self._position, _SKIP_BYTES)):
                break
        return self._position

    def _read_whole(self, size: int) -> bytes:
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        self._position += len(data)
        return data
