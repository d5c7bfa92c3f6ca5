"""JSON Lines files that grow while work goes on and are taken up again after a crash."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from jupyt5.errors import ProblemSetError

__all__ = ["append_jsonl", "read_jsonl", "render_jsonl", "repair_jsonl"]


def append_jsonl(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    """Add records in one write, so that a crash can only cut the last line."""
    with path.open("ab") as stream:
        stream.write(render_jsonl(records))


def read_jsonl(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects of a file, plain or gzip.

    Raises:
        ProblemSetError: If the file is missing or a line is no JSON object; names the line.
    """
    num_lines = 0
    try:
        with path.open("rb") as probe:
            is_gzip = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if is_gzip else path.open("rb") as stream:
            for line in stream:
                num_lines += 1
                if line.strip():
                    yield _parse(line)
    except (FileNotFoundError, IsADirectoryError) as exc:
        message = f"{path} cannot be read: {exc.strerror}. Check the path."
        raise ProblemSetError(message) from exc
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as exc:
        message = f"{path}, line {num_lines}: {exc}. Mend or remove the line."
        raise ProblemSetError(message) from exc


def render_jsonl(records: Iterable[Mapping[str, object]]) -> bytes:
    """Return records as lines of JSON, in UTF-8."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    # A lone surrogate in a sample's output is no reason to lose its verdict; inside a JSON text
    # its escaped form means the same.
    return text.encode("utf-8", "backslashreplace")


def repair_jsonl(path: Path) -> None:
    """Make the file if it is missing; cut a last line that a crash left unfinished."""
    with path.open("ab+") as stream:
        size_bytes = stream.tell()
        if not size_bytes:
            return
        stream.seek(0)
        end = stream.read().rfind(b"\n") + 1
        if end < size_bytes:
            stream.truncate(end)


def _parse(line: bytes) -> dict[str, object]:
    value: object = json.loads(line.decode("utf-8-sig"))
    if not isinstance(value, dict):
        message = "not a JSON object"
        raise ValueError(message)  # noqa: TRY004  one kind of error for a damaged line
    return cast("dict[str, object]", value)
