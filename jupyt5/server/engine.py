"""Fill jobs: a worker thread generates, the event loop streams, either can stop the other."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

from jupyt5.errors import ContextError, Jupyt5Error, UsageError
from jupyt5.providers import Draft, Provider, stream_drafts
from jupyt5.server.messages import FillJob, error_line, line
from jupyt5.server.shelf import ProviderShelf, ProviderState

__all__ = ["FillEngine"]

logger = logging.getLogger(__name__)

_SEED = 0  # asking twice for the same cell gives the same answer


class _CancelledError(Exception):
    """Ends the stream of a job that somebody cancelled."""


_Event = Draft | ProviderState | Exception | None  # None: the worker has ended


class FillEngine:
    """Runs fill jobs against the providers of one shelf.

    Args:
        shelf: Where providers come from.
        max_parallel: Jobs that generate at the same time; others wait their turn.
        timeout_s: Longest a job may take, loading included; then it is cancelled.
    """

    def __init__(self, shelf: ProviderShelf, *, max_parallel: int, timeout_s: float) -> None:
        self.shelf = shelf
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(max_parallel, thread_name_prefix="jupyt5-fill")
        self._running: dict[str, _RunningJob] = {}

    @property
    def num_running(self) -> int:
        """Jobs that wait, load or generate now."""
        return len(self._running)

    def cancel(self, request_id: str) -> bool:
        """Stop a job down to its generator; False if there is none of that id."""
        running = self._running.get(request_id)
        if running is None:
            return False
        running.cancel()
        return True

    async def stream(self, job: FillJob) -> AsyncGenerator[bytes, None]:
        """Yield the reply to a job line by line; closing the iterator cancels the job."""
        if job.request_id in self._running:
            message = f"A request with the id {job.request_id} is still running."
            yield error_line(job.request_id, "duplicate_id", message)
            return
        running = _RunningJob(job)
        self._running[job.request_id] = running
        feeder = asyncio.ensure_future(self._feed(running))
        try:
            async with aclosing(running.lines(self._timeout_s)) as lines:
                async for each in lines:
                    yield each
        finally:
            running.cancel()
            feeder.cancel()  # takes a job that still waits for a thread out of the queue
            del self._running[job.request_id]

    def close(self) -> None:
        """Cancel everything; for the end of the server."""
        for running in self._running.values():
            running.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.shelf.close()

    async def _feed(self, running: "_RunningJob") -> None:
        uri = running.job.provider
        try:
            if self.shelf.state(uri).state != "ready":
                running.put(ProviderState(uri, "loading"))
            provider = await self.shelf.get(uri)
            running.put(ProviderState(uri, "ready"))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, running.generate, provider)
        except Exception as exc:
            running.put(exc)


class _RunningJob:
    """A job under way: what happens to it goes through one queue, into lines."""

    def __init__(self, job: FillJob) -> None:
        self.job = job
        self._cancelled = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._shown: dict[int, str] = {}

    def put(self, event: _Event) -> None:
        """Add an event; from the event loop."""
        self._events.put_nowait(event)

    def cancel(self) -> None:
        """Stop the generator within one decoding step, and the stream at once."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            self.put(_CancelledError())

    def generate(self, provider: Provider) -> None:
        """Run the provider to its end; in a worker thread."""
        job = self.job
        try:
            for draft in stream_drafts(
                provider,
                job.request,
                n=job.num_candidates,
                sampling=job.sampling,
                seed=_SEED,
                cancel=self._cancelled,
            ):
                self._put_from_thread(draft)
                if self._cancelled.is_set():
                    return
        except Exception as exc:
            self._put_from_thread(exc)
        finally:
            self._put_from_thread(None)

    async def lines(self, timeout_s: float) -> AsyncGenerator[bytes, None]:
        """Yield the job's lines, the last of them ``done`` or ``error``."""
        request_id = self.job.request_id
        try:
            async with asyncio.timeout(timeout_s):
                while (event := await self._events.get()) is not None:
                    for each in self._render(event):
                        yield each
            yield line("done", request_id)
        except TimeoutError:
            message = (
                f"The cell was not filled in {timeout_s:g} s and the request was cancelled. "
                "Ask for fewer tokens, or raise c.JuPyT5App.timeout_s."
            )
            yield error_line(request_id, "timeout", message)
        except Exception as exc:
            yield error_line(request_id, *_explain(exc))

    def _render(self, event: Draft | ProviderState | Exception) -> list[bytes]:
        if isinstance(event, Exception):
            raise event
        request_id = self.job.request_id
        if isinstance(event, ProviderState):
            state = "generating" if event.state == "ready" else event.state
            return [line("status", request_id, state=state, reason=event.reason)]
        idx, text = event.hypothesis_idx, event.text
        lines: list[bytes] = []
        if text != self._shown.get(idx, ""):
            self._shown[idx] = text
            lines.append(line("delta", request_id, hypothesis_idx=idx, text=text))
        if event.finished:
            fields = {"hypothesis_idx": idx, "text": text, "mean_logprob": event.mean_logprob}
            lines.append(line("candidate", request_id, **fields))
        return lines

    def _put_from_thread(self, event: _Event) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.put, event)


def _explain(exc: Exception) -> tuple[str, str]:
    """Return the code and the message that the reader sees."""
    if isinstance(exc, _CancelledError):
        return "cancelled", "The request was cancelled."
    if isinstance(exc, ContextError):
        return "no_context", str(exc)
    if isinstance(exc, UsageError):
        return "bad_request", str(exc)
    if isinstance(exc, Jupyt5Error):
        return "provider_failed", str(exc)
    logger.error("A fill request failed.", exc_info=exc)
    return "internal", "Filling the cell failed. The Jupyter server's log has the details."
