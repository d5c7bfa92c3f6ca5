# pyright: standard
"""Where jobs run: on threads here, each driving a worker process, or on the nodes of a Ray cluster.

The same functions run in either place, and every job has seeds of its own, so verdicts depend
neither on the place nor on the number of workers.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from jupyt5.errors import ExecutionError, UsageError
from jupyt5_dsp.grader import Execution, Grader
from jupyt5_dsp.parallel import run_streams
from jupyt5_dsp.problems import ProblemSet

__all__ = ["Fanout", "LocalFanout", "RayFanout"]

_CLOSE_S = 30

J = TypeVar("J")
R = TypeVar("R")
JobFunction = Callable[[Grader, J, threading.Event], Iterator[R]]


class Fanout(Protocol):
    """Runs jobs on several workers."""

    num_workers: int

    def run(self, function: JobFunction[J, R], jobs: Sequence[J]) -> Iterator[tuple[J, R]]:
        """Yield (job, result) as results come; closing the iterator stops the rest."""
        ...


class LocalFanout:
    """Threads of this process."""

    def __init__(self, grader: Grader, num_workers: int) -> None:
        self.num_workers = num_workers
        self._grader = grader

    def run(self, function: JobFunction[J, R], jobs: Sequence[J]) -> Iterator[tuple[J, R]]:
        """Yield (job, result) as results come; closing the iterator stops the rest."""

        def run_one(job: J, cancel: threading.Event) -> Iterator[R]:
            return function(self._grader, job, cancel)

        return run_streams(run_one, jobs, num_workers=self.num_workers)


class RayFanout:
    """Actors on a Ray cluster, one a worker; a context manager.

    Joins the cluster that ``RAY_ADDRESS`` names, else starts one on this machine. The problem set
    must be readable under the same path on every node, and this package installed there.
    """

    def __init__(self, problem_set: ProblemSet, execution: Execution, num_workers: int) -> None:
        self.num_workers = num_workers
        root_path = problem_set.root_path
        self._problem_set = replace(problem_set, root_path=root_path and root_path.resolve())
        self._execution = execution
        self._actors: list[Any] = []

    def __enter__(self) -> "RayFanout":
        try:
            import ray
        except ModuleNotFoundError as exc:
            message = "--engine ray needs Ray. Install it with `pip install 'jupyt5[ray]'`."
            raise UsageError(message) from exc
        # Nothing is reported to anybody, unless the user wants it.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
        # Jobs are spread over the nodes; each actor takes one processor.
        actor_class = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_RayGrader)
        problem_set = ray.put(self._problem_set)
        self._actors = [
            actor_class.remote(problem_set, self._execution) for _ in range(self.num_workers)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        with contextlib.suppress(Exception):
            ray.get([actor.close.remote() for actor in self._actors], timeout=_CLOSE_S)
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def run(self, function: JobFunction[J, R], jobs: Sequence[J]) -> Iterator[tuple[J, R]]:
        """Yield (job, result) as results come; closing the iterator stops the rest.

        Raises:
            ExecutionError: If a node is lost and nothing can be run in its place.
        """
        import ray
        import ray.exceptions

        waiting, running = list(reversed(jobs)), dict[Any, tuple[J, Any]]()
        for actor in self._actors[: len(jobs)]:
            job = waiting.pop()
            running[actor.run.remote(function, job)] = (job, actor)
        while running:
            done, _ = ray.wait(list(running), num_returns=1)
            job, actor = running.pop(done[0])
            try:
                results: list[R] = ray.get(done[0])
            except ray.exceptions.RayTaskError as exc:
                # What the job raised, not Ray's wrapping of it.
                raise exc.cause from exc
            except ray.exceptions.RayError as exc:
                message = f"A Ray worker was lost: {exc}. Run the command again to go on from here."
                raise ExecutionError(message) from exc
            if waiting:
                following = waiting.pop()
                running[actor.run.remote(function, following)] = (following, actor)
            for result in results:
                yield job, result


class _RayGrader:
    """A grader of its own on each node, kept from job to job."""

    def __init__(self, problem_set: ProblemSet, execution: Execution) -> None:
        self._grader = Grader(problem_set, execution)
        self._grader.__enter__()

    def run(self, function: JobFunction[J, R], job: J) -> list[R]:
        """Run one job to its end."""
        return list(function(self._grader, job, threading.Event()))

    def close(self) -> None:
        """Remove the grader's copies of files."""
        self._grader.__exit__(None, None, None)
