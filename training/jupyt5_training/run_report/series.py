"""A run's figures as columns, and columns as few enough points to draw."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jupyt5_training.metrics import iter_metrics

__all__ = ["NUM_BINS", "Bins", "History", "bin_values", "read_history", "smooth"]

NUM_BINS = 400
"""Points of a line: more could not be told apart on the page."""

FloatArray = npt.NDArray[np.float64]


@dataclass(slots=True)
class History:
    """What ``metrics.jsonl`` says.

    Attributes:
        steps: Columns of the training steps by name, ``step`` among them; NaN where a record lacks
            a figure. ``rank_step_s`` became ``rank_step_s_min`` and ``rank_step_s_max``.
        evaluations: Records of validations and of ``dsp-eval``, one a step.
        events: Records that say what happened.
    """

    steps: dict[str, FloatArray] = field(default_factory=dict)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def column(self, name: str) -> FloatArray | None:
        """Return a column that has at least one finite figure."""
        values = self.steps.get(name)
        return None if values is None or not np.isfinite(values).any() else values


@dataclass(frozen=True, slots=True)
class Bins:
    """Means and extremes of neighbouring values, shape (bins,) each; NaN where there are none."""

    at: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def read_history(run: Path) -> History:
    """Read a run's records; only numbers are held, so that millions of steps fit."""
    columns: dict[str, array[float]] = {}
    evaluations: dict[int, dict[str, Any]] = {}
    history = History()
    count = 0
    for record in iter_metrics(run):
        if "event" in record:
            history.events.append(record)
        elif "loss" in record:
            _add_row(columns, record, count)
            count += 1
        else:
            evaluations.setdefault(int(record["step"]), {}).update(record)
    for column in columns.values():
        column.extend([math.nan] * (count - len(column)))
    history.steps = {name: np.array(column) for name, column in columns.items()}
    history.evaluations = [evaluations[step] for step in sorted(evaluations)]
    return history


def bin_values(at: FloatArray, values: FloatArray, num_bins: int = NUM_BINS) -> Bins:
    """Sum up neighbouring values, equally many in each bin, those that are finite.

    Args:
        at: Places on the axis, rising, shape (values,).
        values: Shape (values,).
        num_bins: Most bins.
    """
    size = max(1, math.ceil(len(values) / num_bins))
    parts = np.split(np.arange(len(values)), range(size, len(values), size))
    rows: list[tuple[float, float, float, float]] = []
    for part in parts:
        found = values[part][np.isfinite(values[part])]
        place = float(at[part].mean()) if len(part) else math.nan
        if len(found):
            rows.append((place, float(found.mean()), float(found.min()), float(found.max())))
        else:
            rows.append((place, math.nan, math.nan, math.nan))
    columns = np.array(rows, np.float64).T
    return Bins(columns[0], columns[1], columns[2], columns[3])


def smooth(values: FloatArray, width: int) -> FloatArray:
    """Return the mean over a window of ``width`` values around each, of those that are finite."""
    is_known = np.isfinite(values)
    kernel = np.ones(max(1, min(width, len(values))))
    total = np.convolve(np.where(is_known, values, 0.0), kernel, mode="same")
    count = np.convolve(is_known.astype(np.float64), kernel, mode="same")
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _add_row(columns: dict[str, "array[float]"], record: dict[str, Any], row: int) -> None:
    for name, value in record.items():
        if isinstance(value, Sequence) and not isinstance(value, str):
            pair = dict(zip((f"{name}_min", f"{name}_max"), value, strict=True))
        else:
            pair = {name: value}
        for key, one in pair.items():
            column = columns.setdefault(key, array("d"))
            column.extend([math.nan] * (row - len(column)))
            column.append(one if isinstance(one, int | float) else math.nan)
