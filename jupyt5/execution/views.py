"""Folders that runs start from: a notebook's files and a home, copied once, never changed."""

import os
import shutil
from collections.abc import Mapping, Set
from pathlib import Path

from jupyt5.execution.scratch import make_folder

__all__ = ["HOME_NAME", "WORK_NAME", "copy_view", "make_view"]

WORK_NAME, HOME_NAME = "jupyt5/work", "jupyt5/home"


def make_view(
    source_path: Path | None,
    *,
    leave_out: Set[Path] = frozenset(),
    replaced: Mapping[Path, bytes] | None = None,
    home_template_path: Path | None = None,
) -> Path:
    """Make a folder that can be the bottom of a worker's ``/tmp``.

    Args:
        source_path: Folder to copy; None for an empty work folder.
        leave_out: Files that are not copied.
        replaced: Other contents for some files, e.g. notebooks without their solutions.
        home_template_path: Folder copied into the home, e.g. a font cache made once.

    Returns:
        A new temporary folder, to be removed with ``remove_folder``.
    """
    root_path = make_folder("view")
    work_path, home_path = root_path / WORK_NAME, root_path / HOME_NAME
    if source_path is None:
        work_path.mkdir(parents=True)
    else:
        _copy_folder(source_path, work_path, leave_out, replaced or {})
    if home_template_path is None:
        home_path.mkdir(parents=True)
    else:
        shutil.copytree(home_template_path, home_path)
    # It becomes /tmp, where everybody may write.
    root_path.chmod(0o1777)
    return root_path


def copy_view(view_path: Path) -> Path:
    """Return a writable copy of a view, for a worker without an overlay."""
    copy_path = make_folder("run")
    shutil.copytree(view_path, copy_path, dirs_exist_ok=True)
    return copy_path


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
