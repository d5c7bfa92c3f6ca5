"""Temporary folders that a killed process does not leave for ever.

Each is locked by the process that made it, as long as that lives; the next process that makes one
removes those of this user that nobody holds.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

__all__ = ["make_folder", "remove_folder"]

_PREFIX = "jupyt5-"
# Between its making and its locking a folder is nobody's.
_YOUNG_S = 60

_lock = threading.Lock()
_held: dict[Path, int] = {}  # descriptors that hold the locks
_swept: set[Path] = set()  # where this process has looked


def make_folder(kind: str) -> Path:
    """Return a new temporary folder, to be removed with ``remove_folder``.

    Args:
        kind: What it is for, in a word; part of its name.

    Raises:
        OSError: If none can be made.
    """
    parent_path = Path(tempfile.gettempdir())
    with _lock:
        if parent_path not in _swept:
            _swept.add(parent_path)
            _sweep(parent_path)
        path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-"))
        descriptor = _take(path)
        if descriptor is not None:
            _held[path] = descriptor
    return path


def remove_folder(path: Path) -> None:
    """Remove a folder, even if somebody took away its own permissions."""
    _remove(path)
    with _lock:
        descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def _sweep(parent_path: Path) -> None:
    for path in parent_path.glob(f"{_PREFIX}*-*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            is_old = time.time() - status.st_mtime > _YOUNG_S
            if status.st_uid != os.getuid() or not is_old or not path.is_dir():
                continue
            descriptor = _take(path)
            if descriptor is not None:
                _remove(path)
                os.close(descriptor)


def _take(path: Path) -> int | None:
    """Lock a folder; None if a process holds it, or the file system knows no locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for folder, folder_names, _ in os.walk(path):
        for name in folder_names:
            entry_path = Path(folder, name)
            if not entry_path.is_symlink():
                entry_path.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
