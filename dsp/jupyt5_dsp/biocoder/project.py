"""Reads the Python files of a project folder."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.masking import mask_secrets
from jupyt5_dsp.biocoder.needs import Project
from jupyt5_dsp.biocoder.source import Module, read_module

__all__ = ["Reading", "read_project"]

_MOST_BYTES = 2 << 20
_LEFT_OUT = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a project.

    Attributes:
        project: Its modules.
        unreadable: Paths of files that could not be parsed or are over 2 MiB.
        num_masked: Passwords and keys that were taken out.
    """

    project: Project
    unreadable: tuple[str, ...]
    num_masked: int


def read_project(root_path: Path) -> Reading:
    """Parse all Python files of a folder, without the secrets in them (``masking``).

    Links, hidden folders and folders of installed or built code are left out. A folder ``src``
    at the top is not part of the modules' names.

    Args:
        root_path: The project.

    Raises:
        UsageError: If the path is no folder.
    """
    if not root_path.is_dir():
        message = f"{root_path} is not a folder. Give the folder of a Python project."
        raise UsageError(message)
    modules: dict[str, Module] = {}
    unreadable: list[str] = []
    num_masked = 0
    for path in _iter_files(root_path):
        relative = path.relative_to(root_path).as_posix()
        text, num_secrets = mask_secrets(_read_text(path))
        module = read_module(text, name=_name_module(relative), path=relative)
        if module is None:
            unreadable.append(relative)
        else:
            modules[module.name] = module
            num_masked += num_secrets
    return Reading(Project(modules), tuple(unreadable), num_masked)


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


def _read_text(path: Path) -> str:
    """Return a file's text; a null byte, which is no Python, if it is not to be read."""
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b"\0"
    except OSError:
        return "\0"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _name_module(relative: str) -> str:
    parts = list(PurePosixPath(relative).with_suffix("").parts)
    if parts[0] == "src" and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)
