"""Which wall is around the worker: namespaces through libc, bubblewrap, or none if asked for.

Inside the wall there is no network, no other process is visible, everything is read-only but
``/tmp``, and all of it ends with the worker. The worker builds the mounts itself and gives every
sample its own; see ``worker/walls.py``.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import ExecutionError, UsageError
from jupyt5.execution.interpreters import Interpreter

__all__ = ["SANDBOX_CHOICES", "WORKER_PATH", "Sandbox", "choose_sandbox"]

SANDBOX_CHOICES = ("auto", "namespaces", "bwrap", "none")
WORKER_PATH = Path(__file__).parent / "worker"

_PROBE_TIMEOUT_S = 60
_SYSTEM_FOLDERS = frozenset({"/", "/usr", "/usr/local", "/bin", "/lib", "/etc", "/opt"})
_HINT = (
    "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap where it is setuid "
    "(Debian, Ubuntu: apt-get install bubblewrap), or use the container recipe "
    "(docs/environments.md), or run the code without any protection with --sandbox none."
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a worker's command line is wrapped, and which folders its processes do not see."""

    name: str
    bwrap_path: str = ""
    hidden_paths: tuple[Path, ...] = ()

    @property
    def isolates(self) -> bool:
        """Whether there is a wall at all."""
        return self.name != "none"

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return ``command`` so that it runs inside the outer wall."""
        if self.name == "namespaces":
            # No site packages: the warden needs the standard library only, and starts faster.
            return [sys.executable, "-E", "-s", "-S", str(WORKER_PATH / "warden.py"), *command]
        if self.name == "bwrap":
            options = ["--unshare-all", "--die-with-parent", "--new-session", "--bind", "/", "/"]
            options += ["--dev-bind", "/dev", "/dev", "--proc", "/proc"]
            options += ["--uid", "1000", "--gid", "1000"]
            for right in ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SYS_ADMIN"):
                options += ["--cap-add", f"CAP_{right}"]
            return [self.bwrap_path, *options, "--", *command]
        return list(command)

    def describe_walls(
        self,
        interpreter: Interpreter,
        base: str,
        *,
        disk_bytes: int,
        overlaid_paths: Sequence[Path] = (),
    ) -> dict[str, object] | None:
        """Return what the worker needs to build its mounts; None without a wall.

        Folders of users are covered; those that the interpreter needs are brought back, and so
        are ``overlaid_paths``, which cells may write to without changing them.
        """
        if not self.isolates:
            return None
        homes = {Path("/home"), Path("/root"), Path("/var/tmp"), Path(tempfile.gettempdir())}
        homes |= {Path.home(), *self.hidden_paths}
        hidden = {path.resolve() for path in homes if path.is_dir()}
        hidden = {path for path in hidden if str(path) not in _SYSTEM_FOLDERS}
        shown = {*interpreter.shown_paths, WORKER_PATH.resolve()}
        return {
            "base": base,
            "hidden": sorted(map(str, hidden)),
            "shown": sorted(map(str, shown)),
            "disk_bytes": disk_bytes,
            "overlaid": [str(path) for path in overlaid_paths],
        }


def choose_sandbox(
    name: str, interpreter: Interpreter, *, hidden_paths: Sequence[Path] = ()
) -> Sandbox:
    """Return the sandbox called ``name``, after trying it once.

    Args:
        name: ``auto`` takes what works: namespaces, else bubblewrap. ``none`` runs code without
            any protection.
        interpreter: What will run inside.
        hidden_paths: Folders that look empty inside, e.g. the reference solutions.

    Raises:
        UsageError: If the name is unknown.
        ExecutionError: If none works on this machine, or a hidden folder is the interpreter's own.
    """
    if name not in SANDBOX_CHOICES:
        message = f"--sandbox {name} is unknown. Choose one of: {', '.join(SANDBOX_CHOICES)}."
        raise UsageError(message)
    if name == "none":
        logger.warning("No sandbox: the code that is run can do whatever you can do.")
        return Sandbox("none")
    hidden = tuple(path.resolve() for path in hidden_paths)
    _check_hidden(hidden, interpreter)
    reasons: list[str] = []
    for candidate in ("namespaces", "bwrap"):
        if name not in ("auto", candidate):
            continue
        sandbox = Sandbox(candidate, shutil.which("bwrap") or "", hidden)
        reason = _find_fault(sandbox, interpreter)
        if not reason:
            return sandbox
        reasons.append(f"{candidate}: {reason}")
    message = f"There is no sandbox on this machine ({'; '.join(reasons)}). {_HINT}"
    raise ExecutionError(message)


def _find_fault(sandbox: Sandbox, interpreter: Interpreter) -> str:
    """Return why the sandbox does not work here; "" if it does."""
    if sandbox.name == "bwrap" and not sandbox.bwrap_path:
        return "bwrap is not on PATH"
    with tempfile.TemporaryDirectory(prefix="j5-probe-") as folder:
        for name in ("work", "home"):
            os.makedirs(f"{folder}/jupyt5/{name}")
        try:
            done = subprocess.run(
                sandbox.wrap([str(interpreter.path), str(WORKER_PATH / "bootstrap.py")]),
                input=json.dumps(_make_probe_job(sandbox, interpreter, folder)) + "\n",
                capture_output=True,
                text=True,
                timeout=_PROBE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return str(exc)
    if '"kind": "done"' in done.stdout:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _make_probe_job(sandbox: Sandbox, interpreter: Interpreter, base: str) -> dict[str, object]:
    """Return a job without cells: the worker builds its walls, starts and ends."""
    return {
        "mode": "fork",
        "cells": [],
        "tasks": [],
        "seed": 0,
        "limits": {},
        "folder": "/tmp/jupyt5/work",
        "environment": {"HOME": "/tmp/jupyt5/home", "IPYTHONDIR": "/tmp/jupyt5/home/.ipython"},
        "walls": sandbox.describe_walls(interpreter, base, disk_bytes=1 << 20),
    }


def _check_hidden(hidden_paths: Sequence[Path], interpreter: Interpreter) -> None:
    shown = {path.resolve() for path in interpreter.shown_paths}
    for path in hidden_paths:
        if path in shown:
            message = (
                f"The sandbox cannot hide {path}: the Python interpreter is installed in that very "
                "folder. Move the folder's other files, or use an interpreter elsewhere."
            )
            raise ExecutionError(message)
