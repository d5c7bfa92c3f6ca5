"""Many jobs on a few threads; each job drives a process of its own."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["run_parallel", "run_streams"]

J = TypeVar("J")
R = TypeVar("R")


def run_parallel(
    function: Callable[[J, threading.Event], R], jobs: Sequence[J], *, num_workers: int
) -> Iterator[tuple[J, R]]:
    """Yield (job, result) as results come; see ``run_streams``."""

    def stream(job: J, cancel: threading.Event) -> Iterator[R]:
        yield function(job, cancel)

    return run_streams(stream, jobs, num_workers=num_workers)


def run_streams(
    function: Callable[[J, threading.Event], Iterator[R]], jobs: Sequence[J], *, num_workers: int
) -> Iterator[tuple[J, R]]:
    """Yield (job, result) as results come; a job may have many.

    When the caller stops, by an exception, Ctrl-C or by closing the iterator, the event that
    every job gets is set, waiting jobs are dropped, and running ones are waited for.
    """
    cancel = threading.Event()
    found: queue.SimpleQueue[tuple[J, R] | BaseException | None] = queue.SimpleQueue()

    def drain(job: J) -> None:
        try:
            if not cancel.is_set():
                for result in function(job, cancel):
                    found.put((job, result))
        except BaseException as exc:
            found.put(exc)
        finally:
            found.put(None)

    with ThreadPoolExecutor(max_workers=num_workers, thread_name_prefix="grade") as pool:
        try:
            for job in jobs:
                pool.submit(drain, job)
            num_left = len(jobs)
            while num_left:
                item = found.get()
                if item is None:
                    num_left -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            cancel.set()
            pool.shutdown(wait=False, cancel_futures=True)
