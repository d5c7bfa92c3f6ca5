"""A run's numbers: ``metrics.jsonl``, one object a line, and the loss curve drawn from it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from jupyt5.files import write_atomic

__all__ = ["MetricsLog", "draw_loss_curve", "read_metrics"]

METRICS_NAME = "metrics.jsonl"
CURVE_NAME = "loss.png"

Record = Mapping[str, float]


class MetricsLog:
    """Appends records; on resume it first drops those after the checkpoint's step."""

    def __init__(self, run: Path, *, resume_step: int) -> None:
        self._path = run / METRICS_NAME
        kept = [record for record in read_metrics(run) if record["step"] <= resume_step]
        write_atomic(self._path, "".join(json.dumps(record) + "\n" for record in kept))

    def append(self, record: Record) -> None:
        """Write one record; it has a ``step``."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def read_metrics(run: Path) -> list[dict[str, float]]:
    """Read a run's records; a last line that was cut off is left out."""
    path = run / METRICS_NAME
    records: list[dict[str, float]] = []
    if not path.is_file():
        return records
    for line in path.read_text("utf-8").splitlines():
        try:
            records.append(cast("dict[str, float]", json.loads(line)))
        except ValueError:
            break
    return records


def draw_loss_curve(run: Path, *, title: str) -> Path:
    """Draw training and validation loss over steps to ``RUN/loss.png``."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    records = read_metrics(run)
    train = [(record["step"], record["loss"]) for record in records if "loss" in record]
    valid = [
        (record["step"], record["validation_loss"])
        for record in records
        if "validation_loss" in record
    ]
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    if train:
        axes.plot(*zip(*_smooth(train), strict=True), linewidth=1, label="training (smoothed)")
    if valid:
        axes.plot(*zip(*valid, strict=True), marker="o", label="validation repositories")
    axes.set(xlabel="optimizer step", ylabel="loss (nats per target token)", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    path = run / CURVE_NAME
    temporary = run / f".{CURVE_NAME}.tmp"
    figure.savefig(temporary, format="png", dpi=120)
    plt.close(figure)
    temporary.replace(path)
    return path


def _smooth(points: list[tuple[float, float]], weight: float = 0.9) -> list[tuple[float, float]]:
    smoothed: list[tuple[float, float]] = []
    average = points[0][1]
    for step, loss in points:
        average = weight * average + (1 - weight) * loss
        smoothed.append((step, average))
    return smoothed
