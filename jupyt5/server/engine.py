"""Fill jobs: a worker thread generates, the event loop streams, either can stop the other."""

import asyncio
import logging
import math
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass

from jupyt5.errors import ContextError, Jupyt5Error, OfflineError, UsageError
from jupyt5.providers import Draft, Provider, stream_drafts
from jupyt5.server.fields import RequestError
from jupyt5.server.messages import FillJob, error_line, line
from jupyt5.server.metrics import JobWatch, Outcome, count_refused
from jupyt5.server.provenance import describe_origin
from jupyt5.server.shelf import ProviderShelf, ProviderState
from jupyt5.server.turns import FairTurns

__all__ = [
    "FillEngine",
    "JobError",
    "JobEvent",
    "Origin",
    "QueueFullError",
    "Queued",
    "explain",
    "render",
]

logger = logging.getLogger(__name__)

_MAX_RETRY_AFTER_S = 60


@dataclass(frozen=True, slots=True)
class Queued:
    """A job waits for its turn, with others before it."""

    num_waiting: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the hypotheses came from; the last event, of a job that wants to know."""

    fields: Mapping[str, object]


JobEvent = Draft | ProviderState | Queued | Origin
"""What happens to a job: its provider loads or is ready, it waits, a hypothesis grows."""

_Event = JobEvent | Exception | None  # None: the worker has ended


class JobError(Exception):
    """A job that did not come to its end: ``code`` for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class QueueFullError(RequestError):
    """A job that finds no room to wait; ``retry_after_s`` is when there may be some."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__("busy", message, status=429)
        self.retry_after_s = retry_after_s


class FillEngine:
    """Runs fill jobs against the providers of one shelf.

    Args:
        shelf: Where providers come from.
        max_parallel: Jobs that generate at the same time; others wait their turn, which goes
            round among their users.
        timeout_s: Longest a job may take, loading included; then it is cancelled.
        max_waiting: Further jobs that may wait; what comes then is refused.
        max_waiting_per_user: Those of them that may be of one user; None: all.
    """

    def __init__(
        self,
        shelf: ProviderShelf,
        *,
        max_parallel: int,
        timeout_s: float,
        max_waiting: int = 64,
        max_waiting_per_user: int | None = None,
    ) -> None:
        self.shelf = shelf
        self._timeout_s = timeout_s
        self._max_jobs = max_parallel + max_waiting
        per_user = max_waiting if max_waiting_per_user is None else max_waiting_per_user
        self._max_jobs_per_user = max_parallel + per_user
        self._turns = FairTurns(max_parallel)
        self._threads = ThreadPoolExecutor(max_parallel, thread_name_prefix="jupyt5-fill")
        self._running: dict[str, _RunningJob] = {}

    @property
    def num_running(self) -> int:
        """Jobs that wait, load or generate now."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Jobs that wait for their turn now."""
        return self._turns.num_waiting

    @property
    def is_free(self) -> bool:
        """Whether a job that comes now has a turn at once."""
        return self._turns.is_free

    def admit(self, user: str) -> None:
        """Check that there is room for one more job of this user.

        Raises:
            QueueFullError: If too many of theirs, or of everybody's, are under way.
        """
        num_own = sum(running.job.user == user for running in self._running.values())
        if len(self._running) >= self._max_jobs:
            whose = f"{len(self._running)} requests"
        elif num_own >= self._max_jobs_per_user:
            whose = f"{num_own} of your requests"
        else:
            return
        count_refused()
        retry_after_s = min(_MAX_RETRY_AFTER_S, math.ceil(self._turns.expected_wait_s))
        message = f"{whose} are under way. Try again in {retry_after_s} s."
        raise QueueFullError(message, retry_after_s=retry_after_s)

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
        known: dict[str, object] = {}
        try:
            async with aclosing(self.events(job)) as events:
                async for event in events:
                    if isinstance(event, Origin):
                        known["provenance"] = event.fields
                    for each in render(event, job.request_id, shown):
                        yield each
            yield line("done", job.request_id, **known)
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
        outcome: Outcome = "cancelled"  # so it is where the iterator is closed
        try:
            async with aclosing(running.events(self._timeout_s)) as events:
                async for event in events:
                    if isinstance(event, Draft):  # whatever was the matter, its server answers
                        self.shelf.note_trouble(job.provider, "")
                    yield event
            outcome = "done"
        except OfflineError as exc:
            self.shelf.note_trouble(job.provider, str(exc))
            outcome = "failed"
            raise
        except JobError as exc:
            outcome = "timeout" if exc.code == "timeout" else "cancelled"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            running.cancel()
            feeder.cancel()  # takes a job that still waits for its turn out of the queue
            del self._running[job.request_id]
            running.watch.end(outcome)

    def close(self) -> None:
        """Cancel everything; for the end of the server."""
        for running in self._running.values():
            running.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.shelf.close()

    async def _feed(self, running: "_RunningJob") -> None:
        job, watch = running.job, running.watch
        try:
            if self.shelf.state(job.provider).state != "ready":
                running.put(ProviderState(job.provider, "loading"))
            if job.wants_provenance:
                provider, running.sha256 = await self.shelf.get_hashed(job.provider)
            else:
                provider = await self.shelf.get(job.provider)
            watch.queue()
            if not self._turns.is_free:
                running.put(Queued(self._turns.num_waiting))
            await self._turns.take(job.user)
            watch.leave_queue(has_turn=True)
            running.put(ProviderState(job.provider, "ready"))
            self._generate(running, provider)
        except Exception as exc:
            running.put(exc)

    def _generate(self, running: "_RunningJob", provider: Provider) -> None:
        """Start a job that has its turn; the turn ends with the thread's work, not before."""
        loop, user = asyncio.get_running_loop(), running.job.user

        def end_turn(_: object = None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._turns.end, user)

        try:
            future = self._threads.submit(running.generate, provider)
        except RuntimeError:  # the engine is closed
            end_turn()
            raise
        future.add_done_callback(end_turn)


class _RunningJob:
    """A job under way: what happens to it goes through one queue, into lines."""

    def __init__(self, job: FillJob) -> None:
        self.job = job
        self.watch = JobWatch()
        self.sha256: asyncio.Task[str | None] | None = None  # of the weights that generate
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
                job.asked,
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
                if self.sha256 is not None:
                    sha256 = await self._wait_for_hash(self.sha256, deadline)
                    yield Origin(describe_origin(self.job, sha256))
                return
            if isinstance(event, Exception):
                raise event
            if isinstance(event, Draft) and event.text:
                self.watch.see_text()
            yield event

    async def _wait_for_hash(
        self, sha256: "asyncio.Task[str | None]", deadline: float
    ) -> str | None:
        """Return the hash; None if it is not there in time. A cancel ends the waiting."""
        event = asyncio.ensure_future(self._events.get())
        try:
            await asyncio.wait(
                (sha256, event),
                timeout=max(0.0, deadline - self._loop.time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if event.done() and isinstance(cancelled := event.result(), Exception):
                raise cancelled
            return sha256.result() if sha256.done() else None
        finally:
            event.cancel()

    def _put_from_thread(self, event: _Event) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.put, event)


def render(event: JobEvent, request_id: str, shown: dict[int, str]) -> list[bytes]:
    """Turn an event into lines; ``shown`` is what each hypothesis had when it was last shown."""
    if isinstance(event, ProviderState):
        state = "generating" if event.state == "ready" else event.state
        return [line("status", request_id, state=state, reason=event.reason)]
    if isinstance(event, Queued):
        reason = f"{event.num_waiting + 1} requests are before this one."
        return [line("status", request_id, state="waiting", reason=reason)]
    if isinstance(event, Origin):  # goes with the last line
        return []
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
