"""From positions in the plans to the batches of a step, made ahead of the device.

The plans of all epochs, one after another, are one stream of micro-batches. A step takes the next
``micro_batches`` of them, across an epoch's end too, and of these a rank makes its own only. So
what a step learns from depends on (seed, epoch, position) and on nothing else.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jupyt5.errors import TrainingError
from jupyt5_training.batches import (
    Batch,
    EpochPlan,
    PlanConfig,
    fingerprint,
    is_plan_past,
    load_batch,
    open_plan,
    plan_epoch,
    stored_plan,
)
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.examples import ExampleMaker

__all__ = ["Feed", "MicroBatch", "StepInput", "prefetched"]

_AHEAD_STEPS = 4
_POLL_S = 0.2


class _StoppedError(Exception):
    """Raised when a plan is waited for that nobody needs any more."""


def _never() -> bool:
    return False


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
        maker: Makes the examples.
        plans: What the plans depend on.
        folder: Of the stored plans, on storage that all ranks share.
        micro_batches: Micro-batches of a step.
        ranks: Who shares them.
        pad: Id that fills up batches.
    """

    maker: ExampleMaker
    plans: PlanConfig
    folder: Path
    micro_batches: int
    ranks: Ranks
    pad: int

    def steps(
        self, progress: Progress, *, is_stopped: Callable[[], bool] = _never
    ) -> Generator[StepInput, None, None]:
        """Yield steps from ``progress`` on without end, not reading anything before it.

        Args:
            progress: Where to begin.
            is_stopped: Whether to give up waiting for rank 0's plan, with an exception.
        """
        epoch, batch_idx = progress.epoch, progress.batch_idx
        plan = self.open_plan(epoch, is_stopped=is_stopped)
        while True:
            own: list[MicroBatch] = []
            for place in range(self.micro_batches):
                if batch_idx >= len(plan):
                    epoch, batch_idx = epoch + 1, 0
                    plan = self.open_plan(epoch, is_stopped=is_stopped)
                if place % self.ranks.world_size == self.ranks.rank:
                    batch = self.load(plan, epoch, batch_idx)
                    own.append(MicroBatch(batch=batch, epoch=epoch, batch_idx=batch_idx))
                batch_idx += 1
            yield StepInput(micro_batches=tuple(own), epoch=epoch, batch_idx=batch_idx)

    def open_plan(self, epoch: int, *, is_stopped: Callable[[], bool] = _never) -> EpochPlan:
        """Return an epoch's plan; rank 0 makes it, the others wait for that.

        Raises:
            TrainingError: If no target takes part in it.
        """
        if self.ranks.is_main:
            plan = open_plan(self.maker, self.plans, epoch=epoch, folder=self.folder)
        else:
            plan = self._wait_for_plan(epoch, is_stopped)
        if not len(plan):
            message = "No target takes part in training. Raise --set markdown_target_rate."
            raise TrainingError(message)
        return plan

    def load(self, plan: EpochPlan, epoch: int, batch_idx: int) -> Batch:
        """Make a micro-batch."""
        seed = self.plans.seed
        return load_batch(self.maker, plan[batch_idx], seed=seed, epoch=epoch, pad=self.pad)

    def fingerprint(self, progress: Progress) -> str:
        """Return a hash of the positions in the next 100 micro-batches of the epoch."""
        return fingerprint(self.open_plan(progress.epoch), progress.batch_idx)

    def _wait_for_plan(self, epoch: int, is_stopped: Callable[[], bool]) -> EpochPlan:
        # No barrier: this may run in the feed's thread, beside the messages of the steps. If rank 0
        # fails, torchrun ends the others.
        while not is_stopped():
            plan = stored_plan(self.maker, self.plans, epoch=epoch, folder=self.folder)
            if plan is not None:
                return plan
            if is_plan_past(self.folder, epoch):  # short epochs: rank 0 has removed it already
                return plan_epoch(self.maker, self.plans, epoch=epoch)
            time.sleep(_POLL_S)
        raise _StoppedError


@contextmanager
def prefetched(feed: Feed, progress: Progress) -> Iterator[Iterator[StepInput]]:
    """Make the steps from ``progress`` on in a thread, a few ahead of their use."""
    ready: queue.Queue[StepInput | BaseException] = queue.Queue(_AHEAD_STEPS)
    stopped = threading.Event()

    def make() -> None:
        try:
            for step in feed.steps(progress, is_stopped=stopped.is_set):
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
