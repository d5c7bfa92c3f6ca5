"""Intervals of losses by drawing notebooks anew: cells of one notebook are not independent."""

import numpy as np
import numpy.typing as npt

__all__ = ["resample_losses"]

_NUM_DRAWS = 2000


def resample_losses(sums_C2: npt.NDArray[np.float64], *, seed: int = 0) -> npt.NDArray[np.float64]:
    """Draw notebooks with replacement; returns mean nats per target id, shape (2000,).

    Draws with one seed over the same notebooks are paired: subtract them for the interval of a
    difference.

    Args:
        sums_C2: Nats and target ids of each notebook, shape (notebooks, 2).
        seed: Of the draws.
    """
    draw = np.random.default_rng(seed)
    count = len(sums_C2)
    totals = np.array(
        [sums_C2[draw.integers(count, size=count)].sum(axis=0) for _ in range(_NUM_DRAWS)]
    )
    # A draw of notebooks without any such target says nothing.
    return np.divide(
        totals[:, 0], totals[:, 1], out=np.full(len(totals), np.nan), where=totals[:, 1] > 0
    )
