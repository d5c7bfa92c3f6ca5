"""Cells run one after another on one fresh IPython kernel, through nbclient.

The kernel talks over Unix sockets in the run's own folder: no TCP port is guessed or raced for,
and it works where the sandbox leaves no network. Only replies to the very requests sent here
count; outputs are kept as a short text for people.
"""
# pyright: standard
# (The kernel manager and nbformat leave most of their signatures without types.)

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
from typing import Any, cast

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from jupyt5.errors import ExecutionError
from jupyt5.execution.client import BoundedClient, make_plain
from jupyt5.execution.launch import Launch
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, shorten

__all__ = ["Launch", "Step", "run_steps"]

_STARTUP_TIMEOUT_S = 120
_STARTUP_TRIES = 3
_INTERRUPT_GRACE_S = 10.0
_CANCEL_POLL_S = 0.1
_LONE_SURROGATE = re.compile("[\\ud800-\\udfff]")

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
    steps: Sequence[Step], launch: Launch, *, cancel: threading.Event | None = None
) -> tuple[CellReply, ...]:
    """Run steps on one fresh kernel, and end the kernel with all that it started.

    May be called from any thread, also inside a running event loop.

    Args:
        steps: Cells in order. Steps that are not reached get the status ``not run``.
        launch: Where and how the kernel starts.
        cancel: When set, the kernel is ended and ``KeyboardInterrupt`` raised.

    Returns:
        One reply a step, in the order of the steps.

    Raises:
        ExecutionError: If no kernel could be started.
        KeyboardInterrupt: If cancelled.
    """

    def run() -> tuple[CellReply, ...]:
        return asyncio.run(_Session(launch, cancel or threading.Event()).run(steps))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(run).result()


class _Session:
    """One kernel, from its start to its end."""

    def __init__(self, launch: Launch, cancel: threading.Event) -> None:
        self._launch = launch
        self._cancel = cancel
        self._manager: AsyncKernelManager | None = None
        self._client: BoundedClient | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def run(self, steps: Sequence[Step]) -> tuple[CellReply, ...]:
        self._watcher = asyncio.create_task(self._watch_cancel())
        try:
            client = await self._start(steps)
            return await self._run_all(client, steps)
        except (RuntimeError, DeadKernelError):
            # What a kernel that was just killed makes nbclient say.
            if not self._cancel.is_set():
                raise
            raise KeyboardInterrupt from None
        finally:
            self._watcher.cancel()
            await self._end()

    async def _run_all(self, client: BoundedClient, steps: Sequence[Step]) -> tuple[CellReply, ...]:
        replies: list[CellReply] = []
        left_s: dict[str, float] = {}
        running = True
        for position, step in enumerate(steps):
            if not running:
                replies.append(_make_reply(step, CellStatus.NOT_RUN))
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
        self, client: BoundedClient, step: Step, position: int, limit_s: float
    ) -> CellReply:
        if not step.source.strip():
            # The interpreter is not asked, so there is no answer to prove anything with.
            return _make_reply(step, CellStatus.NOT_RUN)
        if limit_s <= 0:
            return _make_reply(step, CellStatus.TIMEOUT)
        if _LONE_SURROGATE.search(step.source):
            return _refuse_source(step)
        client.prepare(limit_s)
        cell = client.nb["cells"][position]
        start_s = time.monotonic()
        try:
            await client.async_execute_cell(cell, position)
            status = _read_status(client.last_reply)
        except CellTimeoutError:
            status = CellStatus.TIMEOUT
        except DeadKernelError:
            status = CellStatus.DIED
        except Exception as exc:
            # The sample runs in the interpreter and can break the talk with it in any way: forged
            # signatures, junk on a socket. What is sent from then on proves nothing.
            logger.info("Cell %d broke the talk with its kernel: %r", step.cell_idx, exc)
            self._kill()
            status = CellStatus.DIED
        wall_s = time.monotonic() - start_s
        if self._cancel.is_set():
            raise KeyboardInterrupt
        return _make_reply(step, status, client, wall_s)

    async def _interrupt(self, client: BoundedClient) -> bool:
        """Stop the running cell; False if the kernel does not come back."""
        assert self._manager is not None
        # After a time-out nbclient leaves its reader of the outputs behind, which would take the
        # messages of the next cells.
        stale = asyncio.all_tasks() - {asyncio.current_task(), self._watcher}
        for task in stale:
            task.cancel()
        await asyncio.gather(*stale, return_exceptions=True)
        client.prepare(_INTERRUPT_GRACE_S)
        try:
            await self._manager.interrupt_kernel()
            await client.async_execute_cell(new_code_cell("None"), 0, store_history=False)
        except Exception as exc:
            if self._cancel.is_set():
                raise KeyboardInterrupt from None
            logger.info("The kernel did not come back after a time-out: %r", exc)
            return False
        return True

    async def _start(self, steps: Sequence[Step]) -> BoundedClient:
        notebook = new_notebook(cells=[new_code_cell(step.source) for step in steps])
        for attempt in range(1, _STARTUP_TRIES + 1):
            if self._cancel.is_set():
                raise KeyboardInterrupt
            self._manager = self._launch.make_manager(attempt)
            self._client = client = BoundedClient(
                notebook,
                km=self._manager,
                allow_errors=True,
                startup_timeout=_STARTUP_TIMEOUT_S,
                skip_cells_with_tag="",
            )
            client.prepare()
            try:
                # Its descriptors lead nowhere: a flood must not fill a log or the disk.
                await client.async_start_new_kernel(
                    cwd=self._launch.cwd,
                    env=self._launch.make_environment(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                await client.async_start_new_kernel_client()
            except (RuntimeError, DeadKernelError) as exc:
                if self._cancel.is_set():
                    raise KeyboardInterrupt from None
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
        provisioner = self._manager.provisioner if self._manager else None
        group_id: object = getattr(provisioner, "pgid", None)
        if isinstance(group_id, int) and group_id > 1 and group_id != os.getpgrp():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group_id, signal.SIGKILL)

    async def _end(self) -> None:
        manager, client = self._manager, self._client
        if manager is None or client is None:
            return
        self._kill()
        self._manager = self._client = None
        if client.kc is not None:
            client.kc.stop_channels()
        if manager.provisioner is not None and manager.has_kernel:
            await manager.provisioner.kill()
            await manager.provisioner.wait()
        await manager.cleanup_resources()
        manager.context.destroy(linger=0)


def _read_status(reply: Mapping[str, Any]) -> CellStatus:
    """Read the interpreter's own word; anything but a plain "ok" is a failure."""
    return CellStatus.OK if reply.get("status") == "ok" else CellStatus.ERROR


def _make_reply(
    step: Step, status: CellStatus, client: BoundedClient | None = None, wall_s: float = 0.0
) -> CellReply:
    content: Mapping[str, Any] = client.last_reply if client else {}
    payload = _read_list(content, "payload")
    sources = [cast("dict[str, object]", p).get("source") for p in payload if isinstance(p, dict)]
    lines = [line for line in _read_list(content, "traceback") if isinstance(line, str)]
    return CellReply(
        cell_idx=step.cell_idx,
        stage=step.stage,
        status=status,
        error_name=make_plain(str(content.get("ename") or "")),
        error_message=shorten(make_plain(str(content.get("evalue") or ""))),
        traceback=make_plain("\n".join(lines)),
        output_head=client.render_output() if client else "",
        num_dropped_chars=client.num_dropped_chars if client else 0,
        asked_to_exit="ask_exit" in sources,
        wall_s=wall_s,
    )


def _read_list(content: Mapping[str, Any], name: str) -> list[object]:
    # The sample can change what its interpreter answers.
    value: object = content.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def _refuse_source(step: Step) -> CellReply:
    """Answer for the interpreter, which cannot be sent a lone surrogate and would refuse it."""
    return CellReply(
        cell_idx=step.cell_idx,
        stage=step.stage,
        status=CellStatus.ERROR,
        error_name="SyntaxError",
        error_message="the source holds a lone surrogate, which is not valid UTF-8",
    )
