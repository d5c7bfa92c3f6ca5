"""One commit of one repository, by the git program: no history, no notebooks but those wanted."""

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from jupyt5.errors import ExecutionError

__all__ = ["GitError", "Trouble", "fetch_commit", "find_git"]

Trouble = Literal["gone", "unreachable"]

# A credential prompt would wait for ever; a helper might answer for a name that is not there.
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
_SETTINGS = (
    "credential.helper=",
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "gc.auto=0",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.detachedHead=false",
)
_GONE = (
    "not found",
    "does not exist",
    "not our ref",
    "could not read username",
    "does not appear to be a git repository",
    "unadvertised object",
    "couldn't find remote ref",
    "access denied",
    "returned error: 404",
    "returned error: 410",
    "returned error: 451",
)
_POLL_S = 0.2
_MESSAGE_CHARS = 300


class GitError(Exception):
    """Raised when a commit cannot be had: it is gone, or the server cannot be reached."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble


def find_git() -> str:
    """Return the version of git.

    Raises:
        ExecutionError: If there is none.
    """
    try:
        done = subprocess.run(
            ["git", "--version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as exc:
        message = f"git cannot be run ({exc}). Install it, e.g. apt-get install git."
        raise ExecutionError(message) from exc
    return done.stdout.strip()


def fetch_commit(
    url: str,
    commit: str,
    notebook_paths: Sequence[str],
    folder_path: Path,
    cancel: threading.Event,
) -> list[str]:
    """Put one commit's files into a folder, of its notebooks only some.

    Args:
        url: The repository.
        commit: All 40 digits.
        notebook_paths: The notebooks to take.
        folder_path: A new folder; its ``.git`` stays.
        cancel: When set, git is ended and ``KeyboardInterrupt`` raised.

    Returns:
        Those of ``notebook_paths`` that the commit does not have.

    Raises:
        GitError: If the repository or the commit is gone, or the server cannot be reached.
        KeyboardInterrupt: If cancelled.
    """
    folder_path.mkdir(parents=True, exist_ok=True)
    _git(folder_path, ["init", "--quiet"], cancel)
    _git(folder_path, ["remote", "add", "origin", url], cancel)
    # The missing contents are asked of the remote by this name.
    _git(folder_path, ["config", "remote.origin.promisor", "true"], cancel)
    fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--filter=blob:none"]
    _git(folder_path, [*fetch, "origin", commit], cancel)
    listed = _git(folder_path, ["ls-tree", "-r", "-z", "--full-tree", commit], cancel)
    there = [path for path in map(_blob_path, listed.split("\0")) if path]
    wanted = set(notebook_paths)
    paths = [path for path in there if path in wanted or ".ipynb" not in path.lower()]
    if paths:
        command = ["--literal-pathspecs", "checkout", "--quiet", commit]
        command += ["--pathspec-from-file=-", "--pathspec-file-nul"]
        _git(folder_path, command, cancel, "\0".join(paths))
    return sorted(wanted - set(there))


def _blob_path(line: str) -> str:
    """Return the path in a line of ls-tree; "" for submodules and links."""
    facts, _, path = line.partition("\t")
    return path if facts.startswith("100") else ""


def _git(
    folder_path: Path, arguments: Sequence[str], cancel: threading.Event, text: str | None = None
) -> str:
    command = ["git", *(part for one in _SETTINGS for part in ("-c", one)), *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder_path,
        env={**os.environ, **_ENVIRONMENT},
        stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
    )
    try:
        out, said = _wait(process, cancel, text)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        lowered = said.lower()
        trouble: Trouble = "gone" if any(one in lowered for one in _GONE) else "unreachable"
        raise GitError(trouble, " ".join(said.split())[-_MESSAGE_CHARS:])
    return out


def _wait(
    process: "subprocess.Popen[str]", cancel: threading.Event, text: str | None
) -> tuple[str, str]:
    while True:
        if cancel.is_set():
            raise KeyboardInterrupt
        try:
            return process.communicate(text, timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            text = None
