"""Problems that are not independent: their clusters, and intervals that resample whole clusters."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interval", "bootstrap_means", "bootstrap_rates", "find_clusters"]

_NUM_RESAMPLES = 2000
_MIN_CLUSTERS = 2
_TAILS = (0.025, 0.975)
_ERROR_RATE = 0.05
_ROUNDING = 1e-9

Interval = tuple[float, float]


def find_clusters(keys_by_problem: Sequence[Sequence[str]]) -> list[int]:
    """Number the clusters of problems that share a key, directly or through others.

    Args:
        keys_by_problem: For each problem, e.g. its notebook and the digest of its test.

    Returns:
        A cluster number for each problem, counted from 0 in order of appearance.
    """
    parent = list(range(len(keys_by_problem)))

    def find(idx: int) -> int:
        while parent[idx] != idx:
            parent[idx] = parent[parent[idx]]
            idx = parent[idx]
        return idx

    first_with: dict[str, int] = {}
    for idx, keys in enumerate(keys_by_problem):
        for key in keys:
            root, other = find(idx), find(first_with.setdefault(key, idx))
            parent[max(root, other)] = min(root, other)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(find(idx), len(numbers)) for idx in range(len(parent))]


def bootstrap_means(
    values_GC: NDArray[np.float64], clusters: Sequence[int], *, seed: int
) -> list[Interval | None]:
    """Return a 95 % percentile interval for the mean of each column.

    A resample draws as many clusters as there are, with replacement, and averages over all the
    rows in them (Field & Welsh 2007, "Bootstrapping clustered data", the randomised cluster
    bootstrap). All columns see the same draws, so intervals of a curve fit together.

    Args:
        values_GC: One row a problem (or group of equal tests), one column a quantity.
        clusters: The cluster of each row.
        seed: Of the draws.

    Returns:
        An interval for each column; None where there are fewer than two clusters.
    """
    numbers, position_G = np.unique(np.asarray(clusters, dtype=np.int64), return_inverse=True)
    num_clusters, num_columns = len(numbers), values_GC.shape[1]
    if num_clusters < _MIN_CLUSTERS:
        return [None] * num_columns
    sums_KC = np.zeros((num_clusters, num_columns))
    np.add.at(sums_KC, position_G, values_GC)
    counts_K = np.bincount(position_G, minlength=num_clusters).astype(np.float64)
    # How often each cluster was drawn says as much as the list of draws, and makes one product.
    generator = np.random.default_rng(seed)
    shares = np.full(num_clusters, 1 / num_clusters)
    drawn_RK = generator.multinomial(num_clusters, shares, size=_NUM_RESAMPLES).astype(np.float64)
    means_RC = (drawn_RK @ sums_KC) / (drawn_RK @ counts_K)[:, None]
    low_C, high_C = np.quantile(means_RC, _TAILS, axis=0)
    return [(float(low), float(high)) for low, high in zip(low_C, high_C, strict=True)]


def bootstrap_rates(
    values_GC: NDArray[np.float64], clusters: Sequence[int], *, seed: int
) -> list[Interval | None]:
    """Return a 95 % interval for the mean of each column of pass rates.

    As ``bootstrap_means``, but where all rates are 0, or all are 1: all resamples are the same
    then, and an interval of no width would claim certainty. There the other end is the exact
    binomial bound (Clopper & Pearson 1934; one-sided, since the mean is the near end itself) after
    as many equal trials as there are clusters: 1 - 0.05^(1/n), about 3/n (Hanley & Lippman-Hand
    1983, "If nothing goes wrong, is everything all right?").

    Args:
        values_GC: One row a problem (or group of equal tests), one column a rate in [0, 1].
        clusters: The cluster of each row.
        seed: Of the draws.
    """
    intervals = bootstrap_means(values_GC, clusters, seed=seed)
    bound = 1 - _ERROR_RATE ** (1 / max(len(set(clusters)), 1))
    for idx, interval in enumerate(intervals):
        if interval is None:
            continue
        if values_GC[:, idx].max() <= _ROUNDING:
            intervals[idx] = (0.0, bound)
        elif values_GC[:, idx].min() >= 1 - _ROUNDING:
            intervals[idx] = (1 - bound, 1.0)
    return intervals
