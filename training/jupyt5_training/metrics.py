"""A run's numbers: ``metrics.jsonl``, one object a line, TensorBoard's files, and the loss curve.

A record has a ``step`` and figures; ``rank_step_s`` alone is a pair, the fastest and the slowest
rank. A record with an ``event`` says in ``detail`` what happened. A figure that is not finite is
null.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from jupyt5.files import write_atomic

__all__ = [
    "METRICS_NAME",
    "MetricsLog",
    "Record",
    "draw_loss_curve",
    "iter_metrics",
    "read_metrics",
]

METRICS_NAME = "metrics.jsonl"
CURVE_NAME = "loss.png"
BOARD_NAME = "tensorboard"

Record = Mapping[str, float | str | Sequence[float]]

# TensorBoard shows what stands before the slash as a group.
_SPEED = {"tokens_per_s", "mfu", "step_s", "data_wait_s", "rank_step_s", "pad_fraction"}
_PAIR = ("min", "max")


class MetricsLog:
    """Appends records to both logs; on resume it first drops those after the checkpoint's step.

    Args:
        run: Folder of the run.
        resume_step: Last step whose records stay.
    """

    def __init__(self, run: Path, *, resume_step: int) -> None:
        self._run = run
        self._path = run / METRICS_NAME
        self._board: Any = None
        self.rewind(resume_step)

    def append(self, record: Record) -> None:
        """Write one record; it has a ``step``."""
        with self._path.open("ab") as stream:
            stream.write(orjson.dumps(dict(record)) + b"\n")
        for tag, value in _list_scalars(record):
            self._board.add_scalar(tag, value, record["step"])

    def rewind(self, step: int) -> None:
        """Drop the records after a step, because the steps after it are made again."""
        # On Python's own event files, without TensorFlow's or TensorBoard's packages.
        from tensorboardX import SummaryWriter

        self.close()
        kept = [record for record in iter_metrics(self._run) if record["step"] <= step]
        write_atomic(self._path, b"".join(orjson.dumps(record) + b"\n" for record in kept))
        self._board = SummaryWriter(str(self._run / BOARD_NAME), purge_step=step + 1)

    def close(self) -> None:
        """Write out what TensorBoard's files still lack."""
        if self._board is not None:
            self._board.close()


def iter_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """Yield a run's records; a last line that was cut off is left out."""
    path = run / METRICS_NAME
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for line in stream:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                return


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return a run's records; see ``iter_metrics``."""
    return list(iter_metrics(run))


def draw_loss_curve(run: Path, *, title: str) -> Path:
    """Draw training and validation loss over steps to ``RUN/loss.png``."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    train: list[tuple[float, float]] = []
    valid: list[tuple[float, float]] = []
    for record in iter_metrics(run):
        for points, name in ((train, "loss"), (valid, "validation_loss")):
            if record.get(name) is not None:
                points.append((record["step"], record[name]))
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


def _list_scalars(record: Record) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if name == "step" or isinstance(value, str) or value is None:
            continue
        group = _group_of(name)
        if isinstance(value, Sequence):
            yield from (
                (f"{group}/{name}_{end}", one) for end, one in zip(_PAIR, value, strict=True)
            )
        elif math.isfinite(value):
            yield f"{group}/{name}", value


def _group_of(name: str) -> str:
    if name in _SPEED:
        return "speed"
    if name == "loss" or name.startswith("validation"):
        return "loss"
    return "dsp" if name.startswith("dsp_") else "training"


def _smooth(points: list[tuple[float, float]], weight: float = 0.9) -> list[tuple[float, float]]:
    smoothed: list[tuple[float, float]] = []
    average = points[0][1]
    for step, loss in points:
        average = weight * average + (1 - weight) * loss
        smoothed.append((step, average))
    return smoothed
