"""How much of a prompt is known from an earlier one."""

from collections.abc import Sequence

__all__ = ["count_shared"]


def count_shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many ids two sequences have in common from the start."""
    length = min(len(a), len(b))
    return next((idx for idx in range(length) if a[idx] != b[idx]), length)
