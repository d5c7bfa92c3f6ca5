"""Talks to a kernel of this server without leaving a mark: no history, no output, no queueing."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

from jupyter_client.asynchronous.client import AsyncKernelClient

__all__ = ["KernelBusyError", "KernelReply", "execute_silently", "find_kernel"]

_POLL_S = 0.05


class KernelBusyError(Exception):
    """Raised when a kernel does not answer in the time that a request may wait for it."""


@dataclass(frozen=True, slots=True)
class KernelReply:
    """What a kernel answers to a silent request; ``error`` is "" where all went well."""

    error: str
    expressions: Mapping[str, Any]


def find_kernel(kernel_manager: Any, kernel_id: str | None) -> Any:  # noqa: ANN401
    """Return the manager of a running kernel of this server, or None."""
    if not kernel_id or kernel_id not in kernel_manager:
        return None
    return kernel_manager.get_kernel(kernel_id)


async def execute_silently(
    kernel: Any,  # noqa: ANN401
    code: str,
    *,
    wait_s: float = 2.0,
    expressions: Mapping[str, str] | None = None,
) -> KernelReply:
    """Have a kernel execute code in silence: the execution count and the history stay.

    Args:
        kernel: The kernel's manager.
        code: Runs in the user's namespace; it must bind no name there.
        wait_s: Longest wait, for an idle kernel and for its reply together. Code that was sent
            and not yet begun by then still runs later, so it must bear that.
        expressions: Evaluated after ``code``, each on its own.

    Raises:
        KernelBusyError: If the kernel does not answer in time.
    """
    deadline_s = time.monotonic() + wait_s
    while getattr(kernel, "execution_state", "idle") == "busy":
        if time.monotonic() > deadline_s:
            raise KernelBusyError(f"the kernel has been busy for {wait_s:g} s")
        await asyncio.sleep(_POLL_S)
    content = {
        "code": code,
        "silent": True,
        "store_history": False,
        "user_expressions": dict(expressions or {}),
        "allow_stdin": False,
        "stop_on_error": False,
    }
    async with _open_shell(kernel) as client:
        message = client.session.msg("execute_request", content)
        client.shell_channel.send(message)
        sent_id = message["header"]["msg_id"]
        while True:
            reply = await _receive(client, deadline_s, wait_s)
            if reply["parent_header"].get("msg_id") == sent_id:
                return _read_reply(reply["content"])


@asynccontextmanager
async def _open_shell(kernel: Any) -> AsyncGenerator[AsyncKernelClient]:  # noqa: ANN401
    """Open a shell channel to a kernel, and nothing else."""
    session = kernel.session.clone()
    # It is also the socket's identity, and two sockets with one identity take turns being deaf.
    session.session = uuid4().hex
    info = {**kernel.get_connection_info(session=True), "session": session}
    client = cast("AsyncKernelClient", kernel.client_factory(**info))
    client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=False)
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.stop_channels()


async def _receive(client: AsyncKernelClient, deadline_s: float, wait_s: float) -> dict[str, Any]:
    left_s = deadline_s - time.monotonic()
    try:
        async with asyncio.timeout(max(left_s, 0)):
            return cast("dict[str, Any]", await client.shell_channel.get_msg())
    except TimeoutError:
        raise KernelBusyError(f"the kernel did not answer in {wait_s:g} s") from None


def _read_reply(content: Mapping[str, Any]) -> KernelReply:
    error = ""
    if content.get("status") != "ok":
        error = f"{content.get('ename', 'Error')}: {content.get('evalue', '')}"[:300]
    return KernelReply(error, content.get("user_expressions") or {})
