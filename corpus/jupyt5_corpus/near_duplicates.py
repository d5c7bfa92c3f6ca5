"""Near-duplicates of a whole corpus: verified pairs within bands, then one kept of each cluster.

Every function works on arrays with one entry a notebook, so that bands can be separate tasks:
``find_pairs`` for each band, ``merge_pairs`` over all of them, ``choose_representatives`` once.
Nothing depends on the number of tasks or on the order in which they end.

A cluster is a kept notebook and those removed in its favour. Each removed one was compared with
it and is similar (estimate >= ``minhash.THRESHOLD``); similarity is never passed on along a chain.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.minhash import NO_KEY, THRESHOLD, estimate_similarity

__all__ = [
    "Pairs",
    "Quality",
    "Signatures",
    "choose_representatives",
    "find_neighbours",
    "find_pairs",
    "merge_pairs",
    "rank_by_quality",
    "without",
]

Pairs = NDArray[np.uint32]
"""Shape (M, 2): indices of two notebooks each, the smaller one first."""


class Signatures(Protocol):
    """Signatures of all notebooks: an array (N, 112), or something that reads them from files."""

    def __getitem__(self, idxs: NDArray[np.uint32], /) -> NDArray[np.uint32]:
        """Return the signatures (K, 112) of K notebooks, given by their indices."""
        ...


_MAX_ALL_PAIRS = 128
"""In a bucket of up to this many notebooks all are compared with all."""

_MAX_LEADERS = 256
"""In a larger one, each in turn with those not yet found similar to an earlier one; so often."""

_MAX_SECOND_HAND = 16
"""Notebooks that stay with which one is compared that shares no pair with them."""

_CHUNK_PAIRS = 8192


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quality:
    """What decides which notebook of a cluster is kept; the first difference counts.

    Attributes:
        is_unwanted: Whether later steps (licence, language …) would drop it anyway: such a
            notebook must not push out one that stays. False is better.
        is_fork: Whether its repository is a known fork. False is better.
        is_old_version: Whether it comes from the history. False is better.
        is_checkpoint: Whether it lies in ``.ipynb_checkpoints``. False is better.
        is_markdown_focused: Whether text explains the code. True is better.
        num_ngrams: Distinct n-grams: an exercise solved has more than one left open. More is
            better.
        tie_breaker: Any number that does not depend on the order of the input, such as a hash of
            the place. Smaller is better, then the smaller index.
    """

    is_unwanted: NDArray[np.bool_]
    is_fork: NDArray[np.bool_]
    is_old_version: NDArray[np.bool_]
    is_checkpoint: NDArray[np.bool_]
    is_markdown_focused: NDArray[np.bool_]
    num_ngrams: NDArray[np.uint32]
    tie_breaker: NDArray[np.uint64]


def rank_by_quality(quality: Quality) -> NDArray[np.uint32]:
    """Return each notebook's rank, 0 for the best; no two ranks are equal."""
    order = np.lexsort(
        (
            quality.tie_breaker,
            -quality.num_ngrams.astype(np.int64),
            ~quality.is_markdown_focused,
            quality.is_checkpoint,
            quality.is_old_version,
            quality.is_fork,
            quality.is_unwanted,
        )
    )
    ranks = np.empty(order.size, np.uint32)
    ranks[order] = np.arange(order.size, dtype=np.uint32)
    return ranks


def find_pairs(keys: NDArray[np.uint64], signatures: Signatures) -> Pairs:
    """Find the similar notebooks that share a key of one band.

    Args:
        keys: One band's key of every notebook; those with ``minhash.NO_KEY`` are left out.
        signatures: Of every notebook; up to 8,192 are asked for at a time.

    Returns:
        Sorted pairs with an estimated similarity of ``THRESHOLD`` or more. In a bucket of over
        128 notebooks some pairs may be missing; none is wrong.
    """
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    sorted_keys = keys[order]
    firsts = np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]]))
    sizes = np.diff(np.concatenate([firsts, [keys.size]]))
    is_bucket = (sizes > 1) & (sorted_keys[firsts] != NO_KEY) if keys.size else sizes > 1
    found: list[Pairs] = []
    for size in np.unique(sizes[is_bucket]).tolist():
        members = order[firsts[is_bucket & (sizes == size)][:, None] + np.arange(size)]
        if size <= _MAX_ALL_PAIRS:
            found.extend(_compare_all(members, signatures))
        else:
            for bucket in members:
                found.extend(_compare_with_leaders(bucket, signatures))
    return merge_pairs(found)


def merge_pairs(parts: Iterable[Pairs]) -> Pairs:
    """Return the distinct pairs of all parts, sorted."""
    pairs = np.concatenate([np.empty((0, 2), np.uint32), *parts])
    packed = np.unique((pairs[:, 0].astype(np.uint64) << np.uint64(32)) | pairs[:, 1])
    return np.stack([packed >> np.uint64(32), packed & np.uint64(0xFFFFFFFF)], axis=1).astype(
        np.uint32
    )


def without(pairs: Pairs, is_gone: NDArray[np.bool_]) -> Pairs:
    """Return the pairs of which neither notebook is gone."""
    return pairs[~is_gone[pairs].any(axis=1)]


def choose_representatives(
    pairs: Pairs, ranks: NDArray[np.uint32], signatures: Signatures
) -> NDArray[np.uint32]:
    """Choose which notebooks stay.

    In the order of their ranks, each notebook stays unless one that stays already is similar to
    it: one it is paired with, or one that a notebook it is paired with went for.

    Args:
        pairs: Of all bands together.
        ranks: One a notebook, all different, 0 for the best.
        signatures: Of every notebook.

    Returns:
        For each notebook the index of the one that stays for it: its own if it stays.
    """
    chosen = np.arange(ranks.size, dtype=np.uint32)
    neighbours, bounds = _adjacency(pairs, ranks.size)
    nodes = np.unique(pairs)
    is_settled = np.zeros(ranks.size, np.bool_)
    for node in nodes[np.argsort(ranks[nodes])].tolist():
        if is_settled[node]:
            continue
        is_settled[node] = True
        around = neighbours[bounds[node] : bounds[node + 1]]
        gone = around[is_settled[around]]
        if gone.size:
            stays = np.unique(chosen[gone])
            stays = stays[np.argsort(ranks[stays])][:_MAX_SECOND_HAND]
            similar = _verify(np.full(stays.size, node, np.uint32), stays, signatures)
            if similar.size:
                chosen[node] = similar[0, 1]
                continue
        around = around[~is_settled[around]]
        chosen[around] = node
        is_settled[around] = True
    return chosen


def find_neighbours(
    pairs: Pairs, is_origin: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Find notebooks that are similar to one of a given set, such as those held out.

    Returns:
        Indices of notebooks outside the set, ascending, and for each the smallest index of a
        notebook in the set that it is similar to.
    """
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    both_ways = both_ways[is_origin[both_ways[:, 0]] & ~is_origin[both_ways[:, 1]]]
    order = np.lexsort((both_ways[:, 0], both_ways[:, 1]))
    origins, copies = both_ways[order].T
    copies, firsts = np.unique(copies, return_index=True)
    return copies, origins[firsts]


def _compare_all(buckets: Pairs, signatures: Signatures) -> Iterator[Pairs]:
    """Compare all with all in each bucket, given as rows of equal length."""
    ones, others = np.triu_indices(buckets.shape[1], k=1)
    step = max(1, _CHUNK_PAIRS // ones.size)
    for start in range(0, len(buckets), step):
        part = buckets[start : start + step]
        yield _verify(part[:, ones].ravel(), part[:, others].ravel(), signatures)


def _compare_with_leaders(bucket: NDArray[np.uint32], signatures: Signatures) -> list[Pairs]:
    found: list[Pairs] = []
    rest = bucket
    for _ in range(_MAX_LEADERS):
        if rest.size < 2:
            break
        leader, rest = rest[0], rest[1:]
        pairs = [
            _verify(np.full(part.size, leader, np.uint32), part, signatures)
            for part in np.split(rest, range(_CHUNK_PAIRS, rest.size, _CHUNK_PAIRS))
        ]
        found.extend(pairs)
        rest = np.setdiff1d(rest, np.concatenate(pairs)[:, 1], assume_unique=True)
    return found


def _verify(ones: NDArray[np.uint32], others: NDArray[np.uint32], signatures: Signatures) -> Pairs:
    is_similar = estimate_similarity(signatures[ones], signatures[others]) >= THRESHOLD
    pairs = np.stack([ones[is_similar], others[is_similar]], axis=1)
    # Buckets are in ascending order of index (the sort is stable), so the smaller one is first.
    return pairs.astype(np.uint32)


def _adjacency(pairs: Pairs, num_notebooks: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return all neighbours, notebook by notebook, and where each notebook's begin."""
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    order = np.lexsort((both_ways[:, 1], both_ways[:, 0]))
    counts = np.bincount(both_ways[:, 0], minlength=num_notebooks)
    return both_ways[order, 1], np.concatenate([[0], np.cumsum(counts)])
