"""A fill request whose candidates are tried while others are still being written."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyt5.errors import ExecutionError
from jupyt5.execution.jobs import Limits
from jupyt5.execution.trials import Trial, Tried, rank, try_fresh
from jupyt5.execution.verdicts import Verdict
from jupyt5.providers import Draft
from jupyt5.server.engine import FillEngine, JobError, Origin, explain, render
from jupyt5.server.messages import FillJob, error_line, line
from jupyt5.server.trying.live import CannotTryError, open_live

__all__ = ["TryDesk", "TryPlace"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPlace:
    """Where the candidates of one request may be tried.

    Attributes:
        kernel: Manager of the notebook's kernel; None if none is running.
        folder: The notebook's folder; None if it is not on this machine.
        python: The kernel's interpreter; None for the server's.
        refusal: Why there is no try at all; "" if there is one.
    """

    kernel: Any = None
    folder: Path | None = None
    python: Path | None = None
    refusal: str = ""


class TryDesk:
    """Runs requests with a try.

    Args:
        limits: Of each candidate, and of each cell above where those are run again.
        timeout_s: Longest that all tries of a request may take.
        max_parallel: Requests whose candidates are tried at the same time.
    """

    def __init__(self, limits: Limits, *, timeout_s: float, max_parallel: int) -> None:
        self.limits = limits
        self.timeout_s = timeout_s
        self.turns = asyncio.Semaphore(max_parallel)
        self._running: dict[str, _Request] = {}

    def cancel(self, request_id: str) -> bool:
        """End a request's tries; False if there is none of that id."""
        running = self._running.get(request_id)
        if running is None:
            return False
        running.cancel()
        return True

    async def stream(
        self, engine: FillEngine, job: FillJob, place: TryPlace
    ) -> AsyncGenerator[bytes]:
        """Yield the reply to a job line by line; closing the iterator ends all of it."""
        request = _Request(self, job, place)
        self._running.setdefault(job.request_id, request)
        try:
            async with aclosing(request.lines(engine)) as lines:
                async for each in lines:
                    yield each
        finally:
            if self._running.get(job.request_id) is request:
                del self._running[job.request_id]


@dataclass(slots=True)
class _Candidates:
    """What was drawn, and what is known of it so far."""

    sources: dict[int, str] = field(default_factory=dict[int, str])
    logprobs: dict[int, float | None] = field(default_factory=dict[int, float | None])
    verdicts: dict[int, Verdict] = field(default_factory=dict[int, Verdict])

    def find_twin(self, idx: int) -> int | None:
        """Return another candidate with the same text that has a verdict."""
        source = self.sources[idx]
        return next((one for one in self.verdicts if self.sources[one] == source), None)

    def untried(self) -> dict[int, str]:
        """Return those without a verdict that say something."""
        return {idx: text for idx, text in self.sources.items() if idx not in self.verdicts}


class _Request:
    """One request: its generator and its tries feed one queue of lines."""

    def __init__(self, desk: TryDesk, job: FillJob, place: TryPlace) -> None:
        assert job.trial is not None
        self._desk, self._job, self._place = desk, job, place
        self._trial = Trial(
            cells=tuple(
                (idx, cell.source)
                for idx, cell in enumerate(job.request.cells)
                if cell.kind == "code"
            ),
            target_idx=job.request.target_idx,
            grading_idx=job.trial.grading_idx,
        )
        self._lines: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._drawn: asyncio.Queue[int | None] = asyncio.Queue()
        self._candidates = _Candidates()
        self._how, self._reason = "none", place.refusal
        self._known: dict[str, object] = {}  # of the last line
        self._ended = threading.Event()

    def cancel(self) -> None:
        """End the request's stream, and with it all else."""
        self._ended.set()
        self._lines.put_nowait(JobError("cancelled", "The request was cancelled."))

    async def lines(self, engine: FillEngine) -> AsyncGenerator[bytes]:
        """Yield the lines of the reply."""
        tasks = [
            asyncio.create_task(self._generate(engine)),
            asyncio.create_task(self._try_in_time()),
        ]
        ending = asyncio.create_task(self._put_end(tasks))
        try:
            while (each := await self._lines.get()) is not None:
                if isinstance(each, Exception):
                    yield error_line(self._job.request_id, *explain(each))
                    return
                yield each
            found = self._candidates
            order = rank(found.logprobs, found.verdicts)
            fields = {"order": list(order), "tried": self._how, "reason": self._reason}
            yield line("done", self._job.request_id, **fields, **self._known)
        finally:
            self._ended.set()
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)

    async def _put_end(self, tasks: list[asyncio.Task[None]]) -> None:
        await asyncio.wait(tasks)
        self._lines.put_nowait(None)

    async def _generate(self, engine: FillEngine) -> None:
        job, found = self._job, self._candidates
        shown: dict[int, str] = {}
        try:
            async with aclosing(engine.events(job)) as events:
                async for event in events:
                    for each in render(event, job.request_id, shown):
                        self._lines.put_nowait(each)
                    if isinstance(event, Origin):
                        self._known["provenance"] = event.fields
                    if isinstance(event, Draft) and event.finished:
                        idx = event.hypothesis_idx
                        found.logprobs[idx] = event.mean_logprob
                        if event.text.strip():
                            request = job.request
                            found.sources[idx] = request.prefix + event.text + request.suffix
                            self._drawn.put_nowait(idx)
        except Exception as exc:
            self._lines.put_nowait(exc)
        finally:
            self._drawn.put_nowait(None)

    async def _try_in_time(self) -> None:
        if self._place.refusal:
            self._refuse(self._place.refusal)
            return
        try:
            async with self._desk.turns, asyncio.timeout(self._desk.timeout_s):
                await self._try_all()
        except TimeoutError:
            self._refuse(f"trying took longer than {self._desk.timeout_s:g} s")
        except (CannotTryError, ExecutionError) as exc:
            self._refuse(str(exc))
        except Exception:
            logger.exception("Candidates could not be tried.")
            self._refuse("trying failed; the Jupyter server's log has the details")

    async def _try_all(self) -> None:
        try:
            await self._try_live()
        except CannotTryError as exc:
            self._reason = str(exc)
        else:
            return
        while await self._drawn.get() is not None:
            pass
        await self._try_fresh()

    async def _try_live(self) -> None:
        async with open_live(self._place.kernel, self._trial, self._desk.limits) as session:
            self._how = "live"
            self._put_status("trying", "")
            while (idx := await self._drawn.get()) is not None:
                twin = self._candidates.find_twin(idx)
                if twin is not None:
                    tried = Tried(str(idx), self._candidates.verdicts[twin], 0.0)
                else:
                    tried = await session.judge(str(idx), self._candidates.sources[idx])
                self._put_verdict(tried, "live")

    async def _try_fresh(self) -> None:
        """Try what has no verdict yet; the executor blocks, so it does so in a thread."""
        untried = self._candidates.untried()
        if self._place.folder is None:
            raise CannotTryError(f"{self._reason}; the notebook's folder is not on this machine")
        if not untried:
            return
        self._how = "fresh"
        self._put_status("trying", f"{self._reason}: the cells above run in a fresh kernel")
        loop, idle = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            texts = {str(idx): source for idx, source in untried.items()}
            try:
                self._work_fresh(texts, loop)
            finally:
                with suppress(RuntimeError):  # the server ends
                    loop.call_soon_threadsafe(idle.set)

        try:
            await asyncio.to_thread(work)
        except asyncio.CancelledError:
            # The walls must not outlive the request.
            self._ended.set()
            await idle.wait()
            raise

    def _work_fresh(self, texts: Mapping[str, str], loop: asyncio.AbstractEventLoop) -> None:
        assert self._place.folder is not None
        with suppress(KeyboardInterrupt):  # cancelled
            for tried in try_fresh(
                self._trial,
                texts,
                self._place.folder,
                limits=self._desk.limits,
                python=self._place.python,
                cancel=self._ended,
            ):
                loop.call_soon_threadsafe(self._put_verdict, tried, "fresh")

    def _put_status(self, state: str, reason: str) -> None:
        self._lines.put_nowait(line("status", self._job.request_id, state=state, reason=reason))

    def _put_verdict(self, tried: Tried, how: str) -> None:
        idx, verdict = int(tried.key), tried.verdict
        self._candidates.verdicts[idx] = verdict
        self._lines.put_nowait(
            line(
                "verdict",
                self._job.request_id,
                hypothesis_idx=idx,
                verdict=verdict.kind.value,
                flags=list(verdict.flags),
                wall_s=round(tried.wall_s, 3),
                message=verdict.message,
                how=how,
            )
        )

    def _refuse(self, reason: str) -> None:
        if not self._candidates.verdicts:
            self._how = "none"
        self._reason = reason
        self._put_status("not_tried", reason)
