"""Running ``git`` on repositories and servers that nobody vouches for.

Every command runs in a session of its own with a bare environment: no settings of the user or of
the system, no hooks, no prompts, no transport but those named, limited memory, and a deadline after
which the whole session is killed. Stores of objects are read through an empty repository of ours,
so that a foreign repository's own settings never count.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from jupyt5.errors import CorpusError

__all__ = ["Git", "GitError"]

_STDERR_BYTES = 4_000
_POLL_S = 0.1
_MEMORY_KIB = 6 << 20
_EMPTY_REPOSITORY = Path(__file__).parent / "empty.git"
_KEPT_VARIABLES = (
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
)
# The shell limits the memory of git and what git starts; where it cannot, git runs without.
_LIMITED = 'ulimit -v "$1" 2>/dev/null; shift; exec git "$@"'
_NOT_FOUND = 127
_NO_GIT = "Git repositories need git and a POSIX system with /bin/sh. Install git."
_SETTINGS = {
    "core.bigFileThreshold": "32m",
    "core.hooksPath": "/dev/null",
    "core.packedGitLimit": "512m",
    "core.packedGitWindowSize": "32m",
    "credential.helper": "",
    "fetch.negotiationAlgorithm": "noop",
    "gc.auto": "0",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "protocol.version": "2",
}


class GitError(CorpusError):
    """Raised when git fails or is ended; ``reason`` is a code, ``detail`` what git said last."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """How to run git.

    Attributes:
        timeout_s: Wall-clock time that one command may take.
        protocols: Transports that it may use, joined by colons; "none" for no network.
        settings: Further settings, which appear neither on the command line nor on disk.
        watched: Folder whose size is limited, None for no limit.
        max_watched_bytes: Size of its files at which the command is ended.
        stop: Ends the command when set.
    """

    timeout_s: float = 600.0
    protocols: str = "none"
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    watched: Path | None = None
    max_watched_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, *arguments: str, stdin: Iterable[bytes] = ()) -> bytes:
        """Run one command and return its (short) output.

        Raises:
            GitError: If it fails or had to be ended.
            CorpusError: If git is not installed.
        """
        with self.open(*arguments, stdin=stdin) as stdout:
            return stdout.read(_STDERR_BYTES)

    @contextmanager
    def open_objects(
        self, objects: Path, *arguments: str, stdin: Iterable[bytes] = ()
    ) -> Generator[BinaryIO]:
        """Run a command that reads a store of objects; like ``open`` else."""
        where = {"GIT_DIR": str(_EMPTY_REPOSITORY), "GIT_OBJECT_DIRECTORY": str(objects)}
        with self.open(*arguments, stdin=stdin, variables=where) as stdout:
            yield stdout

    @contextmanager
    def open(
        self,
        *arguments: str,
        stdin: Iterable[bytes] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Generator[BinaryIO]:
        """Run a command and yield its output to read; its exit code is looked at afterwards.

        Args:
            arguments: What follows ``git``.
            stdin: Pieces of its input, written while the output is read.
            variables: Further environment variables.

        Raises:
            GitError: If it fails or had to be ended.
            CorpusError: If git is not installed.
        """
        process = _start(arguments, {**self._environment(), **(variables or {})})
        stdout = cast("BinaryIO", process.stdout)
        watch = _Watch(process, self)
        threads = _start_threads(watch, process, stdin)
        is_whole = False
        try:
            yield stdout
            # A reader that needs no more must not leave git waiting to be read.
            while stdout.read(1 << 16):
                pass
            is_whole = process.wait() == 0
            watch.check_size()
        finally:
            _kill(process)
            watch.ended.set()
            for thread in threads:
                thread.join()
            stdout.close()
        if process.returncode == _NOT_FOUND:
            raise CorpusError(_NO_GIT)
        if watch.verdict or not is_whole:
            raise GitError(*(watch.verdict or ("git_failed", watch.said(process.returncode))))

    def _environment(self) -> dict[str, str]:
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        settings = {**_SETTINGS, **self.settings}
        for number, (name, value) in enumerate(settings.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = name
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment | {
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_CONFIG_COUNT": str(len(settings)),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "HOME": os.devnull,
            "LC_ALL": "C",
        }


class _Watch:
    """Ends a process in time, and keeps the end of what it says."""

    def __init__(self, process: "subprocess.Popen[bytes]", git: Git) -> None:
        self._process = process
        self._git = git
        self._tail = b""
        self.verdict: tuple[str, str] | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        """Look at clock, disk and stop sign until the process ends; kill it for the first."""
        git, end_s = self._git, time.monotonic() + self._git.timeout_s
        while not self.ended.wait(_POLL_S):
            if git.stop.is_set():
                self.verdict = ("stopped", "")
            elif time.monotonic() > end_s:
                self.verdict = ("timed_out", f"not done after {git.timeout_s:g} s")
            else:
                self.check_size()
            if self.verdict:
                _kill(self._process)
                return

    def drain(self, stream: BinaryIO) -> None:
        """Read all that the process says and remember the end of it."""
        with stream:
            while piece := os.read(stream.fileno(), 1 << 16):
                self._tail = (self._tail + piece)[-_STDERR_BYTES:]

    def said(self, exit_code: int) -> str:
        """Return what the process said last, in one line of printable characters."""
        text = self._tail.decode("utf-8", "replace")
        words = "".join(char if char.isprintable() else " " for char in text).split()
        return " ".join(words) or f"git ended with exit code {exit_code}"

    def check_size(self) -> None:
        """Note if the watched folder has become too large."""
        git = self._git
        if git.watched and not self.verdict and _size_of(git.watched) > git.max_watched_bytes:
            self.verdict = ("too_large", f"over {git.max_watched_bytes} bytes to fetch")


def _start_threads(
    watch: _Watch, process: "subprocess.Popen[bytes]", stdin: Iterable[bytes]
) -> list[threading.Thread]:
    """Watch a process, write its input and read its messages, each in a thread."""
    threads = [
        threading.Thread(target=watch.run, daemon=True),
        threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True),
        threading.Thread(target=watch.drain, args=(process.stderr,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    return threads


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _LIMITED, "git", str(_MEMORY_KIB), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
        )
    except FileNotFoundError as exc:
        raise CorpusError(_NO_GIT) from exc


def _feed(stream: BinaryIO, pieces: Iterable[bytes]) -> None:
    try:
        with stream:
            for piece in pieces:
                stream.write(piece)
    except (BrokenPipeError, ValueError):
        pass  # it ended before it had read all


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the process and all that it started, those left over by one that has ended too."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _size_of(folder: Path) -> int:
    num_bytes = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            try:
                num_bytes += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue  # git renamed or removed it meanwhile
    return num_bytes
