"""The wall around a kernel: bubblewrap where it works, nothing only when asked for.

Inside the wall there is no network, no other process is visible, everything is read-only but a
private work folder and home, and all of it ends with the kernel. What the wall does not do yet:
limit memory, processor time or the number of processes.
"""

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from jupyt5.errors import ExecutionError, UsageError
from jupyt5.execution.workspace import Workspace

__all__ = ["SANDBOX_CHOICES", "Sandbox", "choose_sandbox"]

SANDBOX_CHOICES = ("auto", "bwrap", "none")

_INSIDE_PATH = Path("/tmp/jupyt5")
_PROBE_TIMEOUT_S = 30
_HINT = (
    "Install it (Debian, Ubuntu: apt-get install bubblewrap), or run the code without any "
    "protection with --sandbox none."
)

logger = logging.getLogger(__name__)


class Sandbox:
    """How a kernel's command line is wrapped, and which paths its process sees."""

    def __init__(
        self, name: str, *, bwrap_path: str = "", hidden_paths: Sequence[Path] = ()
    ) -> None:
        self.name = name
        self._bwrap_path = bwrap_path
        # Outer folders first: one hidden later would bring an inner one back to light.
        self._hidden_paths = tuple(sorted({path.resolve() for path in hidden_paths}))

    @property
    def isolates(self) -> bool:
        """Whether there is a wall at all."""
        return bool(self._bwrap_path)

    def home_path(self, workspace: Workspace) -> Path:
        """Home folder as the kernel sees it."""
        return _INSIDE_PATH / "home" if self.isolates else workspace.home_path

    def wrap(self, argv: Sequence[str], workspace: Workspace, folder: str = ".") -> list[str]:
        """Return ``argv`` so that it runs inside the wall, in ``folder`` of the work folder."""
        if not self.isolates:
            return list(argv)
        work, home = str(_INSIDE_PATH / "work"), str(_INSIDE_PATH / "home")
        sockets = str(workspace.socket_path)
        command = [self._bwrap_path, *_wall_options()]
        for path in self._hidden_paths:
            if path.is_dir():
                command += ["--tmpfs", str(path), *_show_python([path])]
        command += ["--bind", sockets, sockets, "--bind", str(workspace.work_path), work]
        command += ["--bind", str(workspace.home_path), home, "--chdir", f"{work}/{folder}"]
        # The kernel watches its parent's id, which means nothing in its own process space.
        command += ["--unsetenv", "JPY_PARENT_PID", "--", *argv]
        return command


def choose_sandbox(name: str, *, hidden_paths: Sequence[Path] = ()) -> Sandbox:
    """Return the sandbox for ``--sandbox``.

    Args:
        name: ``bwrap``; ``none`` for no protection; ``auto`` for bwrap or a refusal.
        hidden_paths: Folders that look empty inside, e.g. the reference solutions.

    Raises:
        UsageError: If the name is unknown.
        ExecutionError: If bubblewrap is missing or does not work on this machine, or a hidden
            folder is the interpreter's own.
    """
    if name not in SANDBOX_CHOICES:
        message = f"--sandbox {name} is unknown. Choose one of: {', '.join(SANDBOX_CHOICES)}."
        raise UsageError(message)
    if name == "none":
        logger.warning("No sandbox: the code that is run can do whatever you can do.")
        return Sandbox("none")
    _check_hidden(hidden_paths)
    bwrap_path = shutil.which("bwrap")
    if not bwrap_path:
        message = f"The sandbox needs bubblewrap (bwrap), which is not on PATH. {_HINT}"
        raise ExecutionError(message)
    probe = [bwrap_path, *_wall_options(), "--", sys.executable, "-S", "-c", "pass"]
    try:
        done = subprocess.run(
            probe, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        message = f"bubblewrap ({bwrap_path}) cannot be run: {exc}. {_HINT}"
        raise ExecutionError(message) from exc
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        message = (
            f"bubblewrap ({bwrap_path}) does not work on this machine: {reason[0]}. User "
            "namespaces may be switched off. Allow them, or run the code without any protection "
            "with --sandbox none."
        )
        raise ExecutionError(message)
    return Sandbox("bwrap", bwrap_path=bwrap_path, hidden_paths=hidden_paths)


def _wall_options() -> list[str]:
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    covered = sorted({Path("/tmp"), Path("/run"), Path(tempfile.gettempdir()).resolve()})
    for path in covered:
        if path.is_dir():
            options += ["--tmpfs", str(path)]
    return options + _show_python(covered)


def _show_python(covered: Sequence[Path]) -> list[str]:
    """Bring back the interpreter where it lives under a folder that was just covered."""
    options: list[str] = []
    for path in _python_paths():
        if any(path.is_relative_to(cover) for cover in covered):
            options += ["--ro-bind", str(path), str(path)]
    return options


def _check_hidden(hidden_paths: Sequence[Path]) -> None:
    for path in hidden_paths:
        if path.resolve() in _python_paths():
            message = (
                f"The sandbox cannot hide {path}: the Python interpreter is installed in that very "
                "folder. Move the folder's other files, or use an interpreter elsewhere."
            )
            raise ExecutionError(message)


def _python_paths() -> list[Path]:
    return sorted(set(_iter_python_paths()))


def _iter_python_paths() -> Iterator[Path]:
    for text in (sys.prefix, sys.base_prefix):
        yield Path(text)
        yield Path(text).resolve()
