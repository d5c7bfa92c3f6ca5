"""What a map is made of, and how finely."""

from dataclasses import dataclass

from jupyt5.errors import UsageError

__all__ = ["MIN_NOTEBOOKS", "MapSettings"]

MIN_NOTEBOOKS = 10
"""Fewer notebooks give neither words that fastText can learn from nor a map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """Settings of a map.

    Attributes:
        num_notebooks: Notebooks to place, drawn at random; the paper has 17 thousand.
        num_cells: Cells read of each notebook, drawn at random.
        num_clusters: Clusters to find.
        seed: Of the draws, of t-SNE and of the clusters.

    Raises:
        UsageError: If a number is too small.
    """

    num_notebooks: int = 17_000
    num_cells: int = 10
    num_clusters: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        smallest = {"num_notebooks": MIN_NOTEBOOKS, "num_cells": 1, "num_clusters": 1, "seed": 0}
        for name, least in smallest.items():
            if getattr(self, name) < least:
                option = name.removeprefix("num_")
                message = f"--{option} {getattr(self, name)} is too small; it is at least {least}."
                raise UsageError(message)
