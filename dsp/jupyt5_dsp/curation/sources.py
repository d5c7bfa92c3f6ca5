"""Folders of homework: what they are, where they come from, and the notebooks in them."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from jupyt5.errors import UsageError

__all__ = ["FoundNotebook", "Repository", "find_notebooks", "iter_files", "open_repositories"]

_CHECKPOINTS = ".ipynb_checkpoints"
_LICENCE = re.compile(r"(licen[cs]e|copying|unlicense)([.\-_].*)?", re.IGNORECASE)
_GIT_TIMEOUT_S = 30.0
# What no notebook of a course lives in, and what may hold secrets.
_BARRED_FOLDERS = frozenset(
    [
        ".aws",
        ".cache",
        ".env",
        ".git",
        ".hg",
        ".ssh",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
    ]
)
# Steps of nbgrader that hold students' work and names, or the assignment without its answers.
_OTHER_STEPS = frozenset({"release", "submitted", "autograded", "feedback"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """One folder of notebooks.

    Attributes:
        path: The folder.
        name: Its name in the problem set, unique there.
        url: Where it was cloned from, without user and password; "" if that is not known.
        commit: What is checked out; "" if it is no clone.
        licence_files: Names of the licence files at its root.
    """

    path: Path
    name: str
    url: str = ""
    commit: str = ""
    licence_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundNotebook:
    """A notebook file, relative to its repository, and why it is not looked into; "" if it is."""

    repository: Repository
    path: PurePosixPath
    left_out: str = ""


def open_repositories(paths: Sequence[Path]) -> tuple[Repository, ...]:
    """Look at the folders and name them: ``owner.name`` for clones, else the folder's name.

    Raises:
        UsageError: If one is missing, is no folder, or is given twice.
    """
    repositories: list[Repository] = []
    seen: set[Path] = set()
    names: set[str] = set()
    for path in paths:
        if not path.is_dir():
            what = "is a file, not a folder" if path.exists() else "does not exist"
            message = f"{path} {what}. Give the folder of a cloned repository or of a course."
            raise UsageError(message)
        real_path = path.resolve()
        if real_path in seen:
            message = f"{path} is given twice. Give each folder once."
            raise UsageError(message)
        seen.add(real_path)
        repository = _open_repository(real_path, names)
        names.add(repository.name)
        repositories.append(repository)
    return tuple(repositories)


def find_notebooks(repository: Repository, outside: Sequence[Path] = ()) -> Iterator[FoundNotebook]:
    """Yield the repository's notebooks by path, those in hidden folders last.

    Those that are not to be looked into come with a reason.

    Args:
        repository: Where to look.
        outside: Folders that do not belong to it, such as the one that is being built.
    """
    is_course = _is_course(repository.path)
    paths = iter_files(repository.path, outside, with_checkpoints=True)
    notebooks = (path for path in paths if path.suffix.lower() == ".ipynb")
    for path in sorted(notebooks, key=lambda path: (_is_hidden(path), path)):
        reason = ""
        if _CHECKPOINTS in path.parts:
            reason = "Jupyter's checkpoint of another notebook"
        elif is_course and path.parts[0] in _OTHER_STEPS:
            reason = f"the course's answers are in source/, not in {path.parts[0]}/"
        yield FoundNotebook(repository, path, reason)


def iter_files(
    root_path: Path, outside: Sequence[Path] = (), *, with_checkpoints: bool = False
) -> Iterator[PurePosixPath]:
    """Yield the files below ``root_path``, sorted; no hidden files, and no links."""
    barred = {path.resolve() for path in outside}
    for folder, folder_names, file_names in os.walk(root_path):
        here = Path(folder)
        folder_names[:] = sorted(
            name
            for name in folder_names
            if name not in _BARRED_FOLDERS
            and (with_checkpoints or name != _CHECKPOINTS)
            and not (here / name).is_symlink()
            and (here / name).resolve() not in barred
        )
        for name in sorted(file_names):
            path = here / name
            if not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield PurePosixPath(path.relative_to(root_path).as_posix())


def _open_repository(path: Path, taken: set[str]) -> Repository:
    url = _clean_url(_ask_git(path, "config", "--get", "remote.origin.url"))
    name = _make_name(url, path)
    unique, count = name, 2
    while unique in taken:
        unique, count = f"{name}-{count}", count + 1
    licences = (
        child.name for child in path.iterdir() if _LICENCE.fullmatch(child.name) and child.is_file()
    )
    return Repository(
        path=path,
        name=unique,
        url=url,
        commit=_ask_git(path, "rev-parse", "HEAD"),
        licence_files=tuple(sorted(licences)),
    )


def _make_name(url: str, path: Path) -> str:
    parts = [part for part in re.split(r"[/:]", url.removesuffix(".git")) if part]
    name = ".".join(parts[-2:]) if len(parts) > 1 else path.name
    return re.sub(r"[^\w.\-]+", "-", name).strip(".-") or "repository"


def _clean_url(url: str) -> str:
    """Drop user and password: a token in a remote's address is nobody else's business."""
    parts = urlsplit(url)
    if parts.scheme in {"http", "https", "ssh", "git"} and parts.hostname:
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    return url if re.match(r"[\w.\-]+@[\w.\-]+:", url) else ""


def _ask_git(path: Path, *arguments: str) -> str:
    """Ask about a clone at or above ``path``; "" where there is none, or no git."""
    # Settings of the repository itself may name programs to run: none of these commands does.
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(path), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_course(path: Path) -> bool:
    """Whether this is the root of an nbgrader course that has its sources."""
    has_steps = any((path / step).is_dir() for step in _OTHER_STEPS)
    return (path / "source").is_dir() and (has_steps or (path / "nbgrader_config.py").is_file())
