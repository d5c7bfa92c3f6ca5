"""For which k a curve is drawn."""

import math

__all__ = ["choose_ks"]

_POINTS_PER_DECADE = 12


def choose_ks(num_ks: int) -> list[int]:
    """Return values of k from 1 to ``num_ks``, evenly spread on a logarithmic axis."""
    steps = math.ceil(math.log10(num_ks) * _POINTS_PER_DECADE) if num_ks > 1 else 0
    spread = {round(num_ks ** (step / steps)) for step in range(steps + 1)} if steps else {1}
    return sorted(spread)
