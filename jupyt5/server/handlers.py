"""HTTP handlers of the fill service: thin skins over ``FillEngine``."""

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.iostream import StreamClosedError

from jupyt5 import __version__
from jupyt5.providers import list_providers
from jupyt5.server.fields import RequestError
from jupyt5.server.messages import (
    FillJob,
    error_line,
    find_request_id,
    parse_fill,
    provider_to_json,
)

if TYPE_CHECKING:
    from jupyt5.server.app import JuPyT5App

__all__ = ["HANDLERS"]

_NDJSON = "application/x-ndjson; charset=utf-8"


class _Handler(APIHandler):
    """What the handlers share: the resource that an authorizer decides on, and the app."""

    auth_resource = "jupyt5"

    @property
    def app(self) -> "JuPyT5App":
        return cast("JuPyT5App", self.settings["jupyt5_app"])


class FillHandler(_Handler):
    """``POST fill``: fill one cell; the reply is streamed as NDJSON."""

    _job: FillJob | None = None

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self) -> None:
        """Check the request, then stream."""
        body: bytes = self.request.body
        try:
            self._refuse_oversize(body)
            self._job = parse_fill(body, self.app.limits)
        except RequestError as exc:
            self.set_status(exc.status)
            reply = error_line(find_request_id(body), exc.code, str(exc))
            await self.finish(reply, set_content_type=_NDJSON)
            return
        self.set_header("Content-Type", _NDJSON)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")  # a proxy must not hold lines back
        await self._stream(self._job)

    def on_connection_close(self) -> None:
        """Cancel down to the generator when the page goes away."""
        if self._job is not None:
            self.app.engine.cancel(self._job.request_id)
        super().on_connection_close()

    async def _stream(self, job: FillJob) -> None:
        try:
            async with aclosing(self.app.engine.stream(job)) as lines:
                async for each in lines:
                    self.write(each)  # pyright: ignore[reportUnknownMemberType]
                    await self.flush()
        except StreamClosedError:
            return
        await self.finish(set_content_type=_NDJSON)

    def _refuse_oversize(self, body: bytes) -> None:
        limit = self.app.request_limit_bytes
        if len(body) > limit:
            message = (
                f"The request has {len(body)} bytes, {limit} are allowed. "
                "Send fewer cells, or raise c.JuPyT5App.request_limit_bytes."
            )
            raise RequestError("too_large", message, status=413)


class CancelHandler(_Handler):
    """``DELETE fill/{request_id}``: cancel a request."""

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def delete(self, request_id: str) -> None:
        """Answer whether such a request was running; pages cancel without knowing."""
        await self.finish(json.dumps({"cancelled": self.app.engine.cancel(request_id)}))


class ProvidersHandler(_Handler):
    """``GET providers``: what this installation can fill cells with."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer ``{default, allowed, providers: [{uri, available, detail}]}``."""
        infos = await asyncio.get_running_loop().run_in_executor(None, list_providers)
        reply = {
            "default": self.app.provider,
            "allowed": list(self.app.allowed_providers),
            "providers": [provider_to_json(info) for info in infos],
        }
        await self.finish(json.dumps(reply))


class StatusHandler(_Handler):
    """``GET status``: is a model loading, how many requests are running."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer ``{version, default, providers: [{uri, state, reason}], num_running}``."""
        engine = self.app.engine
        default = self.app.provider
        states = {each.uri: each for each in [engine.shelf.state(default), *engine.shelf.states()]}
        reply = {
            "version": __version__,
            "default": default,
            "providers": [
                {"uri": each.uri, "state": each.state, "reason": each.reason}
                for each in states.values()
            ],
            "num_running": engine.num_running,
        }
        await self.finish(json.dumps(reply))


HANDLERS: list[tuple[str, type[_Handler]]] = [
    (r"/jupyt5/api/fill", FillHandler),
    (r"/jupyt5/api/fill/([A-Za-z0-9_.:-]+)", CancelHandler),
    (r"/jupyt5/api/providers", ProvidersHandler),
    (r"/jupyt5/api/status", StatusHandler),
]
