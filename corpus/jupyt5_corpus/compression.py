"""Reading and writing packed streams, with one clear error for a damaged file."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import gzip
import io
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from jupyt5.errors import CorpusError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["DecompressionBombError", "compress", "open_packed", "open_to_pack"]

_BUFFER_BYTES = 1 << 20
# Unpacked at once; past a damaged place, so much is unpacked again byte by byte.
_PIECE_BYTES = 128 << 10
# The shared corpus unpacks to 8.5 times its size, text of one repeated line to some hundred times.
_MAX_RATIO = 1_000
# One notebook of 500 MB of zeros must not end an archive; this much is unpacked in seconds.
_ALWAYS_ALLOWED_BYTES = 2 << 30


class DecompressionBombError(CorpusError):
    """Raised when a file unpacks to far more than any honest data do."""


@contextmanager
def open_packed(path: Path) -> Generator[BinaryIO]:
    """Open a file for reading; ``.zst`` and ``.gz`` are unpacked on the way.

    Raises:
        CorpusError: While reading, if the packed data are damaged or end too early.
        DecompressionBombError: While reading, past 1,000 times the packed size (and 2 GiB).
        OSError: If the file cannot be read.
    """
    with path.open("rb") as raw:
        if path.suffix not in {".zst", ".gz"}:
            yield raw
            return
        try:
            if path.suffix == ".gz":
                unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="rb"))
            else:
                unpacked = cast("BinaryIO", _Frames(path, raw))
            yield io.BufferedReader(_Measured(unpacked, path), _BUFFER_BYTES)
        except (OSError, EOFError, zlib.error) as exc:
            # The decompressors' own errors carry no number; those of the file system do.
            if isinstance(exc, OSError) and exc.errno is not None:
                raise
            message = f"{path} is damaged: {exc}. Fetch the file again or leave it out."
            raise CorpusError(message) from exc


@contextmanager
def open_to_pack(path: Path) -> Generator[BinaryIO]:
    """Open a file for writing one zstd frame; equal input gives equal bytes.

    Raises:
        OSError: If the file cannot be written.
    """
    with path.open("wb") as raw, pa.CompressedOutputStream(raw, "zstd") as stream:
        yield cast("BinaryIO", stream)


def compress(data: bytes) -> bytes:
    """Pack ``data`` into one zstd frame; equal input gives equal bytes."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


class _Frames:
    """The content of zstd frames that follow each other, up to the very place of a damage."""

    def __init__(self, path: Path, raw: BinaryIO) -> None:
        self._path = path
        self._stream = _unpack(raw)
        self._position = 0
        self._error: OSError | None = None

    def read(self, size: int) -> bytes:
        if self._error:
            raise self._error
        try:
            data = self._stream.read(size)
        except OSError as exc:
            if exc.errno is not None:
                raise
            data, self._error = self._read_again(), exc
            if not data:
                raise
        self._position += len(data)
        return data

    def _read_again(self) -> bytes:
        """Read what Arrow had unpacked, and threw away, in the call that failed."""
        data = bytearray()
        with self._path.open("rb") as raw, suppress(OSError):
            stream = _unpack(raw)
            num_left = self._position
            while num_left:
                num_left -= len(stream.read(min(num_left, _PIECE_BYTES)))
            while len(data) < _PIECE_BYTES and (byte := stream.read(1)):
                data += byte
        return bytes(data)


def _unpack(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


class _Measured(io.RawIOBase):
    """Passes unpacked bytes on and stops where they are too many for the packed file."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._num_left = max(path.stat().st_size * _MAX_RATIO, _ALWAYS_ALLOWED_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(min(len(view), _PIECE_BYTES))
        self._num_left -= len(data)
        if self._num_left < 0:
            message = (
                f"{self._path} unpacks to over {_MAX_RATIO:,} times its size, which no honest file "
                "does. Leave it out."
            )
            raise DecompressionBombError(message)
        view[: len(data)] = data
        return len(data)
