"""Reading and writing zstd streams, with one clear error for a damaged file."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from jupyt5.errors import CorpusError

__all__ = ["compress", "open_packed"]

_BUFFER_BYTES = 1 << 20


@contextmanager
def open_packed(path: Path) -> Generator[BinaryIO]:
    """Open a file for reading; one whose name ends in ``.zst`` is unpacked on the way.

    Raises:
        CorpusError: While reading, if the packed data are damaged or end too early.
        OSError: If the file cannot be read.
    """
    with path.open("rb") as raw:
        if path.suffix != ".zst":
            yield raw
            return
        try:
            unpacked = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
            yield io.BufferedReader(unpacked, _BUFFER_BYTES)
        except OSError as exc:
            # The decompressor's own errors carry no number; those of the file system do.
            if exc.errno is not None:
                raise
            message = f"{path} is damaged: {exc}. Fetch the file again or leave it out."
            raise CorpusError(message) from exc


def compress(data: bytes) -> bytes:
    """Pack ``data`` into one zstd frame; equal input gives equal bytes."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()
