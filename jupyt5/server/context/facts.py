"""Facts about a kernel's variables as one more context cell: names and types, never values."""

import ast
import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.base.handlers import JupyterHandler

from jupyt5.providers import FillRequest
from jupyt5.server.context.cells import choose_facts
from jupyt5.server.kernels import KernelBusyError, execute_silently, find_kernel
from jupyt5.server.messages import FillJob
from jupyt5.server.trying.handlers import may_execute

if TYPE_CHECKING:
    from jupyt5.server.app import JuPyT5App

__all__ = ["Facts", "fetch_facts", "find_facts"]

_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Facts:
    """Source of a cell that tells of variables; ``reason`` says why where there is none."""

    text: str = ""
    reason: str = ""


async def find_facts(handler: JupyterHandler, job: FillJob) -> Facts:
    """Return the facts for a request, where it wants some and its user may have them."""
    app = cast("JuPyT5App", handler.settings["jupyt5_app"])
    if not job.wants_facts:
        return Facts(reason="not asked for")
    if not app.allow_kernel_facts:
        return Facts(reason="the administrator has switched them off")
    if not await may_execute(handler):
        return Facts(reason="you may not use kernels on this server")
    kernel = find_kernel(handler.kernel_manager, job.kernel_id)
    return await fetch_facts(kernel, job.request, budget_bytes=app.kernel_facts_bytes)


async def fetch_facts(
    kernel: Any,  # noqa: ANN401
    request: FillRequest,
    *,
    budget_bytes: int,
) -> Facts:
    """Ask a kernel what its variables are, without leaving a mark or waiting for long.

    Args:
        kernel: The kernel's manager, or None.
        request: Names that stand in the cells around its target come first.
        budget_bytes: Longest text.
    """
    if kernel is None:
        return Facts(reason="no kernel is running")
    language = str(getattr(getattr(kernel, "kernel_spec", None), "language", "") or "python")
    if language.lower() != "python":
        return Facts(reason=f"the kernel runs {language}")
    try:
        reply = await execute_silently(
            kernel, "", wait_s=_WAIT_S, expressions={"facts": _expression()}
        )
    except KernelBusyError as exc:
        return Facts(reason=str(exc))
    entries = _read(reply.expressions.get("facts"))
    if entries is None:
        return Facts(reason="the kernel's answer could not be read")
    text = choose_facts(entries, request, budget_bytes=budget_bytes)
    return Facts(text) if text else Facts(reason="the kernel has no variables")


def _expression() -> str:
    """Return an expression that describes the namespace it is evaluated in, and binds no name."""
    source = (resources.files(__package__ or "") / "probe.py").read_text("utf-8")
    names = "{'__name__': 'jupyt5_facts'}"
    call = f"(exec({source!r}, space), space['describe'](get_ipython()))[1]"
    return f"__import__('json').dumps((lambda space: {call})({names}))"


def _read(result: object) -> list[tuple[str, str]] | None:
    data = cast("dict[str, Any]", result if isinstance(result, dict) else {}).get("data", {})
    try:
        rows = json.loads(ast.literal_eval(data["text/plain"]))
        return [(str(name), " ".join(str(text).split())) for name, text in rows]
    except (KeyError, TypeError, ValueError, SyntaxError):
        return None
