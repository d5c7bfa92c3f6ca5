"""One worker process: its command line, its environment, and the messages that it sends."""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

from jupyt5.errors import ExecutionError
from jupyt5.execution.evidence import make_reply
from jupyt5.execution.jobs import Attempt, Isolation, Job, Task
from jupyt5.execution.sandbox import WORKER_PATH
from jupyt5.execution.scratch import remove_folder
from jupyt5.execution.setting import Setting
from jupyt5.execution.verdicts import CellReply, Stage
from jupyt5.execution.views import HOME_NAME, WORK_NAME, copy_view

__all__ = ["Message", "WorkerProcess"]

_POLL_S = 0.1
_START_S = 120.0
# Beyond its own limits a sample may take so long to be ended and buried.
_GRACE_S = 60.0
_WALL_FACTOR = 3
_INNER_ROOT = "/tmp"


@dataclass(frozen=True, slots=True)
class Message:
    """One line from the worker; what cells and samples put into it is theirs to choose."""

    content: Mapping[str, Any]
    isolation: Isolation

    @property
    def kind(self) -> str:
        """``started``, ``begin``, ``cell``, ``unsafe``, ``blocked``, ``sample`` or ``done``."""
        return str(self.content.get("kind"))

    @property
    def task(self) -> str:
        """Name of the task that it is about."""
        return str(self.content.get("task"))

    @property
    def key(self) -> str:
        """Key of the attempt that it is about."""
        return str(self.content.get("key"))

    @property
    def cell_idx(self) -> int:
        """Index of the cell that it is about."""
        return int(self.content.get("cell_idx", -1))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a fork is not sound."""
        return tuple(str(reason) for reason in self.content.get("reasons", ()))

    @property
    def opened(self) -> tuple[str, ...]:
        """Files that the notebook's cells opened, relative to the work folder."""
        return tuple(str(path) for path in self.content.get("opened", ()))

    @property
    def refused(self) -> tuple[str, ...]:
        """Commands that were not run."""
        return tuple(str(command) for command in self.content.get("refused", ()))

    def to_reply(self) -> CellReply:
        """Return what it says of a cell of the notebook."""
        return make_reply(self.content, Stage.CONTEXT)


class WorkerProcess:
    """A context manager: the worker and all that it started are gone at its end."""

    def __init__(
        self,
        job: Job,
        setting: Setting,
        tasks: Sequence[tuple[Task, Sequence[Attempt]]],
        mode: Isolation,
        cancel: threading.Event,
    ) -> None:
        self._job = job
        self._setting = setting
        self._tasks = tasks
        self._mode: Isolation = mode
        self._cancel = cancel
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed at the exit
        self._limit_s = _START_S
        self._copy_path: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.is_done = False
        self.timed_out = False
        self._has_started = False
        self._last_error = ""

    def __enter__(self) -> "WorkerProcess":
        setting = self._setting
        root = _INNER_ROOT
        if not setting.sandbox.isolates:
            self._copy_path = copy_view(setting.view_path)
            root = str(self._copy_path)
        environment = _make_environment(f"{root}/{HOME_NAME}", setting, self._job.seed)
        command = [str(setting.interpreter.path), str(WORKER_PATH / "bootstrap.py")]
        self._process = subprocess.Popen(
            setting.sandbox.wrap(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd="/",
            process_group=0,
        )
        self._send(self._render(root, environment))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._errors):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._copy_path:
            remove_folder(self._copy_path)

    def read(self) -> Iterator[Message]:
        """Yield the worker's messages until it is done, dead, or over time.

        Raises:
            KeyboardInterrupt: If cancelled.
        """
        for line in self._iter_lines():
            try:
                content: object = json.loads(line)
            except ValueError:
                return
            if not isinstance(content, dict):
                return
            message = Message(cast("dict[str, Any]", content), self._mode)
            if message.kind == "started":
                self._has_started = True
            self.is_done = message.kind == "done"
            self._limit_s = self._limit_after(message)
            yield message
            if self.is_done:
                return

    def raise_fault(self) -> None:
        """Say what is wrong if the worker never came up.

        Raises:
            ExecutionError: Then.
        """
        if self._has_started:
            return
        message = (
            f"No worker could be started with {self._setting.interpreter.path}: "
            f"{self._last_error or 'it said nothing'}. Check that IPython runs there, and use "
            "fewer --workers."
        )
        raise ExecutionError(message)

    def _limit_after(self, message: Message) -> float:
        limits = self._setting.limits
        if self._mode == "kernel":
            num_cells = len(self._job.cells) + 1
            return num_cells * limits.context_timeout_s + _GRACE_S
        if message.kind == "begin":
            return limits.context_timeout_s
        return _WALL_FACTOR * limits.timeout_s + _GRACE_S

    def _iter_lines(self) -> Iterator[bytes]:
        assert self._process is not None
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        rest = b""
        deadline_s = time.monotonic() + self._limit_s
        while True:
            if self._cancel.is_set():
                raise KeyboardInterrupt
            if select.select([fd], [], [], _POLL_S)[0]:
                data = os.read(fd, 1 << 20)
                if not data:
                    self._note_errors()
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from lines
                if lines:
                    deadline_s = time.monotonic() + self._limit_s
            elif time.monotonic() > deadline_s:
                self.timed_out = True
                return

    def _note_errors(self) -> None:
        self._errors.seek(0)
        lines = self._errors.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
        self._last_error = lines[-1] if lines else ""

    def _send(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # A worker that does not even start closes its end.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text.encode("utf-8", "surrogatepass") + b"\n")
            self._process.stdin.close()

    def _render(self, root: str, environment: Mapping[str, str]) -> str:
        setting, job = self._setting, self._job
        folder_path = setting.folder_path
        record = {
            "mode": self._mode,
            "folder": str(folder_path or f"{root}/{WORK_NAME}/{job.folder}"),
            "work": f"{root}/{WORK_NAME}",
            "records_files": job.records_files,
            "runs_as": job.runs_as,
            "preload": list(job.preload),
            "seed": job.seed,
            "cells": [list(cell) for cell in job.cells],
            "environment": dict(environment),
            "limits": setting.limits.to_record(),
            "tasks": [task.to_record(attempts) for task, attempts in self._tasks],
            "copy_to": None if setting.sandbox.isolates else root,
            "walls": setting.sandbox.describe_walls(
                setting.interpreter,
                str(setting.view_path),
                disk_bytes=setting.limits.disk_bytes,
                overlaid_paths=[folder_path] if folder_path else (),
            ),
        }
        return json.dumps(record)


def _make_environment(home: str, setting: Setting, hash_seed: int) -> dict[str, str]:
    """Return the whole environment of a worker: nothing of the user's own is passed on."""
    interpreter = setting.interpreter
    inline = "matplotlib-inline" in interpreter.packages
    environment = {
        "HOME": home,
        "IPYTHONDIR": f"{home}/.ipython",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline" if inline else "agg",
        "PATH": f"{interpreter.path.parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONNOUSERSITE": "1",
        "TZ": "UTC",
        "USER": "user",
    }
    for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
        environment[f"{name}_NUM_THREADS"] = "1"
    return environment
