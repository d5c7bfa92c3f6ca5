"""Which cells go into which batch: planned once an epoch from lengths, resumable by number.

The order depends on (seed, epoch) only. Batches hold examples of like length up to a budget of
tokens, padding included (fairseq's max-tokens), and come in random order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Batch", "BatchPlan", "collate", "plan_epoch"]

_BUCKET_EXAMPLES = 16384


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One epoch's batches: ``targets[starts[b]:starts[b + 1]]`` are batch b's examples."""

    targets: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, batch_idx: int) -> npt.NDArray[np.int64]:
        return self.targets[self.starts[batch_idx] : self.starts[batch_idx + 1]]


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


def plan_epoch(
    source_lengths: npt.NDArray[np.int64],
    target_lengths: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> BatchPlan:
    """Shuffle, sort within large buckets by length, cut at the token budget, shuffle batches.

    Args:
        source_lengths: Estimates, shape (targets,).
        target_lengths: Likewise.
        weights: Probability in [0, 1] that a target takes part in an epoch, shape (targets,).
        batch_tokens: Most source + target ids of a batch, padding included.
        seed: Of the run.
        epoch: From 0.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(source_lengths))
    order = order[rng.random(len(order)) < weights[order]]
    batches: list[npt.NDArray[np.int64]] = []
    for start in range(0, len(order), _BUCKET_EXAMPLES):
        bucket = order[start : start + _BUCKET_EXAMPLES]
        # Target length first: it costs most; then source length, in coarse target steps.
        keys = np.lexsort((source_lengths[bucket], target_lengths[bucket] // 16))
        batches.extend(_cut_bucket(bucket[keys], source_lengths, target_lengths, batch_tokens))
    batches = [batches[idx] for idx in rng.permutation(len(batches))]
    starts = np.concatenate([[0], np.cumsum([len(batch) for batch in batches])])
    targets = np.concatenate(batches) if batches else np.zeros(0, np.int64)
    return BatchPlan(targets.astype(np.int64), starts.astype(np.int64))


def _cut_bucket(
    ordered: npt.NDArray[np.int64],
    source_lengths: npt.NDArray[np.int64],
    target_lengths: npt.NDArray[np.int64],
    batch_tokens: int,
) -> Iterator[npt.NDArray[np.int64]]:
    start, longest_source, longest_target = 0, 0, 0
    for position, idx in enumerate(ordered):
        source = max(longest_source, int(source_lengths[idx]))
        target = max(longest_target, int(target_lengths[idx]))
        if position > start and (position - start + 1) * (source + target) > batch_tokens:
            yield ordered[start:position]
            start = position
            source, target = int(source_lengths[idx]), int(target_lengths[idx])
        longest_source, longest_target = source, target
    if start < len(ordered):
        yield ordered[start:]


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


def _pad(rows: list[npt.NDArray[np.int64]], pad: int) -> npt.NDArray[np.int64]:
    padded = np.full((len(rows), max(len(row) for row in rows)), pad, np.int64)
    for idx, row in enumerate(rows):
        padded[idx, : len(row)] = row
    return padded
