"""The report's charts as inline SVG over training steps; colours come by class from the page."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

__all__ = ["LEFT", "PLOT_WIDTH", "Chart", "Line", "draw_chart", "format_number"]

_WIDTH, _HEIGHT = 620, 250
_RIGHT, _TOP, _BOTTOM = 14, 12, 38
LEFT = 58
PLOT_WIDTH = _WIDTH - LEFT - _RIGHT
_NUM_TICKS = 4
# The first losses are far above all others: up to this share of the steps they may leave the frame.
_START_SHARE = 0.02
_MAX_MARKS = 60

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart.

    Attributes:
        name: For the legend and the readout.
        at: Steps, rising, shape (points,).
        values: Shape (points,); NaN breaks the line.
        low: Lower edge of the band, if there is one.
        high: Upper edge.
        style: Colour: ``a`` to ``d``; ``soft`` is pale, without an entry in the readout.
        has_dots: Mark the points, for few of them.
    """

    name: str
    at: FloatArray
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    style: Literal["a", "b", "c", "d", "soft"] = "a"
    has_dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A titled chart of lines.

    Attributes:
        title: What is shown.
        note: How to read it.
        unit: Follows numbers in the readout.
        lines: At least one.
        is_log: Logarithmic upright axis.
        starts_at_zero: The upright axis begins at 0.
        clips: What may leave the frame: the first values (``start``), or the highest one in a
            hundred (``peaks``).
    """

    title: str
    note: str
    unit: str
    lines: Sequence[Line]
    is_log: bool = False
    starts_at_zero: bool = False
    clips: Literal["", "start", "peaks"] = ""


class _Scale:
    """Steps and values to places in the picture."""

    def __init__(self, chart: Chart, last_step: float) -> None:
        self._last_step = max(1.0, last_step)
        low, high = _find_range(chart, self._last_step)
        self.is_log = chart.is_log and low > 0
        if self.is_log:
            self.low, self.high = low, max(high, low * 1.1)
            self.ticks = _log_ticks(self.low, self.high)
        else:
            self.ticks = _linear_ticks(0.0 if chart.starts_at_zero else low, high)
            self.low, self.high = self.ticks[0], self.ticks[-1]

    def x(self, step: float) -> float:
        return LEFT + step / self._last_step * PLOT_WIDTH

    def y(self, value: float) -> float:
        if self.is_log:
            value = max(value, self.low / 10)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return _TOP + (1 - min(max(share, -0.2), 1.2)) * (_HEIGHT - _TOP - _BOTTOM)

    def x_ticks(self) -> list[float]:
        return [tick for tick in _linear_ticks(0.0, self._last_step) if tick <= self._last_step]


def draw_chart(chart: Chart, *, idx: int, last_step: float, marks: Sequence[float] = ()) -> str:
    """Return a chart as an SVG element; its text holds numbers and the title alone.

    Args:
        chart: What to draw.
        idx: Number of the chart on the page.
        last_step: Right end of the axis.
        marks: Steps of events, drawn as upright lines.
    """
    scale = _Scale(chart, last_step)
    bottom = _HEIGHT - _BOTTOM
    suffix = "%" if chart.unit.strip() == "%" else ""
    grid = "".join(
        f'<path class="grid" d="M{LEFT} {scale.y(tick):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{scale.y(tick) + 4:.1f}" text-anchor="end">'
        f"{format_number(tick)}{suffix}</text>"
        for tick in scale.ticks
    )
    labels = "".join(
        f'<text x="{scale.x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">'
        f"{format_number(tick)}</text>"
        for tick in scale.x_ticks()
    )
    events = "".join(
        f'<path class="event" d="M{scale.x(step):.1f} {_TOP}V{bottom}"/>'
        for step in marks[:_MAX_MARKS]
    )
    lines = "".join(_draw_line(line, scale) for line in chart.lines)
    middle = LEFT + PLOT_WIDTH / 2
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" tabindex="0" '
        f'aria-label="{chart.title} over steps"><clipPath id="frame-{idx}">'
        f'<rect x="{LEFT}" y="{_TOP}" width="{PLOT_WIDTH}" height="{bottom - _TOP}"/></clipPath>'
        f"{grid}{labels}{events}"
        f'<g clip-path="url(#frame-{idx})">{lines}</g>'
        f'<text x="{middle}" y="{_HEIGHT - 4}" text-anchor="middle">optimizer step</text>'
        f'<path class="cursor" d="M0 {_TOP}V{bottom}" visibility="hidden"/></svg>'
    )


def format_number(value: float) -> str:
    """Write a number short: 1,234 · 12.3 · 0.0012 · 2e-06."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _draw_line(line: Line, scale: _Scale) -> str:
    parts: list[str] = []
    if line.low is not None and line.high is not None:
        for run in _finite_runs(line.low + line.high):
            upper = [f"{scale.x(line.at[i]):.1f},{scale.y(line.high[i]):.1f}" for i in run]
            lower = [f"{scale.x(line.at[i]):.1f},{scale.y(line.low[i]):.1f}" for i in reversed(run)]
            parts.append(f'<polygon class="band-{line.style}" points="{" ".join(upper + lower)}"/>')
    for run in _finite_runs(line.values):
        points = [f"{scale.x(line.at[i]):.1f},{scale.y(line.values[i]):.1f}" for i in run]
        if len(points) > 1:
            parts.append(f'<polyline class="line-{line.style}" points="{" ".join(points)}"/>')
        if line.has_dots or len(points) == 1:
            parts += [_dot(point, line.style) for point in points]
    return "".join(parts)


def _dot(point: str, style: str) -> str:
    x, _, y = point.partition(",")
    return f'<circle class="dot-{style}" cx="{x}" cy="{y}" r="2.6"/>'


def _finite_runs(values: FloatArray) -> Iterable[list[int]]:
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return []
    return [run.tolist() for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)]


def _find_range(chart: Chart, last_step: float) -> tuple[float, float]:
    found: list[float] = []
    for line in chart.lines:
        late = line.at >= (_START_SHARE * last_step if chart.clips == "start" else 0)
        for values in (line.values, line.low, line.high):
            if values is not None:
                some = values[late & np.isfinite(values)]
                top = 0.99 if chart.clips == "peaks" else 1.0
                found += np.quantile(some, [0.0, top]).tolist() if len(some) else []
    if chart.is_log:
        found = [value for value in found if value > 0]
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    return low, high if high > low else low + (abs(low) or 1.0)


def _linear_ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose the range."""
    raw = (high - low) / _NUM_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [idx * step for idx in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside[:: math.ceil(len(inside) / 6)] if inside else [low, high]
