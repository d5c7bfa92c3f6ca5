"""A lock between processes: one works in a folder, or puts something in its place, at a time."""

import errno
import fcntl
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jupyt5.errors import TrainingError

__all__ = ["locked"]

logger = logging.getLogger(__name__)

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Generator[None]:
    """Keep others who ask for it away from a folder, which itself may come and go.

    The lock lies beside the folder; a process that is killed loses it.

    Args:
        folder: The folder.
        wait: Until whoever has the lock has done; otherwise that is an error.

    Raises:
        TrainingError: If another process has the lock.
        OSError: If it cannot be written.
    """
    folder = folder.resolve()
    path = folder.with_name(f".{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, folder, wait=wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, folder: Path, *, wait: bool) -> int:
    operation = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, operation)
            # Whoever had it may have ended, and its file gone, since ours was opened.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            message = (
                f"Another run of the command works in {folder}. Wait for it, stop it, or give "
                "another folder as --out."
            )
            raise TrainingError(message) from None
        except FileNotFoundError:
            pass
        except OSError as exc:
            if exc.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
            logger.warning("the file system has no locks: start no second run in %s", folder)
            return descriptor
        except BaseException:  # Ctrl-C while it waits
            os.close(descriptor)
            raise
        os.close(descriptor)
