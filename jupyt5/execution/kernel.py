"""Cells run one after another on one fresh IPython kernel, through nbclient.

The kernel talks over Unix sockets in the run's own folder: no TCP port is guessed or raced for,
and it works where the sandbox leaves no network. Only replies to the very requests sent here
count; outputs are kept as a short text for people, and are dropped beyond it.
"""

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient.client import NotebookClient
from nbclient.exceptions import CellExecutionComplete, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from jupyt5.errors import ExecutionError
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, shorten
from jupyt5.execution.workspace import Workspace

__all__ = ["Step", "run_steps"]

_STARTUP_TIMEOUT_S = 120
_STARTUP_TRIES = 3
_INTERRUPT_GRACE_S = 10.0
_CANCEL_POLL_S = 0.1
_OUTPUT_LIMIT_CHARS = 4000
_ANSI_CODE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One cell to run.

    Attributes:
        cell_idx: Index of the cell in its notebook.
        source: Its text, run as it is.
        stage: What it is run for.
        limit_s: Wall seconds; steps with the same ``group`` share one limit.
        group: Name of a shared limit; None for a limit of its own.
        goes_on: Whether the next step is run although this one failed. After a time-out the
            kernel is interrupted first.
    """

    cell_idx: int
    source: str
    stage: Stage
    limit_s: float
    group: str | None = None
    goes_on: bool = True


def run_steps(
    steps: Sequence[Step],
    *,
    workspace: Workspace,
    sandbox: Sandbox,
    folder: str = ".",
    hash_seed: int = 0,
    cancel: threading.Event | None = None,
) -> tuple[CellReply, ...]:
    """Run steps on one fresh kernel, and end the kernel with all that it started.

    May be called from any thread, also inside a running event loop.

    Args:
        steps: Cells in order. Steps that are not reached get the status ``not run``.
        workspace: Folders of this run.
        sandbox: Wall around the kernel.
        folder: Where in the work folder the kernel starts.
        hash_seed: The kernel's PYTHONHASHSEED.
        cancel: When set, the kernel is ended and ``KeyboardInterrupt`` raised.

    Returns:
        One reply a step, in the order of the steps.

    Raises:
        ExecutionError: If no kernel could be started.
        KeyboardInterrupt: If cancelled.
    """

    def run() -> tuple[CellReply, ...]:
        place = _Place(workspace, sandbox, folder, hash_seed)
        return asyncio.run(_Session(place, cancel or threading.Event()).run(steps))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(run).result()


class _Client(NotebookClient):
    """nbclient that keeps the last reply and a bounded text of the outputs, and nothing else."""

    last_reply: Mapping[str, Any]
    output_text: list[str]
    num_output_chars: int

    def forget(self) -> None:
        self.last_reply = {}
        self.output_text = []
        self.num_output_chars = 0

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        content = msg["content"]
        if msg["msg_type"] == "status" and content.get("execution_state") == "idle":
            raise CellExecutionComplete
        text = content.get("text")
        if msg["msg_type"] in {"execute_result", "display_data"}:
            text = (content.get("data") or {}).get("text/plain")
        if isinstance(text, str):
            room = _OUTPUT_LIMIT_CHARS - self.num_output_chars
            self.num_output_chars += len(text)
            if room > 0:
                self.output_text.append(text[:room])
        return None

    def render_output(self) -> str:
        text = _plain("".join(self.output_text))
        dropped = self.num_output_chars - _OUTPUT_LIMIT_CHARS
        return text + f"\n[… {dropped:,} more characters]\n" if dropped > 0 else text


class _OneSpec(KernelSpecManager):
    """Knows one kernel: this interpreter, inside this run's wall."""

    def __init__(self, spec: KernelSpec):
        super().__init__()
        self._spec = spec

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return self._spec


@dataclass(frozen=True, slots=True)
class _Place:
    """Where and how a kernel starts."""

    workspace: Workspace
    sandbox: Sandbox
    folder: str
    hash_seed: int

    def make_manager(self, attempt: int) -> AsyncKernelManager:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv += ["--HistoryManager.enabled=False"]
        spec = KernelSpec(
            argv=self.sandbox.wrap(argv, self.workspace, self.folder),
            display_name="JuPyT5 sample",
            language="python",
            interrupt_mode="message",
        )
        socket_path = self.workspace.socket_path
        return AsyncKernelManager(
            kernel_name="jupyt5",
            kernel_spec_manager=_OneSpec(spec),
            transport="ipc",
            ip=str(socket_path / f"k{attempt}"),
            connection_file=str(socket_path / f"kernel{attempt}.json"),
        )

    def make_environment(self) -> dict[str, str]:
        """Return the kernel's whole environment: nothing of the user's own is passed on."""
        home = str(self.sandbox.home_path(self.workspace))
        environment = {
            "HOME": home,
            "IPYTHONDIR": f"{home}/.ipython",
            "JUPYTER_RUNTIME_DIR": f"{home}/.runtime",
            "LANG": "C.UTF-8",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": str(self.hash_seed),
            "PYTHONNOUSERSITE": "1",
            "TMPDIR": home,
            "TZ": "UTC",
        }
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
            environment[f"{name}_NUM_THREADS"] = "1"
        return environment


class _Session:
    """One kernel, from its start to its end."""

    def __init__(self, place: _Place, cancel: threading.Event):
        self._place = place
        self._cancel = cancel
        self._client: _Client | None = None

    async def run(self, steps: Sequence[Step]) -> tuple[CellReply, ...]:
        watcher: asyncio.Task[None] | None = None
        try:
            client = await self._start(steps)
            watcher = asyncio.create_task(self._watch_cancel())
            return await self._run_all(client, steps)
        finally:
            if watcher:
                watcher.cancel()
            await self._end()
            if self._cancel.is_set():
                raise KeyboardInterrupt

    async def _run_all(self, client: _Client, steps: Sequence[Step]) -> tuple[CellReply, ...]:
        replies: list[CellReply] = []
        left_s: dict[str, float] = {}
        running = True
        for position, step in enumerate(steps):
            if not running:
                replies.append(_reply(step, CellStatus.NOT_RUN))
                continue
            limit_s = left_s.get(step.group, step.limit_s) if step.group else step.limit_s
            reply = await self._run_step(client, step, position, limit_s)
            replies.append(reply)
            if step.group:
                left_s[step.group] = limit_s - reply.wall_s
            if reply.status is CellStatus.TIMEOUT:
                # A spent shared limit leaves no time for the rest of its group.
                more = any(not s.group or s.group != step.group for s in steps[position + 1 :])
                running = step.goes_on and more and await self._interrupt(client)
            elif reply.status in {CellStatus.ERROR, CellStatus.DIED}:
                running = step.goes_on and reply.status is not CellStatus.DIED
        return tuple(replies)

    async def _run_step(
        self, client: _Client, step: Step, position: int, limit_s: float
    ) -> CellReply:
        if not step.source.strip():
            # The interpreter is not asked, so there is no answer to prove anything with.
            return _reply(step, CellStatus.NOT_RUN)
        if limit_s <= 0:
            return _reply(step, CellStatus.TIMEOUT)
        client.forget()
        client.timeout_func = lambda _cell: limit_s
        cell = client.nb["cells"][position]
        start_s = time.monotonic()
        status = CellStatus.DIED
        try:
            await client.async_execute_cell(cell, position)
            status = _status_of(client.last_reply)
        except CellTimeoutError:
            status = CellStatus.TIMEOUT
        except DeadKernelError:
            status = CellStatus.DIED
        wall_s = time.monotonic() - start_s
        if self._cancel.is_set():
            raise KeyboardInterrupt
        return _reply(step, status, client, wall_s)

    async def _interrupt(self, client: _Client) -> bool:
        """Stop the running cell; False if the kernel does not come back."""
        assert client.km is not None
        assert client.kc is not None
        await cast("AsyncKernelManager", client.km).interrupt_kernel()
        client.timeout_func = lambda _cell: _INTERRUPT_GRACE_S
        probe = new_code_cell("None")
        try:
            await client.async_execute_cell(probe, 0, store_history=False)
        except (CellTimeoutError, DeadKernelError):
            return False
        return True

    async def _start(self, steps: Sequence[Step]) -> _Client:
        notebook = new_notebook(cells=[new_code_cell(step.source) for step in steps])
        for attempt in range(1, _STARTUP_TRIES + 1):
            if self._cancel.is_set():
                raise KeyboardInterrupt
            manager = self._place.make_manager(attempt)
            client = _Client(
                notebook,
                km=manager,
                allow_errors=True,
                startup_timeout=_STARTUP_TIMEOUT_S,
                skip_cells_with_tag="",
            )
            client.log.setLevel(logging.CRITICAL)
            client.on_cell_executed = _keep_reply(client)
            self._client = client
            try:
                # The descriptors of the kernel lead nowhere: a flood must not fill a log or the disk.
                await client.async_start_new_kernel(
                    cwd=str(self._place.workspace.work_path / self._place.folder),
                    env=self._place.make_environment(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                await client.async_start_new_kernel_client()
            except (RuntimeError, DeadKernelError) as exc:
                logger.warning("Kernel start %d of %d failed: %s", attempt, _STARTUP_TRIES, exc)
                await self._end()
                continue
            return client
        message = (
            f"No kernel answered after {_STARTUP_TRIES} tries ({sys.executable} -m "
            "ipykernel_launcher). Check that ipykernel runs there, and use fewer --workers."
        )
        raise ExecutionError(message)

    async def _watch_cancel(self) -> None:
        while not self._cancel.is_set():
            await asyncio.sleep(_CANCEL_POLL_S)
        self._kill()

    def _kill(self) -> None:
        provisioner = self._client.km.provisioner if self._client and self._client.km else None
        group_id = getattr(provisioner, "pgid", None)
        if group_id and group_id != os.getpgrp():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group_id, signal.SIGKILL)

    async def _end(self) -> None:
        client = self._client
        if client is None:
            return
        manager = cast("AsyncKernelManager | None", client.km)
        self._kill()
        if client.kc is not None:
            client.kc.stop_channels()
        if manager is not None:
            if manager.has_kernel:
                await manager.shutdown_kernel(now=True)
            await manager.cleanup_resources()
            manager.context.destroy(linger=0)
        self._client = None


def _keep_reply(client: _Client) -> Any:
    def keep(*, cell: object, cell_index: int, execute_reply: Mapping[str, Any]) -> None:
        client.last_reply = execute_reply["content"]

    return keep


def _status_of(reply: Mapping[str, Any]) -> CellStatus:
    """Read the interpreter's own word; anything but a plain "ok" is a failure."""
    return CellStatus.OK if reply.get("status") == "ok" else CellStatus.ERROR


def _reply(
    step: Step, status: CellStatus, client: _Client | None = None, wall_s: float = 0.0
) -> CellReply:
    content = client.last_reply if client else {}
    lines = [line for line in content.get("traceback") or () if isinstance(line, str)]
    payload = [part for part in content.get("payload") or () if isinstance(part, dict)]
    return CellReply(
        cell_idx=step.cell_idx,
        stage=step.stage,
        status=status,
        error_name=_plain(str(content.get("ename") or "")),
        error_message=shorten(_plain(str(content.get("evalue") or ""))),
        traceback=_plain("\n".join(lines)),
        output_head=client.render_output() if client else "",
        asked_to_exit=any(part.get("source") == "ask_exit" for part in payload),
        wall_s=wall_s,
    )


def _plain(text: str) -> str:
    """Take colour codes and control characters out: texts of samples end up on terminals."""
    return _CONTROL.sub("", _ANSI_CODE.sub("", text))
