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

__all__ = ["FillEngine", "JobError", "JobEvent", "explain"]

logger = logging.getLogger(__name__)

JobEvent = Draft | ProviderState
"""What happens to a job: its provider loads or is ready, a hypothesis grows."""

_Event = JobEvent | Exception | None  # None: the worker has ended


class JobError(Exception):
    """A job that did not come to its end: ``code`` for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


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
        shown: dict[int, str] = {}
        try:
            async with aclosing(self.events(job)) as events:
                async for event in events:
                    for each in _render(event, job.request_id, shown):
                        yield each
            yield line("done", job.request_id)
        except Exception as exc:
            yield error_line(job.request_id, *explain(exc))

    async def events(self, job: FillJob) -> AsyncGenerator[JobEvent, None]:
        """Yield what happens to a job; closing the iterator cancels it.

        Raises:
            JobError: If it is cancelled, takes too long, or has the id of one that is running.
            Jupyt5Error: If the provider cannot be loaded or fails.
        """
        if job.request_id in self._running:
            message = f"A request with the id {job.request_id} is still running."
            raise JobError("duplicate_id", message)
        running = _RunningJob(job)
        self._running[job.request_id] = running
        feeder = asyncio.ensure_future(self._feed(running))
        try:
            async with aclosing(running.events(self._timeout_s)) as events:
                async for event in events:
                    yield event
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

    def put(self, event: _Event) -> None:
        """Add an event; from the event loop."""
        self._events.put_nowait(event)

    def cancel(self) -> None:
        """Stop the generator within one decoding step, and the stream at once."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            self.put(JobError("cancelled", "The request was cancelled."))

    def generate(self, provider: Provider) -> None:
        """Run the provider to its end; in a worker thread."""
        job = self.job
        try:
            for draft in stream_drafts(
                provider,
                job.request,
                n=job.num_candidates,
                sampling=job.sampling,
                seed=job.seed,
                cancel=self._cancelled,
            ):
                self._put_from_thread(draft)
                if self._cancelled.is_set():
                    return
        except Exception as exc:
            self._put_from_thread(exc)
        finally:
            self._put_from_thread(None)

    async def events(self, timeout_s: float) -> AsyncGenerator[JobEvent, None]:
        """Yield events until the worker has ended; raise what it or somebody else put in."""
        deadline = self._loop.time() + timeout_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    event = await self._events.get()
            except TimeoutError:
                message = (
                    f"The cell was not filled in {timeout_s:g} s and the request was cancelled. "
                    "Ask for fewer tokens, or raise the server's time limit (timeout_s)."
                )
                raise JobError("timeout", message) from None
            if event is None:
                return
            if isinstance(event, Exception):
                raise event
            yield event

    def _put_from_thread(self, event: _Event) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.put, event)


def _render(event: JobEvent, request_id: str, shown: dict[int, str]) -> list[bytes]:
    """Turn an event into lines; ``shown`` is what each hypothesis had when it was last shown."""
    if isinstance(event, ProviderState):
        state = "generating" if event.state == "ready" else event.state
        return [line("status", request_id, state=state, reason=event.reason)]
    idx, text = event.hypothesis_idx, event.text
    lines: list[bytes] = []
    if text != shown.get(idx, ""):
        shown[idx] = text
        lines.append(line("delta", request_id, hypothesis_idx=idx, text=text))
    if event.finished:
        fields = {"hypothesis_idx": idx, "text": text, "mean_logprob": event.mean_logprob}
        lines.append(line("candidate", request_id, **fields))
    return lines


def explain(exc: Exception) -> tuple[str, str]:
    """Return the code and the message that the reader sees."""
    if isinstance(exc, JobError):
        return exc.code, str(exc)
    if isinstance(exc, ContextError):
        return "no_context", str(exc)
    if isinstance(exc, UsageError):
        return "bad_request", str(exc)
    if isinstance(exc, Jupyt5Error):
        return "provider_failed", str(exc)
    logger.error("A fill request failed.", exc_info=exc)
    return "internal", "Filling the cell failed. The Jupyter server's log has the details."
