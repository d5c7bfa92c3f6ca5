"""The pass@k curve as inline SVG: the mean over valid problems, with its 95 % band."""

import math
from collections.abc import Sequence

__all__ = ["choose_ks", "draw_curve"]

_WIDTH, _HEIGHT, _MARGIN = 640, 300, 44
_POINTS_PER_DECADE = 12
_NUM_TICKS = 5
_LABELLED_KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def choose_ks(num_ks: int) -> list[int]:
    """Return values of k from 1 to ``num_ks``, evenly spread on a logarithmic axis."""
    steps = math.ceil(math.log10(num_ks) * _POINTS_PER_DECADE) if num_ks > 1 else 0
    spread = {round(num_ks ** (step / steps)) for step in range(steps + 1)} if steps else {1}
    return sorted(spread)


def draw_curve(points: Sequence[Sequence[float]]) -> str:
    """Return an SVG element.

    Args:
        points: Rows of k, pass@k, and the lower and upper end of its interval.
    """
    if not points:
        return '<p class="muted">There is no curve: no valid problem has samples.</p>'
    return _render(points, int(points[-1][0]))


def _render(points: Sequence[Sequence[float]], num_ks: int) -> str:
    def x(k: float) -> float:
        share = math.log(k) / math.log(num_ks) if num_ks > 1 else 0.5
        return _MARGIN + share * (_WIDTH - 2 * _MARGIN)

    def y(value: float) -> float:
        return _HEIGHT - _MARGIN - min(max(value, 0.0), 1.0) * (_HEIGHT - 2 * _MARGIN)

    upper = [f"{x(k):.1f},{y(high):.1f}" for k, _, _, high in points]
    lower = [f"{x(k):.1f},{y(low):.1f}" for k, _, low, _ in reversed(points)]
    line = " ".join(f"{x(k):.1f},{y(mean):.1f}" for k, mean, *_ in points)
    marks = "".join(
        f'<circle cx="{x(k):.1f}" cy="{y(mean):.1f}" r="3" fill="#0969da">'
        f"<title>pass@{k:.0f} = {mean:.4f}</title></circle>"
        for k, mean, *_ in points
    )
    grid = "".join(
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
        f'stroke="#8884"/><text x="{_MARGIN - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">'
        f"{tick:.0%}</text>"
        for tick in (step / _NUM_TICKS for step in range(_NUM_TICKS + 1))
    )
    labels = "".join(
        f'<text x="{x(k):.1f}" y="{_HEIGHT - _MARGIN + 18}" text-anchor="middle">{k}</text>'
        for k in sorted({num_ks, *(k for k in _LABELLED_KS if k < num_ks)})
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="pass@k over valid problems, k from 1 to {num_ks}">{grid}{labels}'
        f'<polygon points="{" ".join(upper + lower)}" fill="#0969da33"/>'
        f'<polyline points="{line}" fill="none" stroke="#0969da" stroke-width="2"/>{marks}'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 4}" text-anchor="middle">k (hypotheses)</text>'
        "</svg>"
    )
