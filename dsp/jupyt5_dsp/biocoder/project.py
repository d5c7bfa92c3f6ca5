"""Reads the Python files of a project folder."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.needs import Project
from jupyt5_dsp.biocoder.source import Module, read_module

__all__ = ["read_project"]

_MOST_BYTES = 2 << 20
_LEFT_OUT = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})


def read_project(root_path: Path) -> tuple[Project, tuple[str, ...]]:
    """Parse all Python files of a folder.

    Links, hidden folders and folders of installed or built code are left out. A folder ``src``
    at the top is not part of the modules' names.

    Args:
        root_path: The project.

    Returns:
        The project, and the paths of files that could not be parsed or are over 2 MiB.

    Raises:
        UsageError: If the path is no folder.
    """
    if not root_path.is_dir():
        message = f"{root_path} is not a folder. Give the folder of a Python project."
        raise UsageError(message)
    modules: dict[str, Module] = {}
    unreadable: list[str] = []
    for path in _iter_files(root_path):
        relative = path.relative_to(root_path).as_posix()
        module = _read_file(path, relative)
        if module is None:
            unreadable.append(relative)
        else:
            modules[module.name] = module
    return Project(modules), tuple(unreadable)


def _iter_files(root_path: Path) -> Iterator[Path]:
    for folder, folder_names, file_names in os.walk(root_path):
        # Links to folders are not followed anyway.
        folder_names[:] = sorted(
            name for name in folder_names if name not in _LEFT_OUT and not name.startswith(".")
        )
        for name in sorted(file_names):
            path = Path(folder, name)
            if name.endswith(".py") and path.is_file() and not path.is_symlink():
                yield path


def _read_file(path: Path, relative: str) -> Module | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        text = path.read_bytes().decode("utf-8-sig", "strict")
    except UnicodeDecodeError:
        text = path.read_bytes().decode("latin-1")
    except OSError:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return read_module(text, name=_name_module(relative), path=relative)


def _name_module(relative: str) -> str:
    parts = list(PurePosixPath(relative).with_suffix("").parts)
    if parts[0] == "src" and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)
