"""Files that appear whole or not at all: write to a temporary name, then rename."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_folder", "require_new_folder", "sha256_file", "write_atomic"]

_CHUNK_BYTES = 1 << 20


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace ``path`` by ``data`` in one step, keeping its permissions.

    A symbolic link is followed, so that the link itself survives. Text is written as UTF-8.

    Raises:
        OSError: If the folder is missing, full or not writable; ``path`` is then as it was.
    """
    final_path = Path(os.path.realpath(path))
    payload = data.encode("utf-8") if isinstance(data, str) else data
    descriptor, temporary_name = tempfile.mkstemp(
        dir=final_path.parent, prefix=f".{final_path.name[:64]}.", suffix=".tmp"
    )
    temporary_path = Path(temporary_name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        temporary_path.chmod(_mode_for(final_path))
        temporary_path.replace(final_path)
    except BaseException:
        temporary_path.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path) -> Generator[Path]:
    """Yield a temporary folder beside ``path``; rename it to ``path`` if the block succeeds.

    Raises:
        FileExistsError: If ``path`` exists already and is not an empty folder.
        OSError: If the parent folder is missing, full or not writable.
    """
    require_new_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary_path = Path(
        tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".tmp")
    )
    try:
        yield temporary_path
        temporary_path.chmod(0o777 & ~_umask())
        temporary_path.replace(path)
    except BaseException:
        shutil.rmtree(temporary_path, ignore_errors=True)
        raise


def require_new_folder(path: Path) -> None:
    """Refuse a path that is taken, before work is put into what shall stand there.

    Raises:
        FileExistsError: If ``path`` exists already and is not an empty folder.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        message = f"{path} exists already. Choose another folder or remove it."
        raise FileExistsError(message)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits, reading it in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _mode_for(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
