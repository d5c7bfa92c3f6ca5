"""What the page says beside its charts: headline figures, evaluations, events, settings."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from jupyt5.errors import TrainingError
from jupyt5_training.run_report.charts import LEFT, PLOT_WIDTH, Chart, draw_chart, format_number
from jupyt5_training.run_report.lines import make_charts
from jupyt5_training.run_report.series import History

__all__ = ["make_view", "read_recipe"]

# Logged every so many steps: listed, but not marked in the charts.
_ROUTINE_EVENTS = {"order"}
_NUM_EVENTS = 200
_NUM_EVALUATIONS = 400
_SIGNIFICANT = 5


def read_recipe(run: Path) -> dict[str, Any]:
    """Return ``recipe.json`` of a run.

    Raises:
        TrainingError: If it is missing or damaged.
    """
    path = run / "recipe.json"
    try:
        record: object = json.loads(path.read_text("utf-8"))
        if not isinstance(record, dict) or not isinstance(record["recipe"], dict):
            raise TypeError("no recipe")  # noqa: TRY301 (one message for all that can be wrong)
    except (OSError, ValueError, KeyError, TypeError) as exc:
        message = (
            f"{run} is no training run: {path.name}: {exc}. Give the --out of jupyt5-train run."
        )
        raise TrainingError(message) from exc
    return cast("dict[str, Any]", record)


def make_view(record: Mapping[str, Any], history: History) -> dict[str, object]:
    """Return the values of the page's template."""
    recipe: Mapping[str, Any] = record["recipe"]
    last_step = _last_step(history)
    marks = [event["step"] for event in history.events if event.get("event") not in _ROUTINE_EVENTS]
    charts = make_charts(history)
    return {
        "name": str(recipe.get("name", "")),
        "chips": list(_list_chips(recipe, history, last_step)),
        "is_running": last_step < int(recipe.get("steps", 0)),
        "last_step": last_step,
        "cards": list(_list_cards(history)),
        "charts": [
            {
                "title": chart.title,
                "note": chart.note,
                "legend": [line for line in chart.lines if line.name],
                "svg": draw_chart(chart, idx=idx, last_step=last_step, marks=marks),
            }
            for idx, chart in enumerate(charts)
        ],
        "readout": {
            "left": LEFT,
            "width": PLOT_WIDTH,
            "last": last_step,
            "charts": [_readout(chart) for chart in charts],
        },
        "evaluations": _tabulate(history),
        "events": history.events[-_NUM_EVENTS:],
        "num_events": len(history.events),
        "settings": list(_flatten({**recipe, "data_sha256": record.get("data_sha256", "")})),
    }


def _last_step(history: History) -> int:
    steps = history.steps.get("step")
    evaluated = [int(record["step"]) for record in history.evaluations]
    return max([int(steps[-1]) if steps is not None and len(steps) else 0, *evaluated])


def _list_chips(recipe: Mapping[str, Any], history: History, last_step: int) -> Iterator[str]:
    yield f"step {last_step:,} of {int(recipe.get('steps', last_step)):,}"
    for key, label in (("tokens", "source and target ids"), ("target_tokens", "target ids")):
        column = history.column(key)
        if column is not None:
            yield f"{np.nansum(column):,.0f} {label} seen"
    step_s = history.column("step_s")
    if step_s is not None:
        yield f"{_say_duration(float(np.nansum(step_s)))} in steps"
        left = int(recipe.get("steps", 0)) - last_step
        if left > 0:
            yield f"about {_say_duration(left * float(np.nanmedian(step_s)))} to go"


def _list_cards(history: History) -> Iterator[dict[str, str]]:
    losses = [row["validation_loss"] for row in history.evaluations if row.get("validation_loss")]
    if losses:
        yield {
            "label": "Held-out loss",
            "value": f"{losses[-1]:.4f}",
            "note": f"nats per target id; {losses[0]:.4f} at first, {min(losses):.4f} at best",
        }
    speed, mfu = history.column("tokens_per_s"), history.column("mfu")
    if speed is not None:
        share = f"; {np.nanmedian(mfu):.1%} of the device's peak" if mfu is not None else ""
        yield {
            "label": "Speed",
            "value": f"{np.nanmedian(speed):,.0f}",
            "note": f"useful tokens/s, median{share}",
        }
    padding = history.column("pad_fraction")
    if padding is not None:
        yield {
            "label": "Padding",
            "value": f"{np.nanmean(padding):.1%}",
            "note": "of all source and target ids",
        }
    wait_s, step_s = history.column("data_wait_s"), history.column("step_s")
    if wait_s is not None and step_s is not None:
        yield {
            "label": "Wait for data",
            "value": f"{np.nansum(wait_s) / max(np.nansum(step_s), 1e-9):.1%}",
            "note": "of the time of all steps",
        }


def _readout(chart: Chart) -> list[dict[str, object]]:
    """The lines as numbers, for the script that tells them under the pointer."""
    return [
        {
            "name": line.name,
            "unit": chart.unit,
            "x": [round(value, 1) for value in line.at.tolist()],
            "y": [_round(value) for value in line.values.tolist()],
        }
        for line in chart.lines
        if line.name
    ]


def _round(value: float) -> float | None:
    return float(f"{value:.{_SIGNIFICANT}g}") if np.isfinite(value) else None


def _tabulate(history: History) -> dict[str, object]:
    rows = history.evaluations[-_NUM_EVALUATIONS:]
    names = sorted({name for row in rows for name in row} - {"step"})
    order = {"tokens_seen": 0, "validation_loss": 1}
    names.sort(key=lambda name: (order.get(name, 2), name))
    return {
        "heads": [name.replace("_", " ") for name in names],
        "rows": [
            [f"{int(row['step']):,}", *(_say(row.get(name)) for name in names)] for row in rows
        ],
    }


def _say(value: object) -> str:
    if isinstance(value, int | float):
        return format_number(value)
    return "" if value is None else str(value)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def _say_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
