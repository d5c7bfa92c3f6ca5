"""Temporary folders that a killed process does not leave for ever.

A process that makes some holds a lock of its own beside them. The next process of the same user on
the same machine removes the folders of those whose lock nobody holds any more. Where there are no
such locks (Windows), nothing is locked, and nothing removed but by its own process.
"""

import atexit
import contextlib
import hashlib
import os
import platform
import re
import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None

__all__ = ["make_folder", "remove_folder"]

# Of this machine, for a folder that several share may know locks of its own machine only.
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_LOCK_NAME = re.compile(rf"jupyt5-lock-{_MACHINE}-([0-9a-f]{{16}})")
# Between its making and its locking a lock is nobody's.
_YOUNG_S = 60

_guard = threading.Lock()
_tokens: dict[Path, str] = {}  # of this process, by the place where it makes folders


def make_folder(kind: str) -> Path:
    """Return a new temporary folder, to be removed with ``remove_folder``.

    Args:
        kind: What it is for, in a word; part of its name.

    Raises:
        OSError: If none can be made.
    """
    place = Path(tempfile.gettempdir())
    with _guard:
        if place not in _tokens:
            _sweep(place)
            _tokens[place] = _lock(place)
    return Path(tempfile.mkdtemp(prefix=f"jupyt5-{kind}-{_MACHINE}-{_tokens[place]}-"))


def remove_folder(path: Path) -> None:
    """Remove a folder, even if somebody took away its own permissions."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for folder, folder_names, _ in os.walk(path):
        for name in folder_names:
            entry_path = Path(folder, name)
            if not entry_path.is_symlink():
                entry_path.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def _lock(place: Path) -> str:
    """Make this process's lock; returns its token, which has no lock where that cannot be had."""
    token = secrets.token_hex(8)
    path = place / f"jupyt5-lock-{_MACHINE}-{token}"
    with contextlib.suppress(OSError):
        if fcntl is not None:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # open until the process ends
            atexit.register(_unlock, path, os.getpid())
    return token


def _unlock(path: Path, pid: int) -> None:
    # Not at the end of a fork: its parent's folders are in use.
    if os.getpid() == pid and not _list_folders(path):
        path.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    if fcntl is None:
        return
    for path in place.glob(f"jupyt5-lock-{_MACHINE}-*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            is_old = time.time() - status.st_mtime > _YOUNG_S
            if not (_LOCK_NAME.fullmatch(path.name) and is_old and status.st_uid == os.getuid()):
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for folder_path in _list_folders(path):
                    remove_folder(folder_path)
                path.unlink()
            finally:
                os.close(descriptor)


def _list_folders(lock_path: Path) -> list[Path]:
    """Return the folders that the process of a lock has left."""
    token = lock_path.name.rpartition("-")[2]
    found = lock_path.parent.glob(f"jupyt5-*-{_MACHINE}-{token}-*")
    return [path for path in found if path.is_dir() and not path.is_symlink()]
