"""HTTP handlers of the fill service: thin skins over ``FillEngine``."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.iostream import StreamClosedError

from jupyt5 import __version__
from jupyt5.errors import Jupyt5Error
from jupyt5.providers import hide_secrets, list_providers
from jupyt5.server.context.facts import find_facts
from jupyt5.server.engine import QueueFullError
from jupyt5.server.fields import RequestError
from jupyt5.server.messages import (
    FillJob,
    choose_provider,
    error_line,
    find_request_id,
    parse_fill,
    provider_to_json,
)
from jupyt5.server.origins import SameOriginHandler
from jupyt5.server.standing import Standing, find_standing
from jupyt5.server.trying.desk import TryPlace
from jupyt5.server.trying.handlers import TRY_HANDLERS, find_place

if TYPE_CHECKING:
    from jupyt5.server.app import JuPyT5App

__all__ = ["HANDLERS"]

_NDJSON = "application/x-ndjson; charset=utf-8"


class _Handler(SameOriginHandler):
    """What the handlers share: access to the app, and how a fill request is read and refused."""

    @property
    def app(self) -> "JuPyT5App":
        return cast("JuPyT5App", self.settings["jupyt5_app"])

    def parse_job(self) -> FillJob:
        """Check the body of a fill request.

        Raises:
            RequestError: If it is malformed, too large, or not served here.
        """
        if not self.app.enabled:
            message = "The administrator has turned the assistant off on this server."
            raise RequestError("disabled", message, status=403)
        body: bytes = self.request.body
        limit = self.app.request_limit_bytes
        if len(body) > limit:
            message = (
                f"The request has {len(body)} bytes, {limit} are allowed. "
                "Send fewer cells, or raise c.JuPyT5App.request_limit_bytes."
            )
            raise RequestError("too_large", message, status=413)
        return parse_fill(body, self.app.limits, user=self.current_user.username)

    async def refuse(self, error: RequestError) -> None:
        """Answer with one error line."""
        self.set_status(error.status)
        if isinstance(error, QueueFullError):
            self.set_header("Retry-After", str(error.retry_after_s))
        reply = error_line(find_request_id(self.request.body), error.code, str(error))
        await self.finish(reply, set_content_type=_NDJSON)


class FillHandler(_Handler):
    """``POST fill``: fill one cell; the reply is streamed as NDJSON."""

    _job: FillJob | None = None

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self) -> None:
        """Check the request, then stream."""
        try:
            job = self.parse_job()
            self.app.engine.admit(job.user)
        except RequestError as exc:
            await self.refuse(exc)
            return
        self._job = job
        if job.wants_facts:
            job = replace(job, facts=(await find_facts(self, job)).text)
        place = await find_place(self, job) if job.trial else None
        self.set_header("Content-Type", _NDJSON)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")  # a proxy must not hold lines back
        await self._stream(job, place)

    def on_connection_close(self) -> None:
        """Cancel down to the generator when the page goes away."""
        if self._job is not None:
            self.app.cancel(self._job.request_id)
        super().on_connection_close()

    async def _stream(self, job: FillJob, place: TryPlace | None) -> None:
        app = self.app
        stream = app.try_desk.stream(app.engine, job, place) if place else app.engine.stream(job)
        try:
            async with aclosing(stream) as lines:
                async for each in lines:
                    self.write(each)  # pyright: ignore[reportUnknownMemberType]
                    await self.flush()
        except StreamClosedError:
            return
        await self.finish(set_content_type=_NDJSON)


class ContextHandler(_Handler):
    """``POST context``: what a fill request would send; nothing is generated."""

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self) -> None:
        """Answer ``{provider, text, num_tokens, facts, facts_reason}``."""
        try:
            job = self.parse_job()
        except RequestError as exc:
            await self.refuse(exc)
            return
        facts = await find_facts(self, job)
        job = replace(job, facts=facts.text)
        try:
            provider = await self.app.engine.shelf.get(job.provider)
            shown = await asyncio.to_thread(provider.preview, job.asked, job.sampling)
        except Jupyt5Error as exc:
            await self.refuse(RequestError("provider_failed", str(exc), status=502))
            return
        reply = {
            "provider": hide_secrets(job.provider),
            "text": shown.text,
            "num_tokens": shown.num_tokens,
            "facts": facts.text or None,
            "facts_reason": facts.reason,
        }
        await self.finish(json.dumps(reply))


class CancelHandler(_Handler):
    """``DELETE fill/{request_id}``: cancel a request."""

    @web.authenticated
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def delete(self, request_id: str) -> None:
        """Answer whether such a request was running; pages cancel without knowing."""
        await self.finish(json.dumps({"cancelled": self.app.cancel(request_id)}))


class ProvidersHandler(_Handler):
    """``GET providers``: what this installation can fill cells with."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer ``{default, allowed, providers: [{uri, available, detail}]}``."""
        infos = await asyncio.get_running_loop().run_in_executor(None, list_providers)
        reply = {
            "default": hide_secrets(self.app.limits.provider),
            "allowed": list(map(hide_secrets, self.app.allowed_providers)),
            "providers": [provider_to_json(info) for info in infos],
        }
        await self.finish(json.dumps(reply))


class StatusHandler(_Handler):
    """``GET status``: could a cell be filled now, and how many are being filled."""

    async def prepare(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Leave the query out of the log: there may be a password in a provider's URI."""
        self.request.uri = self.request.path
        await super().prepare()

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer where the assistant and its providers stand, at once; see ``reply``.

        ``?provider=URI`` asks about another one than the server's own.
        """
        engine, limits = self.app.engine, self.app.limits
        asked = self.get_query_argument("provider", "")
        try:
            asked = choose_provider(asked, limits)
            standing = find_standing(engine, asked)
        except RequestError as exc:
            standing = Standing("offline", str(exc))
        default = engine.shelf.state(limits.provider)
        states = {each.uri: each for each in [default, *engine.shelf.states()]}
        reply = {
            "version": __version__,
            "enabled": self.app.enabled,
            "kernel_facts": self.app.allow_kernel_facts,
            "default": hide_secrets(limits.provider),
            "provider": hide_secrets(asked),
            "state": standing.state,
            "reason": standing.reason,
            "running": engine.num_running,
            "waiting": engine.num_waiting,
            "providers": [
                {"uri": hide_secrets(each.uri), "state": each.state, "reason": each.reason}
                for each in states.values()
            ],
            "num_running": engine.num_running,
            "num_waiting": engine.num_waiting,
        }
        await self.finish(json.dumps(reply))


HANDLERS: list[tuple[str, type[JupyterHandler]]] = [
    (r"/jupyt5/api/fill", FillHandler),
    (r"/jupyt5/api/context", ContextHandler),
    (r"/jupyt5/api/fill/([A-Za-z0-9_.:-]+)", CancelHandler),
    (r"/jupyt5/api/providers", ProvidersHandler),
    (r"/jupyt5/api/status", StatusHandler),
    *TRY_HANDLERS,
]
