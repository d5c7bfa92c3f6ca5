"""Worker processes: the same results whatever their number, and none left behind.

Workers end by themselves when the main process is gone, even if it was killed; when it stops on
an error or Ctrl-C, they stop at the next notebook.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.synchronize import Event
from typing import TypeVar

from jupyt5.errors import CorpusError

__all__ = ["default_num_workers", "run_jobs", "should_stop"]

Job = TypeVar("Job")

_stop_event: Event | None = None


def default_num_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def should_stop() -> bool:
    """Tell a worker whether the main process wants it to stop; False outside of workers."""
    return _stop_event is not None and _stop_event.is_set()


def run_jobs(work: Callable[[Job], None], jobs: Sequence[Job], num_workers: int) -> Iterator[Job]:
    """Run ``work`` on every job and yield each job when it is done, in no particular order.

    Args:
        work: A function of a module, so that workers can import it.
        jobs: What to work on.
        num_workers: Processes; with 1 the work is done here.

    Raises:
        CorpusError: If a worker was killed, e.g. for want of memory; or what ``work`` raises.
    """
    if num_workers == 1 or len(jobs) <= 1:
        for job in jobs:
            work(job)
            yield job
        return
    # Spawned, since forking a process with Arrow's threads may hang the child.
    context = multiprocessing.get_context("spawn")
    stop_event = context.Event()
    with ProcessPoolExecutor(
        min(num_workers, len(jobs)), context, initializer=_start, initargs=(stop_event,)
    ) as executor:
        try:
            futures: dict[Future[None], Job] = {}
            with _interrupt_held():
                futures.update((executor.submit(work, job), job) for job in jobs)
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BrokenProcessPool as exc:
            message = (
                "A worker process was killed, perhaps for want of memory. Run the command again "
                "with fewer --workers; finished units are not repeated."
            )
            raise CorpusError(message) from exc
        except BaseException:
            stop_event.set()
            executor.shutdown(cancel_futures=True)
            raise


@contextmanager
def _interrupt_held() -> Generator[None]:
    """Hold Ctrl-C back while workers are started: they inherit that, this process gets it later.

    Ctrl-C reaches the whole group of processes, but only the main one acts on it. The mask is what
    workers inherit; here it is not enough, since another thread may be handed the signal, so that
    the handler only takes note.
    """
    if not hasattr(signal, "pthread_sigmask") or not _is_main_thread():
        yield
        return
    noted: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, previous)
        if noted:
            signal.raise_signal(signal.SIGINT)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _start(stop_event: Event) -> None:
    global _stop_event
    _stop_event = stop_event
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
