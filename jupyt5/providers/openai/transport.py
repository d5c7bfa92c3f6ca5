"""HTTP: requests that are tried again, answers that are streamed, connections that can be cut.

All requests of a provider run on one event loop in a thread of its own, so that connections are
kept between requests and every wait (for a connection, an answer, the next try) can be cancelled.
"""

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from time import time
from typing import cast

import httpx
from httpx_sse import EventSource
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from jupyt5.errors import ProviderError
from jupyt5.providers.openai.bodies import Body
from jupyt5.providers.openai.failures import Explainer, RefusalError, dig, read_refusal
from jupyt5.providers.openai.settings import Address, OpenAISettings

__all__ = ["DONE", "Transport"]

logger = logging.getLogger(__name__)

DONE = "[DONE]"

_MAX_PAUSE_S = 20.0  # a server that asks for a longer one is not tried again
_MAX_ERROR_BYTES = 65_536
_MAX_ANSWER_CHARS = 4_000_000  # protocol and text together; an answer is a few kilobytes
_MAX_LINE_CHARS = 1 << 20
_NOT_FOR_LONG = {429, 500, 502, 503, 504, 529}
_backoff = wait_exponential(multiplier=0.5, max=8.0) + wait_random(0.0, 0.5)


class Transport:
    """Talks to one server.

    Args:
        address: The server.
        settings: Its key, time limits and number of further tries.

    Raises:
        ProviderError: If the environment's proxy settings are unusable.
    """

    def __init__(self, address: Address, settings: OpenAISettings) -> None:
        self._address = address
        self._explainer = Explainer(address, settings)
        self._num_tries = 1 + settings.num_retries
        self._key = key = settings.find_key(address.base_url)
        try:
            self._client = httpx.AsyncClient(
                headers={"Authorization": f"Bearer {key}"} if key else None,
                timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s),
                trust_env=not address.is_loopback,
            )
        except (ValueError, ImportError, httpx.InvalidURL) as exc:
            message = (
                f"The proxy settings of the environment cannot be used: {exc} Check HTTPS_PROXY, "
                "HTTP_PROXY, ALL_PROXY and NO_PROXY."
            )
            raise ProviderError(message) from exc
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def start(self, work: Coroutine[object, object, None]) -> "Future[None]":
        """Run a coroutine on the provider's event loop; cancel it through the future."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run_loop,
                    args=(self._loop, self._client),
                    name="jupyt5-openai",
                    daemon=True,
                )
                weakref.finalize(self, _stop_loop, self._loop)
                thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def ask(self, body: Body) -> AsyncGenerator[object, None]:
        """Yield the events of an answer as JSON values; a whole answer counts as one event.

        ``DONE`` is the protocol's end mark. Who reads on after it keeps the connection for the
        next request.

        Raises:
            RefusalError: If the server refuses; further tries were made where they make sense.
            ProviderError: If it is not reached, breaks off, or does not speak the protocol.
        """
        try:
            response = await self._open(body)
            try:
                async for event in self._read(response):
                    yield event
            finally:
                await response.aclose()
        except httpx.RequestError as exc:
            raise self._explainer.transport(exc) from exc

    async def _open(self, body: Body) -> httpx.Response:
        """Send a request until its answer begins."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._num_tries),
            wait=_choose_pause,
            retry=retry_if_exception(_is_passing),
            before_sleep=self._log_retry,
            reraise=True,
        )
        try:
            return await retrying(self._send, body)
        except RefusalError as exc:
            exc.num_retries = retrying.statistics["attempt_number"] - 1
            raise

    async def _send(self, body: Body) -> httpx.Response:
        request = self._client.build_request(
            "POST", self._address.url, json=body, headers={"Accept": "text/event-stream"}
        )
        response = await self._client.send(request, stream=True)
        if response.status_code == 200:
            return response
        try:
            start = b""
            async for piece in response.aiter_bytes():
                start += piece
                if len(start) > _MAX_ERROR_BYTES:
                    break
        finally:
            await response.aclose()
        raise read_refusal(response, start, key=self._key)

    async def _read(self, response: httpx.Response) -> AsyncGenerator[object, None]:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == "text/event-stream":
            async for event in self._read_events(response):
                yield event
        elif content_type == "application/json":
            content = b""
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _MAX_ANSWER_CHARS:
                    raise self._explainer.too_long()
            yield self._parse(content.decode("utf-8", "replace"))
        else:
            async for start in response.aiter_text(1024):
                raise self._explainer.not_the_protocol(content_type, start)
            raise self._explainer.not_the_protocol(content_type, "")

    async def _read_events(self, response: httpx.Response) -> AsyncGenerator[object, None]:
        bounded = cast("httpx.Response", _BoundedText(response, self._explainer))
        async for event in EventSource(bounded).aiter_sse():
            if event.data.strip():
                yield DONE if event.data.strip() == DONE else self._parse(event.data)

    def _parse(self, text: str) -> object:
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            raise self._explainer.malformed(text) from None
        if error := dig(value, "error"):
            raise self._explainer.said_error(str(dig(error, "message") or error))
        return value

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        reason = error.status if isinstance(error, RefusalError) else type(error).__name__
        pause_s = state.next_action.sleep if state.next_action else 0.0
        logger.info("%s: %s; again in %.1f s.", self._address.base_url, reason, pause_s)


class _BoundedText:
    """What ``EventSource`` reads of a response; it would keep a line without end in memory."""

    def __init__(self, response: httpx.Response, explainer: Explainer) -> None:
        self.headers = response.headers
        self._response = response
        self._explainer = explainer

    async def aiter_text(self) -> AsyncGenerator[str, None]:
        """Yield pieces of the text, as long as they are an answer's.

        Raises:
            ProviderError: If a line, or all of it, is far too long.
        """
        num_chars = num_in_line = 0
        async for piece in self._response.aiter_text():
            num_chars += len(piece)
            line_end = max(piece.rfind("\n"), piece.rfind("\r"))
            num_in_line = len(piece) - line_end - 1 + (num_in_line if line_end < 0 else 0)
            if num_in_line > _MAX_LINE_CHARS:
                raise self._explainer.line_too_long(_MAX_LINE_CHARS)
            if num_chars > _MAX_ANSWER_CHARS:
                raise self._explainer.too_long()
            yield piece


def _is_passing(error: BaseException) -> bool:
    """Whether a further try makes sense."""
    if isinstance(error, RefusalError):
        return error.status in _NOT_FOR_LONG and _asked_pause(error) <= _MAX_PAUSE_S
    # A proxy's refusal or a silent server's is not mended by asking again at once.
    return isinstance(error, httpx.ConnectError | httpx.RemoteProtocolError | httpx.ReadError)


def _choose_pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked_s = _asked_pause(error) if isinstance(error, RefusalError) else 0.0
    return max(asked_s, _backoff(state))


def _asked_pause(error: RefusalError) -> float:
    """Seconds that a Retry-After header asks for: a number of seconds, or a date."""
    value = error.retry_after
    if value.isdecimal():
        return float(value)
    try:
        return parsedate_to_datetime(value).timestamp() - time()
    except ValueError:
        return 0.0


def _run_loop(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(client.aclose())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _stop_loop(loop: asyncio.AbstractEventLoop) -> None:
    # Not waiting for the thread to end: the garbage collector may call this anywhere, also where
    # a lock is held that the thread needs.
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
