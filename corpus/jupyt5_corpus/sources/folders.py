"""Notebooks in folders: loose ones, working trees of clones, and bare repositories."""

import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from jupyt5.errors import CorpusError
from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.sources.git import Git, GitError
from jupyt5_corpus.sources.git_objects import find_commit, list_files, read_files
from jupyt5_corpus.sources.records import (
    NOTEBOOK_SUFFIX,
    LicenceFile,
    Location,
    Problem,
    RawFile,
    check_size,
    is_licence,
    locate,
    make_file,
    readable,
)

__all__ = ["Child", "FolderReader", "children", "is_bare", "is_wanted"]

MAX_DEPTH = 100
"""Folders within folders; deeper ones are removed with a reason."""

_GIT_TIMEOUT_S = 600.0
_REPOSITORY = re.compile(r"(?:^|[/:])(?P<owner>[^/:@]+)/(?P<name>[^/:@]+?)(?:\.git)?/*$")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """An entry of a folder that may lead to notebooks; ``name`` is relative to the source."""

    name: str
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clone:
    """A repository in a source: its folder there, "" for the source itself, and what it is."""

    root: str
    repo: str
    repository: Repository | None = field(default=None)


def children(source: Path, folder: str, *, depth: int = 0) -> list[Child]:
    """List a folder's subfolders, notebooks and licence files by name.

    Raises:
        OSError: If it cannot be listed, or is nested too deeply.
    """
    if depth > MAX_DEPTH:
        message = f"over {MAX_DEPTH} folders within each other"
        raise OSError(message)
    found: list[Child] = []
    with os.scandir(source / folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name != ".git" if is_folder else is_wanted(entry.name):
                name = f"{folder}/{entry.name}" if folder else entry.name
                # A link to a folder is not followed, whatever it is called.
                if is_folder or not (source / name).is_dir():
                    found.append(Child(name=name, is_folder=is_folder))
    return sorted(found, key=lambda child: os.fsencode(child.name))


def is_wanted(name: str) -> bool:
    """Tell whether a file of this name is a notebook or, at a repository's root, a licence."""
    location = Location(repo="", old_commit=None, path=name)
    return name.endswith(NOTEBOOK_SUFFIX) or is_licence(location)


def is_bare(folder: Path) -> bool:
    """Tell whether a folder is a bare git repository."""
    try:
        return (
            (folder / "HEAD").is_file()
            and (folder / "objects").is_dir()
            and ((folder / "refs").is_dir() or (folder / "packed-refs").is_file())
        )
    except OSError:
        return False


class FolderReader:
    """Reads pieces of one source folder; what it learns of clones serves all of them."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._clone_at = cache(partial(_find_clone, source))

    def files(self, name: str) -> Iterator[RawFile | LicenceFile]:
        """Read the notebooks and licence files of a folder in the source, or one file there.

        Args:
            name: Relative to the source, "." for all of it.
        """
        name = "" if name == "." else name
        clone: _Clone | None = None
        parents = name.split("/")[:-1] if name else []
        for depth in range(len(parents) + 1):
            clone = self._clone_at("/".join(parents[:depth])) or clone
        path = self._source / name
        if path.is_dir() and not path.is_symlink():
            yield from self._walk(name, clone, depth=len(parents))
        else:
            yield from self._file(name, clone)

    def _walk(
        self, folder: str, clone: _Clone | None, *, depth: int
    ) -> Iterator[RawFile | LicenceFile]:
        if is_bare(self._source / folder):
            yield from _files_of_bare(self._source, folder)
            return
        clone = self._clone_at(folder) or clone
        try:
            entries = children(self._source, folder, depth=depth)
        except OSError as exc:
            problem = ("unreadable_folder", exc.strerror or str(exc))
            location = self._place(folder or self._source.resolve().name, clone)
            yield RawFile(name=readable(folder), location=location, data=None, problem=problem)
            return
        for child in entries:
            if child.is_folder:
                yield from self._walk(child.name, clone, depth=depth + 1)
            else:
                yield from self._file(child.name, clone)

    def _file(self, name: str, clone: _Clone | None) -> Iterator[RawFile | LicenceFile]:
        location = self._place(name, clone)
        is_notebook = name.endswith(NOTEBOOK_SUFFIX)
        if not is_notebook and not is_licence(location):
            return
        data, problem = _read_file(self._source, self._source / name, is_notebook=is_notebook)
        if data is not None or is_notebook:
            repository = clone.repository if clone else None
            yield make_file(readable(name), location, data, problem=problem, repository=repository)

    def _place(self, name: str, clone: _Clone | None) -> Location:
        if clone is None:
            return locate(readable(name), readable(self._source.resolve().name))
        path = name[len(clone.root) :].lstrip("/")
        return Location(repo=clone.repo, old_commit=None, path=readable(path))


def _read_file(
    source: Path, path: Path, *, is_notebook: bool
) -> tuple[bytes | None, Problem | None]:
    try:
        num_bytes = path.stat().st_size
        if not path.is_file():
            return None, ("not_a_file", "neither a file nor a link to one")
        if path.is_symlink() and not path.resolve().is_relative_to(source.resolve()):
            return None, ("outside_link", "a link to a file outside of the source")
        problem = check_size(num_bytes, is_notebook=is_notebook)
        return None if problem else path.read_bytes(), problem
    except OSError as exc:
        return None, ("unreadable_file", exc.strerror or str(exc))


def _find_clone(source: Path, folder: str) -> _Clone | None:
    """Look for a repository's ``.git``; a file of that name leads elsewhere and is not followed."""
    git_dir = source / folder / ".git"
    try:
        if git_dir.is_symlink() or not git_dir.is_dir():
            has_file = git_dir.is_symlink() or git_dir.is_file()
            return _Clone(root=folder, repo=_name_of(source, folder)) if has_file else None
    except OSError:
        return None
    try:
        commit = find_commit(_git(), git_dir)
    except CorpusError as exc:
        _warn_once(f"The commit of clones is not known: {exc}")
        commit = None
    repo = _name_by_url(git_dir) or _name_of(source, folder)
    return _Clone(root=folder, repo=repo, repository=Repository(commit=commit) if commit else None)


def _files_of_bare(source: Path, folder: str) -> Iterator[RawFile | LicenceFile]:
    git_dir = source / folder
    repo = _name_by_url(git_dir) or _name_of(source, folder)
    name = f"{readable(folder)}/" if folder else ""
    try:
        commit = find_commit(_git(), git_dir)
        files = list_files(_git(), git_dir / "objects", commit)
        for file, data, problem in read_files(_git(), git_dir / "objects", files):
            path = readable(file.path)
            location = Location(repo=repo, old_commit=None, path=path)
            if data is not None or path.endswith(NOTEBOOK_SUFFIX):
                yield make_file(
                    f"{name}{path}",
                    location,
                    data,
                    problem=problem,
                    repository=Repository(commit=commit),
                )
    except GitError as exc:
        reason = "unreadable_clone" if exc.reason == "git_failed" else exc.reason
        location = Location(repo=repo, old_commit=None, path=readable(git_dir.resolve().name))
        detail = exc.detail.replace(str(git_dir), location.path)
        yield RawFile(name=name or repo, location=location, data=None, problem=(reason, detail))


def _name_of(source: Path, folder: str) -> str:
    """Name a repository by its folder and the one above, as far as they belong to the source."""
    parts = [part for part in readable(folder).split("/") if part][-2:]
    return "/".join(parts or [readable(source.resolve().name)]).removesuffix(".git")


def _name_by_url(git_dir: Path) -> str | None:
    """Return ``owner/name`` of the address a repository was cloned from, None if not known."""
    try:
        with _git().open(
            "config", "--no-includes", "--file", str(git_dir / "config"), "remote.origin.url"
        ) as stdout:
            url = stdout.read(4_096).decode("utf-8", "replace").strip()
    except CorpusError:
        return None
    match = _REPOSITORY.search(url) if "://" in url or ":" in url else None
    return f"{match['owner']}/{match['name']}" if match else None


def _git() -> Git:
    return Git(timeout_s=_GIT_TIMEOUT_S)


@cache
def _warn_once(message: str) -> None:
    logger.warning(message)
