"""The notebooks and licence files of one commit, read from git's store of objects."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jupyt5_corpus.sources.git import Git, GitError
from jupyt5_corpus.sources.records import (
    NOTEBOOK_SUFFIX,
    Location,
    Problem,
    check_size,
    is_licence,
    is_unsafe,
)

__all__ = ["MAX_ENTRIES", "TreeFile", "find_commit", "list_files", "read_files"]

MAX_ENTRIES = 2_000_000
"""Entries of a commit's tree; a few objects can make trillions of them."""

_MAX_NAME_BYTES = 4_096
_KINDS = {b"120000": "a symbolic link", b"160000": "a submodule"}
_REGULAR = frozenset([b"100644", b"100755", b"100664"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file that is wanted; ``path`` may hold surrogates where it is not UTF-8."""

    path: str
    oid: str
    problem: Problem | None = None


def find_commit(git: Git, git_dir: Path, name: str = "HEAD") -> str:
    """Return the commit that a name of a foreign repository stands for.

    Raises:
        GitError: If there is none, or the repository is damaged.
    """
    where = {"GIT_DIR": str(git_dir)}
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    with git.open(*arguments, variables=where) as stdout:
        return stdout.read(100).decode("ascii", "replace").strip()


def list_files(git: Git, objects: Path, commit: str) -> list[TreeFile]:
    """List a commit's notebooks, and the licence files at its root, by path.

    Raises:
        GitError: If the tree is damaged or has over ``MAX_ENTRIES`` entries.
    """
    found: list[TreeFile] = []
    with git.open_objects(objects, "ls-tree", "-r", "-z", "--full-tree", commit) as stdout:
        for number, entry in enumerate(_split(stdout), start=1):
            if number > MAX_ENTRIES:
                raise GitError("too_many_files", f"over {MAX_ENTRIES} entries")
            file = _wanted(entry)
            if file is not None:
                found.append(file)
    return sorted(found, key=lambda file: file.path.encode("utf-8", "surrogateescape"))


def read_files(
    git: Git, objects: Path, files: Sequence[TreeFile]
) -> Iterator[tuple[TreeFile, bytes | None, Problem | None]]:
    """Read files in the given order; one too large, missing or no file at all has a problem.

    Raises:
        GitError: If git fails.
    """
    checks = iter(_check_sizes(git, objects, [file for file in files if not file.problem]))
    problems = [file.problem or next(checks) for file in files]
    wanted = [file.oid for file, problem in zip(files, problems, strict=True) if not problem]
    with closing(_read_contents(git, objects, wanted)) as contents:
        for file, problem in zip(files, problems, strict=True):
            yield file, None if problem else next(contents), problem


def _wanted(entry: bytes) -> TreeFile | None:
    """Take ``<mode> <type> <oid>``, a tab and the path apart; None for a file nobody wants."""
    about, _, raw_path = entry.partition(b"\t")
    mode, _type, oid = about.split(b" ")
    path = raw_path.decode("utf-8", "surrogateescape")
    if not path.endswith(NOTEBOOK_SUFFIX) and (b"/" in raw_path or not _is_licence(path)):
        return None
    problem: Problem | None = None
    if mode not in _REGULAR:
        problem = ("not_a_file", _KINDS.get(mode, f"mode {mode.decode('ascii', 'replace')}"))
    elif is_unsafe(path) or len(raw_path) > _MAX_NAME_BYTES:
        problem = ("unsafe_path", "the path leads out of the repository, or is over 4,096 bytes")
    return TreeFile(path=path, oid=oid.decode("ascii"), problem=problem)


def _is_licence(path: str) -> bool:
    return is_licence(Location(repo="", old_commit=None, path=path))


def _split(stream: BinaryIO) -> Iterator[bytes]:
    """Yield entries that end in NUL; one too long for a path is a damaged tree."""
    rest = b""
    while piece := stream.read(1 << 16):
        *entries, rest = (rest + piece).split(b"\0")
        yield from entries
        if len(rest) > 1 << 20:
            raise GitError("git_failed", "a path of over a million bytes")


def _check_sizes(git: Git, objects: Path, files: Sequence[TreeFile]) -> list[Problem | None]:
    lines = (f"{file.oid}\n".encode() for file in files)
    with git.open_objects(objects, "cat-file", "--batch-check", "--buffer", stdin=lines) as stdout:
        problems = [
            _judge(stdout.readline(_MAX_NAME_BYTES), is_notebook=_is_notebook(file))
            for file in files
        ]
    return problems


def _is_notebook(file: TreeFile) -> bool:
    return file.path.endswith(NOTEBOOK_SUFFIX)


def _judge(line: bytes, *, is_notebook: bool) -> Problem | None:
    fields = line.split()
    if len(fields) != 3 or fields[1] != b"blob":
        return "missing_blob", "the repository has no such object"
    return check_size(int(fields[2]), is_notebook=is_notebook)


def _read_contents(git: Git, objects: Path, oids: Sequence[str]) -> Generator[bytes]:
    lines = (f"{oid}\n".encode() for oid in oids)
    with git.open_objects(objects, "cat-file", "--batch", "--buffer", stdin=lines) as stdout:
        for _ in oids:
            fields = stdout.readline(_MAX_NAME_BYTES).split()
            if len(fields) != 3:
                break
            data = stdout.read(int(fields[2]))
            if len(data) < int(fields[2]) or stdout.read(1) != b"\n":
                break
            yield data
        else:
            return
    # Only reached where git ended well and yet gave less than it promised.
    raise GitError("git_failed", "git gave less content than it promised")
