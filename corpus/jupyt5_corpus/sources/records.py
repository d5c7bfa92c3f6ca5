"""What a source gives: notebook files and licence files, each with its place in a repository."""

import re
from dataclasses import dataclass

from jupyt5_corpus.metadata import Repository

__all__ = [
    "LFS_PROBLEM",
    "MAX_LICENCE_BYTES",
    "MAX_NOTEBOOK_BYTES",
    "NOTEBOOK_SUFFIX",
    "LicenceFile",
    "Location",
    "Problem",
    "RawFile",
    "check_size",
    "is_lfs_pointer",
    "is_licence",
    "is_unsafe",
    "locate",
    "make_file",
    "readable",
]

MAX_NOTEBOOK_BYTES = 64 << 20
"""Larger files are not read into memory; they are removed with a reason."""

MAX_LICENCE_BYTES = 1 << 20
"""Larger licence files are passed over; the longest SPDX text has about 100 kB."""

NOTEBOOK_SUFFIX = ".ipynb"

Problem = tuple[str, str]
"""Why something cannot be read: a reason code and the detail."""

# Not code about licences, such as license.py, and not a notebook.
_LICENCE = re.compile(
    r"(?!.*\.(c|css|go|h|html?|ipynb|java|jsx?|json|lock|pdf|png|py|rb|rs|sh|svg|toml|tsx?|ya?ml)$)"
    r"(licen[cs]es?|copying|unlicen[cs]e)([.\-].*)?",
    re.IGNORECASE,
)
_OLD_VERSION = re.compile(r"(?P<repo>.+)@(?P<commit>[0-9a-f]{7,40})")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LFS_PROBLEM = ("lfs_pointer", "the file is in Git LFS, this is a pointer to it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A notebook's place: repository, commit of an older version, path in the repository."""

    repo: str
    old_commit: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A notebook file as found.

    Attributes:
        name: Its name in the source; names that are not UTF-8 carry U+FFFD.
        location: Where it belongs.
        data: None where it cannot be read.
        problem: Why not: reason code and detail. A damaged archive counts as one such file.
        archive: Name of the archive it was read from, "" for none; ``files.jsonl.zst`` lists by it.
        repository: What the source itself says about the repository, e.g. the commit of a clone.
    """

    name: str
    location: Location
    data: bytes | None
    problem: Problem | None = None
    archive: str = ""
    repository: Repository | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenceFile:
    """A licence file at the root of a repository."""

    repo: str
    name: str
    text: str


def locate(name: str, default_repo: str) -> Location:
    """Split ``<owner>/<repo>[@<commit>]/<path>``; a shorter name belongs to ``default_repo``."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if len(parts) < 3:
        return Location(repo=default_repo, old_commit=None, path="/".join(parts))
    repo, path = "/".join(parts[:2]), "/".join(parts[2:])
    match = _OLD_VERSION.fullmatch(repo)
    if match:
        return Location(repo=match["repo"], old_commit=match["commit"], path=path)
    return Location(repo=repo, old_commit=None, path=path)


def make_file(
    name: str,
    location: Location,
    data: bytes | None,
    *,
    problem: Problem | None = None,
    archive: str = "",
    repository: Repository | None = None,
) -> RawFile | LicenceFile:
    """Make the record of a file that was read, or of the reason why it could not be."""
    if data is not None and is_lfs_pointer(data):
        data, problem = None, LFS_PROBLEM
    if data is not None and is_licence(location):
        text = data.decode("utf-8", "replace")
        return LicenceFile(repo=location.repo, name=location.path, text=text)
    return RawFile(
        name=name,
        location=location,
        data=data,
        problem=problem,
        archive=archive,
        repository=repository,
    )


def is_lfs_pointer(data: bytes) -> bool:
    """Tell whether a file only says where Git LFS keeps its content."""
    return data.startswith(_LFS_POINTER)


def is_licence(location: Location) -> bool:
    """Tell whether this is the place of a licence file: the root of a repository as it is now."""
    return location.old_commit is None and _LICENCE.fullmatch(location.path) is not None


def is_unsafe(name: str) -> bool:
    """Tell whether a name in an archive or repository leads out of it, or is none at all."""
    return name.startswith("/") or "\0" in name or ".." in name.split("/") or not name.strip("./")


def readable(name: str) -> str:
    """Replace what is not UTF-8 in a file name."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def check_size(num_bytes: int, *, is_notebook: bool = True) -> Problem | None:
    """Say if a file is larger than ``MAX_NOTEBOOK_BYTES`` or ``MAX_LICENCE_BYTES``."""
    limit = MAX_NOTEBOOK_BYTES if is_notebook else MAX_LICENCE_BYTES
    return ("too_large", f"{num_bytes} bytes, over {limit}") if num_bytes > limit else None
