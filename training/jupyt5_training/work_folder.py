"""The folder that ``jupyt5-train mine`` works in: known as its own before anything goes from it."""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jupyt5.errors import TrainingError
from jupyt5.files import write_atomic

__all__ = ["clear_work", "read_record", "write_record"]

_RECORD_NAME = "mine.json"
_KIND = "jupyt5-train mine"
_CONTENT = ("data", "run", "int8")


def read_record(work: Path) -> dict[str, object]:
    """Return what was last written of the folder; nothing if it is new or empty.

    Raises:
        TrainingError: If it holds something else.
    """
    if not work.exists() or (work.is_dir() and not any(work.iterdir())):
        return {}
    try:
        record = json.loads((work / _RECORD_NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("kind") != _KIND:
        message = f"{work} holds something else. Give another, or a new, folder as --out."
        raise TrainingError(message)
    return record


def write_record(work: Path, record: Mapping[str, object]) -> None:
    """Mark the folder as one of ours, closed to other users, and keep a record in it."""
    work.mkdir(parents=True, exist_ok=True)
    work.chmod(0o700)  # the token arrays are the notebooks' text
    text = json.dumps({"kind": _KIND, **record}, indent=2)
    write_atomic(work / _RECORD_NAME, text + "\n")


def clear_work(work: Path) -> None:
    """Remove what ``mine`` has written, the mark last, and the folder if nothing else is in it."""
    for name in _CONTENT:
        shutil.rmtree(work / name, ignore_errors=True)
    (work / _RECORD_NAME).unlink(missing_ok=True)
    with suppress(OSError):
        work.rmdir()
