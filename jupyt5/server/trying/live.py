"""One try in a fork of a live kernel: the copy comes to a socket of ours and is told what to do.

The kernel itself is away for the time of a fork. What it runs is in ``execution/worker/live.py``.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyt5.execution.jobs import Limits
from jupyt5.execution.sandbox import WORKER_PATH
from jupyt5.execution.trials import Trial, Tried, judge_live
from jupyt5.server.kernels import KernelBusyError, execute_silently

__all__ = ["CannotTryError", "LiveSession", "open_live"]

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_WAIT_S = 2.0
_START_S = 15.0
_GRACE_S = 30.0
_WALL_FACTOR = 3
_LINE_LIMIT_BYTES = 1 << 24
# Binds no name, and asks for none that a user could have bound to something else.
_CODE = (
    "(lambda b, ns: (b.exec(b.compile(__import__('pathlib').Path({path!r}).read_text('utf-8'), "
    "{path!r}, 'exec'), ns), ns['start']({socket!r}, {folder!r}))[0])"
    "(__import__('builtins'), {{'__name__': '_jupyt5_live'}})"
)


class CannotTryError(Exception):
    """Raised when candidates cannot be tried in one way; the text is the reason."""


class LiveSession:
    """A fork of a live kernel that waits for candidates."""

    def __init__(
        self,
        trial: Trial,
        limits: Limits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._trial = trial
        self._limit_s = _WALL_FACTOR * limits.timeout_s + _GRACE_S
        self._reader = reader
        self._writer = writer

    async def prepare(self, job: Mapping[str, object]) -> None:
        """Send the job; wait until the walls stand.

        Raises:
            CannotTryError: If the copy is not sound, or there can be no walls.
        """
        await self._send(job)
        reply = await self._receive(_START_S)
        if reply.get("kind") != "ready":
            reasons = cast("list[object]", reply.get("reasons") or ["the copy ended"])
            raise CannotTryError("; ".join(str(reason) for reason in reasons))

    async def judge(self, key: str, source: str) -> Tried:
        """Try one candidate.

        Raises:
            CannotTryError: If the copy is gone.
        """
        await self._send({"key": key, "source": source})
        reply = await self._receive(self._limit_s)
        if reply.get("kind") != "sample":
            reasons = cast("list[object]", reply.get("reasons") or ["the copy ended"])
            raise CannotTryError("; ".join(str(reason) for reason in reasons))
        return judge_live(self._trial, source, reply)

    def close(self) -> None:
        """Hang up: the copy and all in it are ended."""
        self._writer.close()

    async def _send(self, content: Mapping[str, object]) -> None:
        self._writer.write(json.dumps(content).encode() + b"\n")
        with suppress(ConnectionError):
            await self._writer.drain()

    async def _receive(self, limit_s: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(limit_s):
                found: object = json.loads(await self._reader.readline() or b"{}")
        except (TimeoutError, OSError, ValueError) as exc:
            raise CannotTryError(f"the copy does not answer ({exc or type(exc).__name__})") from exc
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@asynccontextmanager
async def open_live(
    kernel: Any,  # noqa: ANN401
    trial: Trial,
    limits: Limits,
) -> AsyncGenerator[LiveSession]:
    """Fork a kernel of this server for one try.

    Args:
        kernel: The kernel's manager; None if there is no kernel.
        trial: What candidates are tried against.
        limits: Of each candidate.

    Raises:
        CannotTryError: If there is no sound way to do it.
    """
    _require_local_python(kernel)
    # Only this account can reach what is inside.
    with tempfile.TemporaryDirectory(prefix="j5-try-") as folder:
        reader, writer = await _call_copy(kernel, f"{folder}/s")
        session = LiveSession(trial, limits, reader, writer)
        try:
            await session.prepare(_describe_job(trial, limits))
            yield session
        finally:
            session.close()


async def _call_copy(kernel: Any, socket_path: str) -> _Streams:  # noqa: ANN401
    """Have the kernel fork; return the connection that its copy makes."""
    came: asyncio.Future[_Streams] = asyncio.get_running_loop().create_future()

    def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if came.done():
            writer.close()
        else:
            came.set_result((reader, writer))

    server = await asyncio.start_unix_server(welcome, socket_path, limit=_LINE_LIMIT_BYTES)
    try:
        await _ask(kernel, socket_path)
        async with asyncio.timeout(_START_S):
            return await came
    except TimeoutError:
        raise CannotTryError("its copy did not come") from None
    finally:
        server.close()


def _describe_job(trial: Trial, limits: Limits) -> dict[str, object]:
    return {
        "limits": limits.to_record(),
        "disk_bytes": limits.disk_bytes,
        "target_idx": trial.target_idx,
        "grading": [trial.grading_idx],
        "own_names": sorted(trial.wanted),
        "cells": [list(cell) for cell in trial.below],
    }


def _require_local_python(kernel: Any) -> None:  # noqa: ANN401
    if kernel is None:
        raise CannotTryError("no kernel is running")
    if not isinstance(getattr(kernel, "provisioner", None), LocalProvisioner):
        raise CannotTryError("the kernel runs on another machine")
    language = str(getattr(getattr(kernel, "kernel_spec", None), "language", "") or "python")
    if language.lower() != "python":
        raise CannotTryError(f"the kernel runs {language}")


async def _ask(kernel: Any, socket_path: str) -> None:  # noqa: ANN401
    path: Path = WORKER_PATH / "live.py"
    code = _CODE.format(path=str(path), socket=socket_path, folder=str(WORKER_PATH))
    try:
        reply = await execute_silently(kernel, code, wait_s=_WAIT_S)
    except KernelBusyError as exc:
        raise CannotTryError(str(exc)) from exc
    if reply.error:
        raise CannotTryError(f"the kernel refuses a fork ({reply.error})")
