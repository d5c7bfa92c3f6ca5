"""Private folders of one run: a work folder, a home, and a place for the kernel's sockets."""

import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Workspace", "open_workspace"]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where one run lives. All of it is removed at the end of the run.

    Attributes:
        work_path: Private, writable copy of the files that the cells read.
        home_path: Empty home folder.
        socket_path: Holds the connection file and the sockets of the kernel.
    """

    work_path: Path
    home_path: Path
    socket_path: Path


@contextmanager
def open_workspace(
    source_path: Path | None = None,
    *,
    leave_out: Set[Path] = frozenset(),
    replaced: Mapping[Path, bytes] | None = None,
    home_template_path: Path | None = None,
) -> Generator[Workspace]:
    """Make the folders of one run, with a copy of ``source_path`` in the work folder.

    Args:
        source_path: Folder to copy; None for an empty work folder.
        leave_out: Files that are not copied.
        replaced: Other contents for some files, e.g. notebooks without their solutions.
        home_template_path: Folder copied into the home, e.g. a font cache made once.

    Yields:
        The folders. Their names are short: a socket's path may hold 107 bytes only.
    """
    root_path = Path(tempfile.mkdtemp(prefix="j5-"))
    try:
        work_path, home_path, socket_path = (root_path / name for name in ("w", "h", "s"))
        if source_path is None:
            work_path.mkdir()
        else:
            _copy_folder(source_path, work_path, leave_out, replaced or {})
        if home_template_path is None:
            home_path.mkdir()
        else:
            shutil.copytree(home_template_path, home_path)
        socket_path.mkdir(mode=0o700)
        yield Workspace(work_path, home_path, socket_path)
    finally:
        _remove_folder(root_path)


def _copy_folder(
    source_path: Path, target_path: Path, leave_out: Set[Path], replaced: Mapping[Path, bytes]
) -> None:
    for folder, folder_names, file_names in os.walk(source_path):
        folder_path = Path(folder)
        copy_path = target_path / folder_path.relative_to(source_path)
        copy_path.mkdir(parents=True, exist_ok=True)
        # A link could lead out of the copy: neither followed nor made.
        folder_names[:] = [name for name in folder_names if not (folder_path / name).is_symlink()]
        for name in file_names:
            file_path = folder_path / name
            if file_path.is_symlink() or not file_path.is_file() or file_path in leave_out:
                continue
            if file_path in replaced:
                (copy_path / name).write_bytes(replaced[file_path])
                continue
            # Contents only: a read-only data set must become a writable copy.
            shutil.copyfile(file_path, copy_path / name)


def _remove_folder(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    # A sample may have taken away its own permissions.
    for folder, folder_names, _ in os.walk(path):
        for name in folder_names:
            entry_path = Path(folder, name)
            if not entry_path.is_symlink():
                entry_path.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
