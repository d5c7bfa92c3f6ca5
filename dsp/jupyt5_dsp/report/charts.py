"""The report's charts as inline SVG; colours come from the page's style sheet, by class."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

__all__ = ["MIN_CORRELATED", "RatePoint", "correlate", "draw_curve", "draw_rates"]

# Of 4 problems in random order, one order in 12 has a rank correlation of 1 or -1; 10 problems
# differ from chance at the 5 % level from 0.65 on.
MIN_CORRELATED = 10

_WIDTH, _HEIGHT = 620, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 42
_LABELLED_KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)
_TOPS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
_NUM_TICKS = 4
_MAX_DOTS = 1500

Scale = Callable[[float], float]
Rows = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One problem: the share of its hypotheses that passed, and their mean CodeBLEU if known."""

    task_id: str
    pass_rate: float
    codebleu: float | None


def draw_curve(points: Rows, best_of_n: Rows) -> str:
    """Return pass@k on a logarithmic axis as an SVG element; "" without points.

    Args:
        points: Rows of k, pass@k, and the lower and upper end of its interval.
        best_of_n: The same for best of n by mean log-likelihood; may be empty.
    """
    if not points:
        return ""
    last_k = int(max(points[-1][0], best_of_n[-1][0] if best_of_n else 1))
    highest = max(row[3] for row in [*points, *best_of_n])
    top = next(top for top in _TOPS if highest <= top or top == 1.0)
    y = _scale_y(top)

    def x(k: float) -> float:
        share = math.log(k) / math.log(last_k) if last_k > 1 else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    labels = sorted({last_k, *(k for k in _LABELLED_KS if k <= last_k * 0.7)})
    axis = "".join(_label_x(x(k), f"{k:,}") for k in labels)
    lines = _draw_line(points, x, y, name="pass@k", style="a")
    if best_of_n:
        lines = _draw_line(best_of_n, x, y, name="best of", style="b") + lines
    first, last = points[0], points[-1]
    label = (
        f"pass@k over valid problems rises from {first[1]:.1%} at k = {first[0]:.0f} to "
        f"{last[1]:.1%} at k = {last[0]:.0f}"
    )
    title = _title_x("k, number of hypotheses (logarithmic)")
    return _frame(label, f"{_draw_grid(y, top)}{axis}{title}{lines}")


def draw_rates(points: Sequence[RatePoint]) -> str:
    """Return pass rates in falling order, and CodeBLEU beside them, as SVG; "" without points."""
    if not points:
        return ""
    ordered = sorted(points, key=lambda point: -point.pass_rate)
    y = _scale_y(1.0)
    step = (_WIDTH - _LEFT - _RIGHT) / len(ordered)
    # Runs of equal rates make one stretch, so a set of any size draws quickly.
    path = [f"M{_LEFT} {y(ordered[0].pass_rate):.1f}"]
    for idx, point in enumerate(ordered):
        if idx == len(ordered) - 1 or ordered[idx + 1].pass_rate != point.pass_rate:
            path.append(f"H{_LEFT + (idx + 1) * step:.1f}")
            if idx < len(ordered) - 1:
                path.append(f"V{y(ordered[idx + 1].pass_rate):.1f}")
    area = "".join(path) + f"V{y(0):.1f}H{_LEFT}Z"
    every = math.ceil(len(ordered) / _MAX_DOTS)
    dots = "".join(
        f'<circle class="dot-b" cx="{_LEFT + (idx + 0.5) * step:.1f}" '
        f'cy="{y(point.codebleu):.1f}" r="1.7"/>'
        for idx, point in enumerate(ordered)
        if point.codebleu is not None and idx % every == 0
    )
    solved = sum(point.pass_rate > 0 for point in ordered)
    label = f"Pass rate of {len(ordered)} problems in falling order; {solved} were ever solved"
    ends = _label_x(_LEFT + step / 2, "1") + _label_x(_WIDTH - _RIGHT - 8, f"{len(ordered):,}")
    title = _title_x("problems, by pass rate")
    body = f'<path class="area-a" d="{area}"/><path class="line-a" d="{"".join(path)}"/>{dots}'
    return _frame(label, f"{_draw_grid(y, 1.0)}{ends}{title}{body}")


def correlate(points: Sequence[RatePoint]) -> float | None:
    """Return Spearman's correlation of pass rate and CodeBLEU.

    None where it has no meaning: one of them is the same for all problems, or fewer than
    ``MIN_CORRELATED`` problems have both.
    """
    known = [(p.pass_rate, p.codebleu) for p in points if p.codebleu is not None]
    columns = list(zip(*known, strict=True))
    if len(known) < MIN_CORRELATED or any(len(set(column)) == 1 for column in columns):
        return None
    from scipy.stats import (  # pyright: ignore[reportMissingTypeStubs]
        spearmanr,  # pyright: ignore[reportUnknownVariableType]
    )

    measure = cast("Callable[..., Sequence[float]]", spearmanr)
    return float(measure(columns[0], columns[1])[0])


def _frame(label: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f"<title>{label}</title>{body}</svg>"
    )


def _scale_y(top: float) -> Scale:
    height = _HEIGHT - _TOP - _BOTTOM
    return lambda value: _TOP + (1 - min(max(value, 0.0), top) / top) * height


def _draw_grid(y: Scale, top: float) -> str:
    def lines() -> Iterator[str]:
        for step in range(_NUM_TICKS + 1):
            value = top * step / _NUM_TICKS
            at = y(value)
            yield f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>'
            label = f"{100 * value:g}%"
            yield f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'

    return "".join(lines())


def _draw_line(points: Rows, x: Scale, y: Scale, *, name: str, style: str) -> str:
    upper = [f"{x(k):.1f},{y(high):.1f}" for k, _, _, high in points]
    lower = [f"{x(k):.1f},{y(low):.1f}" for k, _, low, _ in reversed(points)]
    line = " ".join(f"{x(k):.1f},{y(mean):.1f}" for k, mean, *_ in points)
    marks = "".join(
        f'<circle class="dot-{style}" cx="{x(k):.1f}" cy="{y(mean):.1f}" r="2.5">'
        f"<title>{name} {k:.0f}: {mean:.1%} [{low:.1%}, {high:.1%}]</title></circle>"
        for k, mean, low, high in points
    )
    return (
        f'<polygon class="band-{style}" points="{" ".join(upper + lower)}"/>'
        f'<polyline class="line-{style}" points="{line}"/>{marks}'
    )


def _label_x(at: float, text: str) -> str:
    return f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{text}</text>'


def _title_x(text: str) -> str:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{text}</text>'
