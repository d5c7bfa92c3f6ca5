"""Runs jobs on workers and judges what comes back.

A worker that dies is started again and goes on where it was. A time-out in a forked sample is run
again in a fresh process before it counts, and so is everything where a fork is not sound.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jupyt5.execution.evidence import SampleEvidence, read_sample
from jupyt5.execution.jobs import Attempt, Isolation, Job, Task
from jupyt5.execution.setting import Setting
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, Verdict, VerdictKind, judge
from jupyt5.execution.worker_process import Message, WorkerProcess

__all__ = ["Found", "Judged", "Opened", "Replied", "run_job"]

_NUM_TRIES = 2
_CRASH_SIGNALS = frozenset({4, 6, 7, 8, 11})  # ILL, ABRT, BUS, FPE, SEGV

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict on one attempt, and how it came about.

    ``context_errors`` are the earlier cells that raised; ``wall_s`` and ``cpu_s`` are the seconds
    of its process, which in a fresh one include the context cells. ``output`` is what it wrote to
    stdout (in notebooks also to stderr), as far as that is kept of ``num_output_bytes``.
    """

    task: str
    key: str
    verdict: Verdict
    isolation: Isolation
    isolation_reason: str = ""
    cold_rerun: bool = False
    context_errors: tuple[int, ...] = ()
    wall_s: float = 0.0
    cpu_s: float = 0.0
    output: str = field(default="", repr=False)
    num_output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Replied:
    """How a cell of the notebook itself ended, with the reference solutions in place.

    Attributes:
        reply: Its stage is ``context``, whatever the cell is in some problem.
        refused: Commands in it that would have installed something.
    """

    reply: CellReply
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """Which files the notebook's own cells opened, where the job asks for that.

    Attributes:
        paths: Relative to the work folder, sorted; folders that were listed end in ``/``.
    """

    paths: tuple[str, ...]


Found = Judged | Replied | Opened


@dataclass(slots=True)
class _State:
    """What of a job is still to do, and what is known so far."""

    left: dict[str, list[Attempt]]
    unsafe: dict[str, str] = field(default_factory=dict[str, str])
    replies: dict[int, CellReply] = field(default_factory=dict[int, CellReply])
    told: set[int] = field(default_factory=set[int])


def run_job(
    job: Job, setting: Setting, *, cancel: threading.Event | None = None
) -> Iterator[Found]:
    """Run one notebook's attempts.

    May be called from any thread. Closing the iterator ends the worker.

    Args:
        job: What to run.
        setting: Where and how.
        cancel: When set, the worker is ended and ``KeyboardInterrupt`` raised.

    Yields:
        A verdict for each attempt. With ``fork``, also the replies of the notebook's own cells,
        and the files that they opened.

    Raises:
        ExecutionError: If no worker could be started.
        KeyboardInterrupt: If cancelled.
    """
    cancel = cancel or threading.Event()
    state = _State({task.name: list(task.attempts) for task in job.tasks})
    retried: list[tuple[Task, Judged]] = []
    # Programs are forked from a state in which nothing has run: a fresh process is no other.
    is_notebook = job.runs_as == "notebook"
    if setting.isolation == "fork":
        for found in _run_forked(job, setting, state, cancel):
            if isinstance(found, Judged) and is_notebook and _is_doubtful(found):
                task = next(task for task in job.tasks if task.name == found.task)
                retried.append((task, found))
                continue
            yield found
    yield from _run_cold(job, setting, state, cancel)
    for task, found in retried:
        attempt = next(one for one in task.attempts if one.key == found.key)
        again = _State({task.name: [attempt]})
        for cold in _run_cold(replace(job, tasks=(task,)), setting, again, cancel):
            yield replace(cold, cold_rerun=True, isolation_reason=_say_why_again(found))


def _is_doubtful(found: Judged) -> bool:
    """Whether the fork itself may be the cause: a lock that no thread will open, a crash."""
    if found.verdict.kind is VerdictKind.TIMEOUT:
        return True
    return found.verdict.kind is VerdictKind.DIED and found.verdict.signal in _CRASH_SIGNALS


def _say_why_again(found: Judged) -> str:
    return f"{found.verdict.kind} in a fork: run again in a fresh process"


def _run_forked(
    job: Job, setting: Setting, state: _State, cancel: threading.Event
) -> Iterator[Found]:
    """Run until nothing is left that a fork can do."""
    num_failures = 0
    while (job.runs_all and not state.told) or _has_work(state):
        num_left = sum(map(len, state.left.values()))
        with WorkerProcess(job, setting, _list_tasks(job, state), "fork", cancel) as worker:
            running_idx: int | None = None
            for message in worker.read():
                if message.kind == "begin":
                    running_idx = message.cell_idx
                elif message.kind == "cell":
                    running_idx = None
                yield from _take(message, job, state)
            if worker.is_done:
                return
        if running_idx is not None:
            yield from _end_in_context(job, state, running_idx, timed_out=worker.timed_out)
            return
        # The same sample again and again: it is the sample that ends its worker.
        num_failures = num_failures + 1 if num_left == sum(map(len, state.left.values())) else 0
        if num_failures >= _NUM_TRIES:
            worker.raise_fault()
            yield _give_up(job, state)
            num_failures = 0


def _run_cold(
    job: Job, setting: Setting, state: _State, cancel: threading.Event
) -> Iterator[Judged]:
    """Run what is left, each attempt in a fresh process."""
    num_failures = 0
    while any(state.left.values()):
        num_left = sum(map(len, state.left.values()))
        tasks = [(task, state.left[task.name]) for task in job.tasks if state.left[task.name]]
        with WorkerProcess(job, setting, tasks, "kernel", cancel) as worker:
            for message in worker.read():
                yield from (one for one in _take(message, job, state) if isinstance(one, Judged))
        if worker.is_done and not any(state.left.values()):
            return
        num_failures = num_failures + 1 if num_left == sum(map(len, state.left.values())) else 0
        if num_failures >= _NUM_TRIES:
            worker.raise_fault()
            yield _give_up(job, state)
            num_failures = 0


def _list_tasks(job: Job, state: _State) -> list[tuple[Task, Sequence[Attempt]]]:
    return [
        (task, () if task.name in state.unsafe else state.left[task.name]) for task in job.tasks
    ]


def _has_work(state: _State) -> bool:
    return any(left for name, left in state.left.items() if name not in state.unsafe)


def _take(message: Message, job: Job, state: _State) -> Iterator[Found]:
    task = next((task for task in job.tasks if task.name == message.task), None)
    if message.kind == "cell":
        reply = message.to_reply()
        state.replies[reply.cell_idx] = reply
        if reply.cell_idx not in state.told:
            state.told.add(reply.cell_idx)
            yield Replied(reply, message.refused)
    elif message.kind == "done" and job.records_files:
        yield Opened(message.opened)
    elif message.kind == "unsafe" and task:
        state.unsafe[task.name] = "; ".join(message.reasons)
    elif message.kind == "blocked" and task:
        yield from _block(task, state)
    elif message.kind == "sample" and task:
        attempt = next((one for one in state.left[task.name] if one.key == message.key), None)
        if attempt is None:
            return
        evidence = read_sample(message.content, task, has_context=message.isolation == "kernel")
        if evidence.fault:
            logger.warning("%s: %s", task.name, evidence.fault)
            return
        state.left[task.name].remove(attempt)
        yield _judge(task, attempt, evidence, state, message.isolation)


def _judge(
    task: Task, attempt: Attempt, evidence: SampleEvidence, state: _State, isolation: Isolation
) -> Judged:
    context = [state.replies[idx] for idx in sorted(state.replies) if idx < task.cell_idx]
    replies = (*context, *evidence.replies) if isolation == "fork" else evidence.replies
    verdict = judge(replies, forgive_context=task.forgives_context, flags=evidence.flags)
    return Judged(
        task=task.name,
        key=attempt.key,
        verdict=replace(verdict, signal=evidence.signal),
        isolation=isolation,
        isolation_reason=state.unsafe.get(task.name, ""),
        context_errors=tuple(
            reply.cell_idx
            for reply in replies
            if reply.stage is Stage.CONTEXT and reply.status is CellStatus.ERROR
        ),
        wall_s=evidence.wall_s,
        cpu_s=evidence.cpu_s,
        output=evidence.output,
        num_output_bytes=evidence.num_output_bytes,
    )


def _block(task: Task, state: _State) -> Iterator[Judged]:
    """Answer for attempts that are not run because an earlier cell failed."""
    context = [state.replies[idx] for idx in sorted(state.replies) if idx < task.cell_idx]
    verdict = judge(context, forgive_context=task.forgives_context)
    attempts, state.left[task.name] = state.left[task.name], []
    for attempt in attempts:
        yield Judged(task=task.name, key=attempt.key, verdict=verdict, isolation="fork")


def _end_in_context(job: Job, state: _State, cell_idx: int, *, timed_out: bool) -> Iterator[Found]:
    """A cell of the notebook itself hung or ended the worker: nothing after it can be judged."""
    status = CellStatus.TIMEOUT if timed_out else CellStatus.DIED
    reply = CellReply(cell_idx=cell_idx, stage=Stage.CONTEXT, status=status)
    state.replies[cell_idx] = reply
    yield Replied(reply)
    for task in job.tasks:
        if task.cell_idx > cell_idx:
            yield from _block(task, state)


def _give_up(job: Job, state: _State) -> Judged:
    """Judge an attempt that ended its worker every time."""
    task = next(task for task in job.tasks if state.left[task.name])
    attempt = state.left[task.name].pop(0)
    verdict = Verdict(kind=VerdictKind.DIED, message="The sample ended its worker.")
    return Judged(task=task.name, key=attempt.key, verdict=verdict, isolation="kernel")
