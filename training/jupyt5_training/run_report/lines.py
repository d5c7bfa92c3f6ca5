"""Which charts a run has: one for each figure that its records hold."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from jupyt5_training.run_report.charts import Chart, Line
from jupyt5_training.run_report.series import NUM_BINS, History, bin_values, smooth

__all__ = ["make_charts"]

FloatArray = npt.NDArray[np.float64]
Style = Literal["a", "b", "c", "d"]

_STYLES: tuple[Style, ...] = ("b", "c", "d", "a")
_SMOOTHING = 50  # bins in 1/50 of the width


def make_charts(history: History) -> list[Chart]:
    """Return the charts in the order of the page; figures that no record has are left out."""
    return [
        *_loss(history),
        *_exact_chart(history, "lr", "Learning rate", "At its peak after the warm-up."),
        *_quality(history),
        *_dsp(history),
        *_speed(history),
        *_rank_times(history),
        *_data_wait(history),
        *_step_chart(
            history,
            "pad_fraction",
            "Padding",
            "Share of a batch's ids that fill up sources and targets.",
            unit=" %",
            factor=100,
            starts_at_zero=True,
        ),
        *_step_chart(
            history, "grad_norm", "Gradient norm", "Before clipping; logarithmic.", is_log=True
        ),
        *_exact_chart(history, "loss_scale", "Loss scale", "Of float16."),
    ]


def _loss(history: History) -> Iterator[Chart]:
    steps, loss = history.steps.get("step"), history.column("loss")
    lines: list[Line] = []
    if steps is not None and loss is not None:
        lines += _noisy(steps, loss, "training")
    lines += _evaluated(history, _loss_names(history))
    if lines:
        yield Chart(
            title="Loss",
            note="Nats per target id. The band spans a point's steps; dots are held-out cells.",
            unit="",
            lines=lines,
            clips="start",
        )


def _loss_names(history: History) -> dict[str, str]:
    found = sorted({name for record in history.evaluations for name in record})
    names = {"validation_loss": "held out"} if "validation_loss" in found else {}
    for name in found:
        kind = name.removeprefix("validation_").removesuffix("_loss")
        if name == f"validation_{kind}_loss" and len(names) < len(_STYLES):
            names[name] = f"held out, {kind}"
    # A kind alone says what all say.
    return names if len(names) > 2 else dict(list(names.items())[:1])


def _speed(history: History) -> Iterator[Chart]:
    yield from _step_chart(
        history,
        "tokens_per_s",
        "Speed",
        "Source and target ids a second, padding not counted, all ranks together.",
        unit=" tokens/s",
        starts_at_zero=True,
    )
    yield from _step_chart(
        history,
        "mfu",
        "Model FLOPs utilisation",
        "Useful arithmetic as a share of the device's peak.",
        unit=" %",
        factor=100,
        starts_at_zero=True,
    )


def _quality(history: History) -> Iterator[Chart]:
    names = {"exact_match": "exact match", "codebleu": "CodeBLEU"}
    lines = _evaluated(history, names, factor=100)
    if lines:
        yield Chart(
            title="Held-out code cells, decoded greedily",
            note="Share that equals the reference, and mean CodeBLEU.",
            unit=" %",
            lines=lines,
            starts_at_zero=True,
        )


def _dsp(history: History) -> Iterator[Chart]:
    keys = {name for record in history.evaluations for name in record}
    ks = sorted(
        int(name.rpartition("_")[2])
        for name in keys
        if name.startswith("dsp_pass_at_") and name.rpartition("_")[2].isdigit()
    )
    names = {f"dsp_pass_at_{k}": f"pass@{k}" for k in ks[: len(_STYLES)]}
    lines = _evaluated(history, names, factor=100)
    if lines:
        yield Chart(
            title="dsp-eval on a few problems",
            note="pass@k over the valid ones, with 95 % intervals over clusters of problems.",
            unit=" %",
            lines=lines,
            starts_at_zero=True,
        )


def _evaluated(history: History, names: dict[str, str], factor: float = 1.0) -> list[Line]:
    lines: list[Line] = []
    for (key, name), style in zip(names.items(), _STYLES, strict=False):
        rows = [record for record in history.evaluations if record.get(key) is not None]
        if not rows:
            continue
        has_band = all(row.get(f"{key}_low") is not None for row in rows)
        lines.append(
            Line(
                name=name,
                at=np.array([row["step"] for row in rows], np.float64),
                values=_values(rows, key) * factor,
                low=_values(rows, f"{key}_low") * factor if has_band else None,
                high=_values(rows, f"{key}_high") * factor if has_band else None,
                style=style,
                has_dots=len(rows) <= NUM_BINS // 4,
            )
        )
    return lines


def _values(rows: Sequence[dict[str, float]], key: str) -> FloatArray:
    return np.array([row[key] for row in rows], np.float64)


def _step_chart(
    history: History,
    key: str,
    title: str,
    note: str,
    *,
    unit: str = "",
    factor: float = 1.0,
    is_log: bool = False,
    starts_at_zero: bool = False,
) -> Iterator[Chart]:
    values = history.column(key)
    if values is not None:
        yield Chart(
            title=title,
            note=note,
            unit=unit,
            lines=_noisy(history.steps["step"], values * factor, title.lower()),
            is_log=is_log,
            starts_at_zero=starts_at_zero,
            clips="" if is_log else "peaks",
        )


def _exact_chart(history: History, key: str, title: str, note: str) -> Iterator[Chart]:
    """A figure that is set, not measured: as it is."""
    values = history.column(key)
    if values is not None:
        bins = bin_values(history.steps["step"], values)
        line = Line(name=title.lower(), at=bins.at, values=bins.mean)
        yield Chart(title=title, note=note, unit="", lines=[line], starts_at_zero=True)


def _noisy(steps: FloatArray, values: FloatArray, name: str) -> list[Line]:
    """A smoothed line over what it was made of: the values themselves, or a band of many."""
    bins = bin_values(steps, values)
    even = smooth(bins.mean, len(bins.at) // _SMOOTHING)
    if len(values) > NUM_BINS:
        return [Line(name=name, at=bins.at, values=even, low=bins.low, high=bins.high)]
    return [
        Line(name="", at=bins.at, values=bins.mean, style="soft"),
        Line(name=name, at=bins.at, values=even),
    ]


def _rank_times(history: History) -> Iterator[Chart]:
    fastest, slowest = history.column("rank_step_s_min"), history.column("rank_step_s_max")
    if fastest is None or slowest is None or np.array_equal(fastest, slowest):
        yield from _step_chart(
            history,
            "step_s",
            "Time of a step",
            "Wall time, waiting included.",
            unit=" s",
            starts_at_zero=True,
        )
        return
    steps = history.steps["step"]
    at = bin_values(steps, fastest).at
    low, high = (
        smooth(bins.mean, len(at) // _SMOOTHING)
        for bins in (bin_values(steps, fastest), bin_values(steps, slowest))
    )
    lines = [
        Line(name="slowest rank", at=at, values=high, low=low, high=high, style="b"),
        Line(name="fastest rank", at=at, values=low),
    ]
    yield Chart(
        title="Time of a step by rank",
        note="Wall time before ranks wait for each other. Two lines far apart: a straggler.",
        unit=" s",
        lines=lines,
        starts_at_zero=True,
    )


def _data_wait(history: History) -> Iterator[Chart]:
    wait_s, step_s = history.column("data_wait_s"), history.column("step_s")
    if wait_s is not None and step_s is not None:
        share = 100 * wait_s / np.maximum(step_s, 1e-9)
        yield Chart(
            title="Wait for data",
            note="Share of a step's time in which no batch was ready.",
            unit=" %",
            lines=_noisy(history.steps["step"], share, "wait for data"),
            starts_at_zero=True,
            clips="peaks",
        )
