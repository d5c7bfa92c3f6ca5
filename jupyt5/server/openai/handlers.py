"""HTTP handlers of ``jupyt5 serve``."""

# tornado's write and finish take a dict of unknown types.
# pyright: reportUnknownMemberType=false

import hmac
import json
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from tornado import web
from tornado.iostream import StreamClosedError

from jupyt5.providers import Draft
from jupyt5.server.engine import FillEngine, QueueFullError, explain
from jupyt5.server.fields import RequestError
from jupyt5.server.openai.bodies import (
    Bounds,
    Question,
    Reply,
    describe_model,
    describe_models,
    error_body,
    parse_question,
)

__all__ = ["Service", "make_application"]

logger = logging.getLogger(__name__)

_MAX_BODY_BYTES = 1_048_576
_STATUS = {"no_context": 400, "bad_request": 400, "cancelled": 503, "timeout": 504, "internal": 500}
_LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the handlers share.

    Attributes:
        engine: Runs the jobs.
        bounds: What a request is checked against.
        token: Wanted from every caller; "" wants none.
        is_loopback: Reached from this machine only, under its own names only.
    """

    engine: FillEngine
    bounds: Bounds
    token: str
    is_loopback: bool


class _Handler(web.RequestHandler):
    """Who may call, and errors as OpenAI's clients expect them."""

    @property
    def service(self) -> Service:
        return cast("Service", self.settings["service"])

    def prepare(self) -> None:
        """Refuse strangers: without the token, or sent by a web page of somebody else."""
        host = urlsplit(f"//{self.request.host}").hostname
        if self.service.is_loopback and host not in _LOOPBACK_NAMES:
            # A name that somebody has made point to this machine.
            self._refuse(RequestError("forbidden", f"This is no server for {host}.", status=403))
            return
        given = self.request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        token = self.service.token
        if token and not hmac.compare_digest(given.encode(), token.encode()):
            message = "This server wants the token it was started with, as the API key."
            self._refuse(RequestError("invalid_api_key", message, status=401))

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Answer tornado's own refusals (no such page, wrong method) as JSON."""
        del kwargs
        self.set_header("Content-Type", "application/json")
        message = f"{self.request.method} {self.request.path}: {self._reason}."
        self.finish(json.dumps(error_body("failed", message, status=status_code)))

    def _refuse(self, error: RequestError) -> None:
        self.set_status(error.status)
        if isinstance(error, QueueFullError):
            self.set_header("Retry-After", str(error.retry_after_s))
        self.finish(error_body(error.code, str(error), status=error.status))


class ModelsHandler(_Handler):
    """``GET /v1/models`` and ``/v1/models/{id}``."""

    def get(self, model: str = "") -> None:
        """Answer all models, or one."""
        models = self.service.bounds.models
        if not model:
            self.finish(describe_models(models))
        elif model in models:
            self.finish(describe_model(model))
        else:
            message = f"There is no model {model!r} here. Served: {', '.join(models)}."
            self._refuse(RequestError("model_not_found", message, status=404))


class AnswerHandler(_Handler):
    """``POST /v1/completions`` and ``/v1/chat/completions``."""

    _job_id: str | None = None
    _is_open = False

    def initialize(self, *, is_chat: bool) -> None:
        """Take the route's own setting."""
        self._is_chat = is_chat

    async def post(self) -> None:
        """Check the request, then answer, piece by piece if so asked."""
        try:
            question = self._check()
        except RequestError as exc:
            self._refuse(exc)
            return
        self._job_id = question.job.request_id
        try:
            await self._answer(question)
        except StreamClosedError:
            return
        except Exception as exc:
            code, message = explain(exc)
            await self._fail(RequestError(code, message, status=_STATUS.get(code, 502)))

    def on_connection_close(self) -> None:
        """Cancel down to the generator when the asker goes away."""
        if self._job_id is not None:
            self.service.engine.cancel(self._job_id)
        super().on_connection_close()

    def _check(self) -> Question:
        service, body = self.service, self.request.body
        content_type = self.request.headers.get("Content-Type", "").partition(";")[0].strip()
        if content_type != "application/json":
            # Web pages of others may send anything else without asking first.
            message = "Send the request with Content-Type: application/json."
            raise RequestError("bad_request", message, status=415)
        if len(body) > _MAX_BODY_BYTES:
            message = f"The request has {len(body)} bytes, {_MAX_BODY_BYTES} are allowed."
            raise RequestError("too_large", message, status=413)
        question = parse_question(body, service.bounds, is_chat=self._is_chat)
        service.engine.admit(question.job.user)
        return question

    async def _answer(self, question: Question) -> None:
        reply = Reply(question)
        async with aclosing(self.service.engine.events(question.job)) as events:
            async for event in events:
                if not isinstance(event, Draft):
                    continue
                pieces = reply.add(event.hypothesis_idx, event.text, finished=event.finished)
                if question.streams and pieces:
                    await self._send(b"".join(pieces))
                if reply.is_complete:
                    break
        if question.streams:
            await self._send(b"data: [DONE]\n\n")
            await self.finish()
        else:
            self.set_header("Content-Type", "application/json")
            await self.finish(reply.whole())

    async def _send(self, events: bytes) -> None:
        if not self._is_open:  # not before: until then an error can still have a status
            self._is_open = True
            self.set_header("Content-Type", "text/event-stream; charset=utf-8")
            self.set_header("Cache-Control", "no-store")
            self.set_header("X-Accel-Buffering", "no")
        self.write(events)
        await self.flush()

    async def _fail(self, error: RequestError) -> None:
        if not self._is_open:
            self._refuse(error)
            return
        body = error_body(error.code, str(error), status=error.status)
        try:
            await self._send(f"data: {json.dumps(body)}\n\n".encode())
            await self.finish()
        except StreamClosedError:
            logger.debug("The asker of %s went away.", self._job_id)


def make_application(service: Service) -> web.Application:
    """Make the web application."""
    return web.Application(
        [
            (r"/v1/models/?", ModelsHandler),
            (r"/v1/models/(.+)", ModelsHandler),
            (r"/v1/completions", AnswerHandler, {"is_chat": False}),
            (r"/v1/chat/completions", AnswerHandler, {"is_chat": True}),
        ],
        default_handler_class=_NoSuchPage,
        service=service,
    )


class _NoSuchPage(_Handler):
    def prepare(self) -> None:
        """Say what there is."""
        message = (
            f"There is no {self.request.path} here. Pages: /v1/models, /v1/completions, "
            "/v1/chat/completions."
        )
        self._refuse(RequestError("not_found", message, status=404))
