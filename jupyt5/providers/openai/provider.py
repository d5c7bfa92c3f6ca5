"""``openai:MODEL@BASE_URL`` as a provider."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing

from jupyt5.errors import ProviderError
from jupyt5.providers.base import Chunk, FillRequest, Preview, Sampling
from jupyt5.providers.openai.bodies import (
    Body,
    Piece,
    build_body,
    find_refused,
    read_piece,
    render_body,
    without,
)
from jupyt5.providers.openai.failures import Explainer, RefusalError
from jupyt5.providers.openai.settings import OpenAISettings, parse_address
from jupyt5.providers.openai.transport import DONE, Transport
from jupyt5.providers.texts import count_omitted, estimate_tokens

__all__ = ["OpenAIProvider", "load_openai_provider"]

logger = logging.getLogger(__name__)

_POLL_S = 0.02  # how often a cancel is looked for while the server is silent
_NUM_PARALLEL = 4  # hypotheses of one request that are asked for at the same time
_DRAIN_S = 0.5  # the end of a finished stream is waited for, so that its connection can be kept

_Put = Callable[[Chunk | Exception | None], None]


class OpenAIProvider:
    """Asks a server for each hypothesis by a request of its own.

    Many servers ignore or refuse the protocol's ``n``; those that cache prompts read it once.
    Hypothesis i has the seed ``seed + i``. Greedy decoding gives just one.

    Args:
        spec: What stands behind ``openai:``.
        settings: Key and limits.

    Raises:
        UsageError: If ``spec`` is malformed.
    """

    def __init__(self, spec: str, settings: OpenAISettings) -> None:
        self.uri = f"openai:{spec}"
        self._settings = settings
        self._address = parse_address(spec, settings)
        self._explainer = Explainer(self._address, settings)
        self._transport = Transport(self._address, settings)
        self._refused: set[str] = set()

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream hypotheses; see ``Provider.generate``. A cancel closes the connections."""
        bodies = [
            build_body(
                self._address,
                request,
                sampling,
                seed=seed + idx,
                budget_tokens=request.prompt_tokens or self._settings.budget_tokens,
            )
            for idx in range(n if sampling.temperature else 1)
        ]
        items: queue.SimpleQueue[Chunk | Exception | None] = queue.SimpleQueue()
        work = self._transport.start(self._ask_all(bodies, items.put))
        try:
            while not cancel.is_set():
                try:
                    item = items.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            work.cancel()

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return the texts that are sent, the key never among them; see ``Provider.preview``."""
        budget_tokens = request.prompt_tokens or self._settings.budget_tokens
        body = build_body(
            self._address,
            request,
            sampling,
            seed=0,
            budget_tokens=budget_tokens,
        )
        text = render_body(body)
        num_left_out = count_omitted(request, estimate_tokens, budget_tokens=budget_tokens)
        return Preview(text, estimate_tokens(text), num_left_out, is_estimate=True)

    async def _ask_all(self, bodies: list[Body], put: _Put) -> None:
        free = asyncio.Semaphore(_NUM_PARALLEL)

        async def ask_one(idx: int, body: Body) -> None:
            async with free:
                await self._ask(idx, body, put)

        try:
            async with asyncio.TaskGroup() as group:
                for idx, body in enumerate(bodies):
                    group.create_task(ask_one(idx, body))
        except ExceptionGroup as exc:
            put(exc.exceptions[0])
        put(None)

    async def _ask(self, idx: int, body: Body, put: _Put) -> None:
        """Ask for one hypothesis; once more without a setting that the server refuses."""
        for name in self._refused:
            body = without(body, name)
        try:
            async with asyncio.timeout(self._settings.total_timeout_s):
                while True:
                    try:
                        await self._stream(idx, body, put)
                    except RefusalError as exc:
                        name = find_refused(body, exc.said)
                        if name is None or exc.status in {401, 403, 404, 429}:
                            raise self._explainer.refusal(exc) from exc
                        logger.warning("%s refuses %s: left out.", self.uri, name)
                        self._refused.add(name)
                        body = without(body, name)
                    else:
                        return
        except TimeoutError as exc:
            raise self._explainer.too_slow() from exc

    async def _stream(self, idx: int, body: Body, put: _Put) -> None:
        log_probs: list[float] = []
        has_begun = False
        async with aclosing(self._transport.ask(body)) as events:
            async for event in events:
                has_begun = True
                piece = Piece("", finished=True) if event == DONE else read_piece(event)
                if piece is None:
                    raise self._explainer.malformed(str(event))
                log_probs += piece.log_probs
                mean = sum(log_probs) / len(log_probs) if log_probs and piece.finished else None
                put(Chunk(idx, piece.text, piece.finished, mean))
                if piece.finished:
                    await _drain(events)
                    return
        if not has_begun:
            raise self._explainer.said_nothing()
        raise self._explainer.broken_off("it ended without saying so")


async def _drain(events: AsyncIterator[object]) -> None:
    """Read a finished stream to its end, so that its connection can be kept; not for long."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in events:
                pass
    except (TimeoutError, ProviderError):
        logger.debug("A finished stream did not end well.", exc_info=True)


def load_openai_provider(spec: str, settings: OpenAISettings | None = None) -> OpenAIProvider:
    """Make a provider; the server is first spoken to when it is asked for something.

    Args:
        spec: ``MODEL@BASE_URL``.
        settings: Key and limits; by default those of the environment.

    Raises:
        UsageError: If ``spec`` is malformed.
        ProviderError: If the key cannot be a key.
    """
    return OpenAIProvider(spec, settings or OpenAISettings.from_environment())
