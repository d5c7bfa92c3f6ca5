"""HTTP of trying: a reader's consent, and whether a request may try at all."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web

from jupyt5.errors import ExecutionError
from jupyt5.execution.trials import find_walls
from jupyt5.server.fields import RequestError, read_object, read_text
from jupyt5.server.kernels import find_kernel
from jupyt5.server.messages import FillJob
from jupyt5.server.origins import SameOriginHandler
from jupyt5.server.trying.desk import TryPlace

if TYPE_CHECKING:
    from jupyt5.server.app import JuPyT5App

__all__ = ["TRY_HANDLERS", "find_place", "may_execute"]

_SWITCHED_OFF = "the administrator has switched trying off"
_NO_RIGHT = "you may not execute code on this server"


class ConsentHandler(SameOriginHandler):
    """``GET`` and ``POST consent``: may candidates be tried in this notebook?"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer ``{notebook_path, allowed, available, reason}``."""
        await self._answer(_strip_drive(self.get_query_argument("notebook_path")))

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self) -> None:
        """Note or withdraw a consent: ``{notebook_path, allowed}``."""
        try:
            path, allowed = _read_consent(self.request.body)
        except RequestError as exc:
            raise web.HTTPError(exc.status, reason=str(exc)) from exc
        if allowed and not await may_execute(self):
            raise web.HTTPError(403, reason=_NO_RIGHT)
        _app(self).consent.set(_user(self), path, allowed=allowed)
        await self._answer(path)

    async def _answer(self, path: str) -> None:
        reason = "" if _app(self).allow_try else _SWITCHED_OFF
        if not reason and not await may_execute(self):
            reason = _NO_RIGHT
        if not reason:
            reason = await asyncio.to_thread(_find_no_walls)
        reply = {
            "notebook_path": path,
            "allowed": _app(self).consent.allows(_user(self), path),
            "available": not reason,
            "reason": reason,
        }
        await self.finish(json.dumps(reply))


async def find_place(handler: JupyterHandler, job: FillJob) -> TryPlace:
    """Return where a request's candidates may be tried, if anywhere.

    Args:
        handler: Whose user asks.
        job: The request; it asks for a try.
    """
    assert job.trial is not None
    path, app = _strip_drive(job.trial.notebook_path), _app(handler)
    if not app.allow_try:
        return TryPlace(refusal=_SWITCHED_OFF)
    if not await may_execute(handler):
        return TryPlace(refusal=_NO_RIGHT)
    if not app.consent.allows(_user(handler), path):
        return TryPlace(refusal="you have not allowed it for this notebook")
    if not await _is_trusted(handler, path):
        reason = "the notebook as it was last saved is not trusted"
        return TryPlace(refusal=f"{reason}: save it, or use File → Trust Notebook")
    if sys.platform != "linux":
        return TryPlace(refusal="there is no sandbox but on Linux")
    kernel = find_kernel(handler.kernel_manager, job.trial.kernel_id)
    python, refusal = _find_python(kernel)
    return TryPlace(
        kernel=kernel, folder=_find_folder(handler, path), python=python, refusal=refusal
    )


def _read_consent(body: bytes) -> tuple[str, bool]:
    fields = read_object(body)
    path = _strip_drive(read_text(fields, "notebook_path"))
    allowed = fields.get("allowed")
    if not path or not isinstance(allowed, bool):
        message = "Send a notebook_path and allowed (true or false)."
        raise RequestError("bad_request", message)
    return path, allowed


def _app(handler: JupyterHandler) -> "JuPyT5App":
    return cast("JuPyT5App", handler.settings["jupyt5_app"])


def _user(handler: JupyterHandler) -> str:
    return str(handler.current_user.username)


async def may_execute(handler: JupyterHandler) -> bool:
    """Whether the user may run code in this server's kernels."""
    decided = handler.authorizer.is_authorized(handler, handler.current_user, "execute", "kernels")
    return bool(await ensure_async(decided))


async def _is_trusted(handler: JupyterHandler, path: str) -> bool:
    """Whether Jupyter trusts the notebook as it was last saved: all code cells are marked so."""
    contents = cast("Any", handler.contents_manager)
    try:
        model: dict[str, Any] = await ensure_async(contents.get(path, type="notebook"))
    except web.HTTPError:
        return False
    cells = model["content"].get("cells", [])
    return all(c["metadata"].get("trusted") for c in cells if c["cell_type"] == "code")


def _find_no_walls() -> str:
    try:
        find_walls(None)
    except ExecutionError as exc:
        return str(exc)
    return ""


def _find_python(kernel: Any) -> tuple[Path | None, str]:  # noqa: ANN401
    """Return the interpreter for a fresh run, or why there is no run of any kind."""
    if kernel is None:
        return None, ""
    spec = getattr(kernel, "kernel_spec", None)
    language = str(getattr(spec, "language", "") or "python")
    if language.lower() != "python":
        return None, f"the kernel runs {language}"
    command = list(getattr(spec, "argv", None) or [""])
    found = shutil.which(str(command[0]))
    is_python = found is not None and Path(found).name.startswith("python")
    return (Path(found) if found and is_python else None), ""


def _find_folder(handler: JupyterHandler, path: str) -> Path | None:
    root = getattr(handler.contents_manager, "root_dir", None)
    if not root:
        return None
    folder = (Path(str(root)) / path).parent
    return folder if folder.is_dir() else None


def _strip_drive(path: str) -> str:
    """Return a notebook's path without the drive by which collaboration names it."""
    return path.removeprefix("RTC:").strip("/")


TRY_HANDLERS: list[tuple[str, type[JupyterHandler]]] = [(r"/jupyt5/api/consent", ConsentHandler)]
