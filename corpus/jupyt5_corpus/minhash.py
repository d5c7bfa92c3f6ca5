"""MinHash signatures of notebooks: short arrays whose agreement estimates the Jaccard similarity.

The set behind a signature is the notebook's distinct word 5-grams inside cells (``ngrams``); a
cell with fewer words counts as one n-gram. Sizes and threshold are datatrove's defaults for near
duplicates and BigCode's: 14 bands of 8 rows, so two notebooks with similarity 0.7 meet in some
band with probability 0.56, 0.8 with 0.92, 0.9 with 0.9998.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.ngrams import Ngrams, Words, hash_ngrams, mix

__all__ = [
    "MIN_NGRAMS",
    "NGRAM_SIZE",
    "NO_KEY",
    "NUM_BANDS",
    "NUM_PERMUTATIONS",
    "NUM_ROWS",
    "THRESHOLD",
    "band_key",
    "distinct_ngrams",
    "estimate_similarity",
    "is_comparable",
    "sign",
]

NGRAM_SIZE = 5
NUM_BANDS = 14
NUM_ROWS = 8
NUM_PERMUTATIONS = NUM_BANDS * NUM_ROWS
THRESHOLD = 0.7
MIN_NGRAMS = 10
"""Notebooks with fewer distinct n-grams prove nothing by being similar and are not compared."""

NO_KEY = np.uint64(0)
"""Key of what is not to be compared."""

_NONE = np.uint32(0xFFFFFFFF)
_CHUNK = 4096


def distinct_ngrams(words: Words) -> NDArray[np.uint64]:
    """Return the sorted hashes of the set that a signature stands for."""
    ngrams: Ngrams = hash_ngrams(words, NGRAM_SIZE, short_cells=True)
    return np.unique(ngrams.hashes)


def sign(distinct: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the signature of a set of n-grams, ``NUM_PERMUTATIONS`` values.

    All values are the largest number if the set is smaller than ``MIN_NGRAMS``; such signatures
    must not be compared (``estimate_similarity`` gives 0 for them).
    """
    signature = np.full(NUM_PERMUTATIONS, _NONE, np.uint32)
    if distinct.size < MIN_NGRAMS:
        return signature
    factors, summands = _permutations()
    values = (distinct >> np.uint64(32)).astype(np.uint32)
    for start in range(0, values.size, _CHUNK):
        permuted = factors * values[start : start + _CHUNK] + summands
        np.minimum(signature, permuted.min(axis=1), out=signature)
    return signature


def band_key(columns: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the key of one band: notebooks with an equal key are compared.

    Args:
        columns: The band's part of the signatures: (N, 8), columns 8 b to 8 b + 7 for band b.

    Returns:
        One key a notebook, ``NO_KEY`` where the set was too small.
    """
    keys = np.zeros(len(columns), np.uint64)
    for row_idx in range(NUM_ROWS):
        keys = mix(keys ^ columns[:, row_idx].astype(np.uint64))
    keys[~is_comparable(columns)] = NO_KEY
    return keys


def estimate_similarity(
    signatures: NDArray[np.uint32], others: NDArray[np.uint32]
) -> NDArray[np.float64]:
    """Estimate the Jaccard similarity, row by row; the standard error is at most 0.05."""
    agreement = (signatures == others).mean(axis=-1)
    return np.where(is_comparable(signatures) & is_comparable(others), agreement, 0.0)


def is_comparable(signatures: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Tell which signatures come from sets that are large enough."""
    return (signatures != _NONE).any(axis=-1)


@cache
def _permutations() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return odd factors and summands of x -> factor * x + summand mod 2^32, as columns."""
    constants = mix(np.arange(2 * NUM_PERMUTATIONS, dtype=np.uint64)) >> np.uint64(32)
    factors, summands = constants.astype(np.uint32).reshape(2, NUM_PERMUTATIONS, 1)
    return factors | np.uint32(1), summands
