"""From positions in the plans to the batches of a step, made ahead of the device.

The plans of all epochs, one after another, are one stream of micro-batches. A step takes the next
``micro_batches`` of them, across an epoch's end too, and of these a rank makes its own only. So
what a step learns from depends on (seed, epoch, position) and on nothing else.
"""

import queue
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from jupyt5.errors import TrainingError
from jupyt5_training.batches import Batch, BatchPlan, collate, plan_epoch
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.recipes import Recipe

__all__ = ["Feed", "MicroBatch", "StepInput", "prefetched"]

_AHEAD_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """A batch and its place in the stream."""

    batch: Batch
    epoch: int
    batch_idx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """What one rank needs for one step.

    Attributes:
        micro_batches: This rank's share.
        epoch: Where the step after this one begins.
        batch_idx: Likewise, within the epoch.
        wait_s: Seconds that the loop waited for it.
    """

    micro_batches: tuple[MicroBatch, ...]
    epoch: int
    batch_idx: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The stream of a run's micro-batches.

    Attributes:
        recipe: Budget, seed, micro-batches a step.
        maker: Makes the examples.
        weights: Probability of each target to take part in an epoch, shape (targets,).
        ranks: Who shares a step's micro-batches.
        pad: Id that fills up batches.
    """

    recipe: Recipe
    maker: ExampleMaker
    weights: npt.NDArray[np.float64]
    ranks: Ranks
    pad: int

    def steps(self, progress: Progress) -> Generator[StepInput, None, None]:
        """Yield steps from ``progress`` on without end, not reading anything before it."""
        epoch, batch_idx = progress.epoch, progress.batch_idx
        plan = self.plan(epoch)
        while True:
            own: list[MicroBatch] = []
            for place in range(self.recipe.micro_batches):
                if batch_idx >= len(plan):
                    epoch, batch_idx = epoch + 1, 0
                    plan = self.plan(epoch)
                if place % self.ranks.world_size == self.ranks.rank:
                    batch = self.make_batch(plan[batch_idx], epoch=epoch)
                    own.append(MicroBatch(batch=batch, epoch=epoch, batch_idx=batch_idx))
                batch_idx += 1
            yield StepInput(micro_batches=tuple(own), epoch=epoch, batch_idx=batch_idx)

    def plan(self, epoch: int) -> BatchPlan:
        """Return an epoch's plan.

        Raises:
            TrainingError: If no target takes part in it.
        """
        sources, targets = self.maker.estimate_lengths()
        plan = plan_epoch(
            sources,
            targets,
            self.weights,
            batch_tokens=self.recipe.batch_tokens,
            seed=self.recipe.seed,
            epoch=epoch,
        )
        if not len(plan):
            message = "No target takes part in training. Raise --set markdown_target_rate."
            raise TrainingError(message)
        return plan

    def make_batch(self, positions: npt.NDArray[np.int64], *, epoch: int) -> Batch:
        """Make and pad the examples of a micro-batch."""
        seed = self.recipe.seed
        examples = [
            self.maker.make(int(position), np.random.default_rng([seed, epoch, int(position)]))
            for position in positions
        ]
        return collate(
            [example.source_ids for example in examples],
            [example.target_ids for example in examples],
            pad=self.pad,
        )


@contextmanager
def prefetched(feed: Feed, progress: Progress) -> Iterator[Iterator[StepInput]]:
    """Make the steps from ``progress`` on in a thread, a few ahead of their use."""
    ready: queue.Queue[StepInput | BaseException] = queue.Queue(_AHEAD_STEPS)
    stopped = threading.Event()

    def make() -> None:
        try:
            for step in feed.steps(progress):
                if not _put(ready, step, stopped):
                    return
        except BaseException as exc:
            _put(ready, exc, stopped)

    thread = threading.Thread(target=make, name="jupyt5-feed", daemon=True)
    thread.start()
    try:
        yield _take(ready)
    finally:
        stopped.set()
        thread.join()


def _put(
    ready: "queue.Queue[StepInput | BaseException]",
    item: StepInput | BaseException,
    stopped: threading.Event,
) -> bool:
    while not stopped.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


def _take(ready: "queue.Queue[StepInput | BaseException]") -> Iterator[StepInput]:
    while True:
        start_s = time.perf_counter()
        item = ready.get()
        if isinstance(item, BaseException):
            raise item
        yield replace(item, wait_s=time.perf_counter() - start_s)
