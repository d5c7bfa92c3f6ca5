"""One attempt to fetch one repository: its notebooks and licence files into a tar archive.

A shallow clone of the newest commit without any file content is followed by one request for the
contents that are wanted. Nothing is checked out, so no hook, filter or link of the repository ever
acts, and submodules and Git LFS stay where they are.
"""

import io
import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jupyt5_corpus.fetch.targets import PROTOCOLS, Target, without_credentials
from jupyt5_corpus.sources.git import Git, GitError
from jupyt5_corpus.sources.git_objects import TreeFile, find_commit, list_files, read_files
from jupyt5_corpus.sources.records import (
    LFS_PROBLEM,
    NOTEBOOK_SUFFIX,
    Problem,
    is_lfs_pointer,
    readable,
)

__all__ = ["TEMPORARY", "FetchLimits", "Fetched", "Skipped", "classify", "fetch_repository"]

TEMPORARY = frozenset({"connection", "git_failed", "rate_limited", "timed_out"})
"""Reasons that may be gone at the next attempt."""

_REF = "refs/jupyt5/head"
# What git says, in the order of looking: the first that fits counts.
_SAYINGS = (
    ("disk_full", ("no space left on device", "disk quota exceeded")),
    ("empty_repository", ("couldn't find remote ref head",)),
    ("rate_limited", ("returned error: 429", "too many requests")),
    ("not_available", ("returned error: 451", "returned error: 410", "dmca")),
    (
        "not_found",
        ("returned error: 404", "repository not found", "repository not exported", "not found"),
    ),
    (
        "no_access",
        (
            "could not read username",
            "could not read password",
            "authentication failed",
            "returned error: 401",
            "returned error: 403",
            "terminal prompts disabled",
        ),
    ),
    ("not_allowed", ("not allowed",)),
    ("too_old_server", ("does not support shallow",)),
    (
        "connection",
        (
            "returned error: 5",
            "could not resolve host",
            "unable to look up",
            "unable to connect",
            "unable to access",
            "connection",
            "disconnect",
            "early eof",
            "hung up",
            "rpc failed",
            "timed out",
            "operation too slow",
            "ssl",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits of one attempt.

    Attributes:
        timeout_s: Wall-clock time for each of its git commands.
        max_repo_bytes: Packed bytes to receive, and unpacked bytes of notebooks to keep.
    """

    timeout_s: float = 600.0
    max_repo_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A notebook of a repository that was not taken."""

    path: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A repository that was fetched; ``retrieved`` is the time in UTC, in ISO 8601."""

    target: Target
    commit: str
    retrieved: str
    num_notebooks: int
    num_bytes: int
    skipped: tuple[Skipped, ...]


def fetch_repository(
    target: Target, piece_path: Path, limits: FetchLimits, stop: threading.Event
) -> Fetched:
    """Write a repository's notebooks and licence files to an uncompressed archive.

    Args:
        target: What to fetch.
        piece_path: The archive to write, with members ``<owner>/<name>/<path>``; whole or absent.
        limits: When to give up.
        stop: Ends the attempt when set.

    Raises:
        GitError: If it cannot be fetched; reasons in ``TEMPORARY`` are worth another attempt.
        OSError: If the disk is full or may not be written.
    """
    with _temporary_folder(piece_path) as folder:
        git_dir = folder / "git"
        git = Git(
            timeout_s=limits.timeout_s,
            protocols=":".join(PROTOCOLS),
            settings={"remote.origin.url": target.url},
            watched=git_dir,
            max_watched_bytes=limits.max_repo_bytes,
            stop=stop,
        )
        try:
            return _fetch(git, git_dir, target, piece_path)
        except GitError as exc:
            raise classify(exc, target) from exc


def classify(error: GitError, target: Target) -> GitError:
    """Give a failure its reason by what git said, and take addresses' passwords out.

    Raises:
        OSError: If the disk is full: that is no fault of the repository.
    """
    detail = without_credentials(error.detail)
    if error.reason != "git_failed":
        return GitError(error.reason, detail)
    said = detail.lower().replace(without_credentials(target.url).lower(), "")
    reason = next(
        (reason for reason, sayings in _SAYINGS if any(saying in said for saying in sayings)),
        "git_failed",
    )
    if reason == "disk_full":
        raise OSError(28, os.strerror(28))
    return GitError(reason, detail)


def _fetch(git: Git, git_dir: Path, target: Target, piece_path: Path) -> Fetched:
    git.run("init", "--quiet", "--bare", "--template=", str(git_dir))
    where = f"--git-dir={git_dir}"
    common = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")
    less = "--filter=blob:none"
    git.run(where, "fetch", *common, "--depth=1", less, "origin", f"+HEAD:{_REF}")
    retrieved = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    commit = find_commit(git, git_dir, _REF)
    files = list_files(git, git_dir / "objects", commit)
    oids = dict.fromkeys(file.oid for file in files if not file.problem)
    if oids:
        lines = (f"{oid}\n".encode() for oid in oids)
        git.run(where, "fetch", *common, less, "--stdin", "origin", stdin=lines)
    writer = _PieceWriter(target, git.max_watched_bytes)
    with writer.open(git_dir.parent / "piece.tar"):
        for file, data, problem in read_files(git, git_dir / "objects", files):
            writer.add(file, data, problem)
    (git_dir.parent / "piece.tar").replace(piece_path)
    return Fetched(
        target=target,
        commit=commit,
        retrieved=retrieved,
        num_notebooks=writer.num_notebooks,
        num_bytes=writer.num_bytes,
        skipped=tuple(writer.skipped),
    )


class _PieceWriter:
    """Writes the files of one repository to an archive; equal files give equal bytes."""

    def __init__(self, target: Target, max_bytes: int) -> None:
        self._prefix = f"{target.owner}/{target.name}"
        self._max_bytes = max_bytes
        self._archive: tarfile.TarFile | None = None
        self.num_notebooks = 0
        self.num_bytes = 0
        self.skipped: list[Skipped] = []

    @contextmanager
    def open(self, path: Path) -> Generator[None]:
        """Open the archive."""
        with tarfile.open(
            path, "w", errors="surrogateescape", format=tarfile.PAX_FORMAT
        ) as archive:
            self._archive = archive
            yield

    def add(self, file: TreeFile, data: bytes | None, problem: Problem | None) -> None:
        """Write one file, or note why it is not written.

        Raises:
            GitError: If the files add up to more than a repository may have.
        """
        is_notebook = file.path.endswith(NOTEBOOK_SUFFIX)
        if data is not None and is_lfs_pointer(data):
            data, problem = None, LFS_PROBLEM
        if data is None:
            if is_notebook and problem:
                reason, detail = problem
                self.skipped.append(Skipped(path=readable(file.path), reason=reason, detail=detail))
            return
        self.num_bytes += len(data)
        self.num_notebooks += is_notebook
        if self.num_bytes > self._max_bytes:
            raise GitError("too_large", f"over {self._max_bytes} bytes of notebooks")
        info = tarfile.TarInfo(f"{self._prefix}/{file.path}")
        info.size = len(data)
        assert self._archive is not None
        self._archive.addfile(info, io.BytesIO(data))
        self._archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@contextmanager
def _temporary_folder(piece_path: Path) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(dir=piece_path.parent, prefix="clone-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
