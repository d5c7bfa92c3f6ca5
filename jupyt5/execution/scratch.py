"""Temporary folders that a killed process does not leave for ever.

A process that has some holds a lock of its own beside them. The next process of the same user on
the same machine removes the folders of those whose lock nobody holds any more. Where there are no
such locks (Windows), nothing is locked, and nothing removed but by its own process.
"""

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
from dataclasses import dataclass
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
_held: dict[Path, "_Held"] = {}  # by the place where folders are
_swept: set[Path] = set()


@dataclass(frozen=True, slots=True)
class _Held:
    """This process's lock in one place; ``descriptor`` is None where there could be none."""

    pid: int
    token: str
    descriptor: int | None


def make_folder(kind: str) -> Path:
    """Return a new temporary folder, to be removed with ``remove_folder``.

    Args:
        kind: What it is for, in a word; part of its name.

    Raises:
        OSError: If none can be made.
    """
    place = Path(tempfile.gettempdir())
    with _guard:
        if place not in _swept:
            _swept.add(place)
            _sweep(place)
        held = _held.get(place)
        if held is None or held.pid != os.getpid():  # a fork has folders of its own
            held = _held[place] = _lock(place)
        return Path(tempfile.mkdtemp(prefix=f"jupyt5-{kind}-{_MACHINE}-{held.token}-"))


def remove_folder(path: Path) -> None:
    """Remove a folder, even if somebody took away its own permissions."""
    _remove(path)
    with _guard:
        held = _held.get(path.parent)
        if held is None or held.pid != os.getpid():
            return
        lock_path = _place_lock(path.parent, held.token)
        if not _list_folders(lock_path):
            del _held[path.parent]
            if held.descriptor is not None:
                lock_path.unlink(missing_ok=True)
                os.close(held.descriptor)


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


def _lock(place: Path) -> _Held:
    token = secrets.token_hex(8)
    descriptor = None
    with contextlib.suppress(OSError):
        if fcntl is not None:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            descriptor = os.open(_place_lock(place, token), flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return _Held(os.getpid(), token, descriptor)


def _place_lock(place: Path, token: str) -> Path:
    return place / f"jupyt5-lock-{_MACHINE}-{token}"


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
                    _remove(folder_path)
                path.unlink()
            finally:
                os.close(descriptor)


def _list_folders(lock_path: Path) -> list[Path]:
    """Return the folders that the process of a lock has left."""
    token = lock_path.name.rpartition("-")[2]
    found = lock_path.parent.glob(f"jupyt5-*-{_MACHINE}-{token}-*")
    return [path for path in found if path.is_dir() and not path.is_symlink()]
