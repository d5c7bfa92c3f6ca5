"""Many jobs on a few threads; each job drives a process of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

__all__ = ["run_parallel"]

J = TypeVar("J")
R = TypeVar("R")


def run_parallel(
    function: Callable[[J, threading.Event], R], jobs: Sequence[J], *, num_workers: int
) -> Iterator[tuple[J, R]]:
    """Yield (job, result) as results come.

    When the caller stops, by an exception, Ctrl-C or by closing the iterator, the event that
    every job gets is set, waiting jobs are dropped, and running ones are waited for.
    """
    cancel = threading.Event()
    with ThreadPoolExecutor(max_workers=num_workers, thread_name_prefix="grade") as pool:
        futures = {pool.submit(function, job, cancel): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        finally:
            cancel.set()
            for future in futures:
                future.cancel()
