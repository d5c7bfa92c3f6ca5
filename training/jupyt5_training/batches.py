"""Which examples go into which batch: planned once an epoch, stored, and read by number.

The order depends on (seed, epoch) alone. Batches hold examples of like length up to a budget of
tokens, padding included (fairseq's max-tokens), and come in random order. A stored plan is
memory-mapped, so that a run goes on at any batch of a large epoch at once.
"""

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from jupyt5.files import write_atomic
from jupyt5_training.examples import ExampleMaker

__all__ = [
    "Batch",
    "EpochPlan",
    "PlanConfig",
    "collate",
    "cut_batches",
    "fingerprint",
    "is_plan_past",
    "load_batch",
    "open_plan",
    "plan_epoch",
    "stored_plan",
]

# Examples that are sorted by length together. Padding on real cells: 1 to 3 % with a million.
_BUCKET_EXAMPLES = 1 << 20
_MAX_BATCH_EXAMPLES = 4096
_PLAN_VERSION = 1

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConfig:
    """What a plan depends on besides the examples' settings.

    Attributes:
        batch_tokens: Most source + target ids of a batch, padding included.
        seed: Of the run.
        markdown_target_rate: Share of the Markdown targets that take part in an epoch.
        data_sha256: Of ``data.json``, so that a plan of other data is never used.
    """

    batch_tokens: int
    seed: int
    markdown_target_rate: float = 1.0
    data_sha256: str = ""


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch's batches: ``targets[starts[b]:starts[b + 1]]`` are batch b's positions."""

    targets: IntArray
    starts: IntArray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, batch_idx: int) -> npt.NDArray[np.int64]:
        """Return a batch's positions, for ``ExampleMaker.make``."""
        start, end = self.starts[batch_idx], self.starts[batch_idx + 1]
        return np.asarray(self.targets[start:end], np.int64)


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded arrays, int64.

    ``source_BS`` and ``target_BT`` are padded with the pad id; ``num_useful`` counts the ids
    that are not padding, ``num_target`` those of the targets.
    """

    source_BS: npt.NDArray[np.int64]
    target_BT: npt.NDArray[np.int64]
    num_useful: int
    num_target: int


def open_plan(maker: ExampleMaker, config: PlanConfig, *, epoch: int, folder: Path) -> EpochPlan:
    """Load an epoch's plan from a folder; where there is none that fits, make and store it.

    With several ranks one calls this first and the others after it has returned.

    Args:
        maker: Of the training split.
        config: What the plan depends on.
        epoch: From 0.
        folder: Of the run's plans.
    """
    plan = stored_plan(maker, config, epoch=epoch, folder=folder)
    if plan is not None:
        return plan
    plan = plan_epoch(maker, config, epoch=epoch)
    if len(plan):  # an empty file cannot be mapped
        _store_plan(folder, epoch, _plan_key(maker, config, epoch), plan)
    return plan


def stored_plan(
    maker: ExampleMaker, config: PlanConfig, *, epoch: int, folder: Path
) -> EpochPlan | None:
    """Return the stored plan of an epoch; None where it is missing, damaged or of other settings.

    Args:
        maker: Of the training split.
        config: What the plan depends on.
        epoch: From 0.
        folder: Of the run's plans.
    """
    stem = folder / f"epoch-{epoch:04d}"
    try:
        info = json.loads(stem.with_suffix(".json").read_text("utf-8"))
        if info["key"] != _plan_key(maker, config, epoch):
            return None
        targets, starts = (
            np.load(f"{stem}.{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("targets", "starts")
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_whole = len(starts) == info["batches"] + 1 and len(targets) == info["examples"]
    return EpochPlan(targets, starts) if is_whole else None


def is_plan_past(folder: Path, epoch: int) -> bool:
    """Return whether an epoch's plan may have been removed, because there are much later ones."""
    return any(_epoch_of(path) > epoch + 1 for path in folder.glob("epoch-*.json"))


def plan_epoch(maker: ExampleMaker, config: PlanConfig, *, epoch: int) -> EpochPlan:
    """Draw an epoch's targets, sort them by length, cut batches, shuffle the batches."""
    rng = np.random.default_rng([config.seed, epoch])
    weights = maker.target_weights(config.markdown_target_rate)
    copies = (weights + rng.random(len(weights))).astype(np.int64)
    positions = np.concatenate(
        [
            np.flatnonzero(copies > copy) + copy * len(copies)
            for copy in range(max(1, copies.max(initial=0)))
        ]
    )
    sources, targets = maker.lengths(positions, seed=config.seed, epoch=epoch)
    order = rng.permutation(len(positions))
    ordered: list[IntArray] = []
    sizes: list[IntArray] = []
    for start in range(0, len(order), _BUCKET_EXAMPLES):
        bucket = order[start : start + _BUCKET_EXAMPLES]
        chosen, starts = cut_batches(sources[bucket], targets[bucket], config.batch_tokens)
        ordered.append(bucket[chosen])
        sizes.append(np.diff(starts))
    if not ordered:
        return EpochPlan(np.zeros(0, np.int64), np.zeros(1, np.int64))
    return _shuffle_batches(positions[np.concatenate(ordered)], np.concatenate(sizes), rng)


def _shuffle_batches(positions: IntArray, sizes: IntArray, rng: np.random.Generator) -> EpochPlan:
    """Put batches that lie one after the other into random order."""
    order = rng.permutation(len(sizes))
    old_starts = np.cumsum(sizes) - sizes
    starts = np.append(0, np.cumsum(sizes[order]))
    moves = np.repeat(old_starts[order] - starts[:-1], sizes[order])
    return EpochPlan(positions[moves + np.arange(len(positions))], starts)


def cut_batches(
    source_lengths: IntArray, target_lengths: IntArray, batch_tokens: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Group examples of like length into batches of at most ``batch_tokens`` ids with padding.

    An example longer than that is a batch of its own. Among equal lengths the given order stays.

    Args:
        source_lengths: Shape (examples,).
        target_lengths: Shape (examples,).
        batch_tokens: Budget of a batch.

    Returns:
        (indices of the examples, batch after batch; where in it each batch starts, and its end).
    """
    order = _order_by_length(source_lengths, target_lengths, batch_tokens)
    sources, targets = source_lengths[order], target_lengths[order]
    sizes = np.arange(1, _MAX_BATCH_EXAMPLES + 1)
    starts = [0]
    reach = 64  # examples looked at for a batch: twice as many as the last one had
    while (start := starts[-1]) < len(order):
        longest_source = np.maximum.accumulate(sources[start : start + reach])
        longest_target = np.maximum.accumulate(targets[start : start + reach])
        cost = (longest_source + longest_target) * sizes[: len(longest_source)]
        count = max(1, int(np.searchsorted(cost, batch_tokens, side="right")))
        is_at_reach = count == reach < _MAX_BATCH_EXAMPLES
        reach = min(_MAX_BATCH_EXAMPLES, 2 * count)
        if not is_at_reach:
            starts.append(start + count)
    return order, np.asarray(starts, np.int64)


def _order_by_length(
    source_lengths: IntArray, target_lengths: IntArray, batch_tokens: int
) -> npt.NDArray[np.int64]:
    """Sort into groups of like source length, inside them by target length, there and back.

    As many groups as there are batches in each: both lengths then vary equally little in a batch.
    """
    count = len(source_lengths)
    mean_length = max(1.0, float((source_lengths + target_lengths).mean())) if count else 1.0
    num_batches = max(1.0, count * mean_length / batch_tokens)
    by_source = np.argsort(source_lengths, kind="stable")
    groups = np.array_split(by_source, max(1, round(math.sqrt(num_batches))))
    ordered = [
        group[np.argsort(target_lengths[group] * (-1 if idx % 2 else 1), kind="stable")]
        for idx, group in enumerate(groups)
    ]
    return np.concatenate(ordered)


def load_batch(
    maker: ExampleMaker, positions: npt.NDArray[np.int64], *, seed: int, epoch: int, pad: int
) -> Batch:
    """Make the examples of a batch's positions and pad them."""
    examples = [maker.make(int(position), seed=seed, epoch=epoch) for position in positions]
    return collate(
        [example.source_ids for example in examples],
        [example.target_ids for example in examples],
        pad=pad,
    )


def collate(
    sources: list[npt.NDArray[np.int64]], targets: list[npt.NDArray[np.int64]], *, pad: int
) -> Batch:
    """Pad sources and targets of a batch to their longest."""
    source_BS = _pad(sources, pad)
    target_BT = _pad(targets, pad)
    num_target = sum(len(target) for target in targets)
    return Batch(
        source_BS, target_BT, num_target + sum(len(source) for source in sources), num_target
    )


def fingerprint(plan: EpochPlan, first: int, count: int = 100) -> str:
    """Return a hash of the batches ``first`` to ``first + count``, as far as the epoch goes.

    Two runs with equal fingerprints see the same examples in the same batches next.
    """
    starts = np.asarray(plan.starts[first : first + count + 1], np.int64)
    digest = hashlib.sha256(np.diff(starts).astype("<i8").tobytes())
    if len(starts):
        digest.update(np.asarray(plan.targets[starts[0] : starts[-1]]).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def _pad(rows: list[npt.NDArray[np.int64]], pad: int) -> npt.NDArray[np.int64]:
    padded = np.full((len(rows), max(len(row) for row in rows)), pad, np.int64)
    for idx, row in enumerate(rows):
        padded[idx, : len(row)] = row
    return padded


def _plan_key(maker: ExampleMaker, config: PlanConfig, epoch: int) -> str:
    inputs = {
        "version": _PLAN_VERSION,
        "epoch": epoch,
        "plan": asdict(config),
        "examples": asdict(maker.config),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _store_plan(folder: Path, epoch: int, key: str, plan: EpochPlan) -> None:
    """Write a plan, its key last. Plans of epochs long past go; the first tells a run's length."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"epoch-{epoch:04d}"
    stem.with_suffix(".json").unlink(missing_ok=True)
    for name, array in (("targets", plan.targets), ("starts", plan.starts)):
        temporary = folder / f".{stem.name}.{name}.tmp"
        with temporary.open("wb") as stream:
            np.save(stream, array, allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(f"{stem}.{name}.npy")
    info = {"key": key, "batches": len(plan), "examples": len(plan.targets)}
    write_atomic(stem.with_suffix(".json"), json.dumps(info) + "\n")
    for path in folder.glob("epoch-*"):
        if 0 < _epoch_of(path) < epoch - 1:
            path.unlink(missing_ok=True)


def _epoch_of(path: Path) -> int:
    return int(path.name.removeprefix("epoch-").partition(".")[0])
