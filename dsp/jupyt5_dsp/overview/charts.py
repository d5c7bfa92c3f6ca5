"""The overview's charts as inline SVG; colours come from the style sheet, by class."""

import math
from collections.abc import Callable, Sequence

from markupsafe import escape

from jupyt5_dsp.overview.rows import CLASSES, RunRow

__all__ = ["draw_classes", "draw_rates", "draw_scatter"]

_WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 42
_ROW = 30
_NAME_WIDTH = 300
_SCATTER_HEIGHT = 360
_NUM_COLOURS = 8
_NUM_NAMED = 3
_TOKENS = (1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_PERCENT = (0.0, 0.25, 0.5, 0.75, 1.0)


def draw_rates(runs: Sequence[RunRow], names: Sequence[str], k: int) -> str:
    """Return pass@k of each run with its interval, as one line each."""
    height = _TOP + _ROW * len(runs) + _BOTTOM
    x = _scale_x(_NAME_WIDTH)
    parts = [_draw_columns(x, height)]
    for idx, (run, name) in enumerate(zip(runs, names, strict=True)):
        y = _TOP + (idx + 0.5) * _ROW
        parts.append(_draw_name(name, y))
        value, ends = run.pass_at_k.get(k), run.ci95.get(k)
        if value is None:
            parts.append(f'<text x="{x(0) + 6:.1f}" y="{y + 4:.1f}">not reported</text>')
            continue
        told = f"pass@{k} {value:.1%}"
        if ends:
            told += f", 95 %: {ends[0]:.1%} to {ends[1]:.1%}"
            parts.append(
                f'<path class="whisker s{idx % _NUM_COLOURS}" '
                f'd="M{x(ends[0]):.1f} {y:.1f}H{x(ends[1]):.1f}"/>'
            )
        parts.append(
            f'<circle class="s{idx % _NUM_COLOURS}" cx="{x(value):.1f}" cy="{y:.1f}" r="5">'
            f"<title>{escape(told)}</title></circle>"
            f'<text x="{max(x(value), x(ends[1]) if ends else 0) + 9:.1f}" y="{y + 4:.1f}">'
            f"{value:.1%}</text>"
        )
    return _frame(f"pass@{k} of {len(runs)} runs", height, "".join(parts))


def draw_classes(runs: Sequence[RunRow], names: Sequence[str]) -> str:
    """Return the shares of failure classes among each run's samples, stacked."""
    height = _TOP + _ROW * len(runs) + _BOTTOM
    x = _scale_x(_NAME_WIDTH)
    parts = [_draw_columns(x, height)]
    for idx, (run, name) in enumerate(zip(runs, names, strict=True)):
        y, at = _TOP + idx * _ROW, 0.0
        parts.append(_draw_name(name, y + _ROW / 2))
        total = sum(run.classes.values()) or 1
        for number, kind in enumerate(CLASSES):
            share = run.classes[kind] / total
            parts.append(
                f'<rect class="c{number}" x="{x(at):.1f}" y="{y + 5}" '
                f'width="{x(at + share) - x(at):.1f}" height="{_ROW - 10}">'
                f"<title>{kind}: {run.classes[kind]:,} ({share:.1%})</title></rect>"
            )
            at += share
    return _frame(f"Verdicts of {len(runs)} runs by class", height, "".join(parts))


def draw_scatter(runs: Sequence[RunRow]) -> str:
    """Return each valid problem's pass rate over the length of its prompt; "" without any."""
    points = [
        (idx, float(problem.prompt_tokens), problem.pass_rate, problem.task_id)
        for idx, run in enumerate(runs)
        for problem in run.problems
        if problem.usable == "yes" and problem.prompt_tokens and problem.pass_rate is not None
    ]
    if not points:
        return ""
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    span = math.log(high / low) or 1.0

    def x(tokens: float) -> float:
        return _LEFT + math.log(tokens / low) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(rate: float) -> float:
        return _TOP + (1 - rate) * (_SCATTER_HEIGHT - _TOP - _BOTTOM)

    parts = [_draw_scatter_axes(x, y, low, high)]
    # One dot for all that lie on the same spot, so that many problems draw quickly.
    dots: dict[tuple[int, float, float], list[str]] = {}
    for idx, tokens, rate, task_id in points:
        dots.setdefault((idx, tokens, rate), []).append(task_id)
    for (idx, tokens, rate), task_ids in dots.items():
        # Equal rates of several runs lie beside each other, not on top.
        shift = (idx - (len(runs) - 1) / 2) * 3
        told = f"{_list_some(task_ids)}: {tokens:,.0f} tokens, {rate:.0%}"
        parts.append(
            f'<circle class="dot s{idx % _NUM_COLOURS}" cx="{x(tokens):.1f}" '
            f'cy="{y(rate) + shift:.1f}" r="2.6"><title>{escape(told)}</title></circle>'
        )
    label = f"Pass rate over prompt length, {len(points)} problems of {len(runs)} runs"
    return _frame(label, _SCATTER_HEIGHT, "".join(parts))


def _list_some(task_ids: Sequence[str]) -> str:
    more = len(task_ids) - _NUM_NAMED
    return ", ".join(task_ids[:_NUM_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _draw_scatter_axes(
    x: Callable[[float], float], y: Callable[[float], float], low: float, high: float
) -> str:
    parts: list[str] = []
    for share in _PERCENT:
        parts.append(f'<path class="grid" d="M{_LEFT} {y(share):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for tokens in _TOKENS:
        if low <= tokens <= high:
            parts.append(_draw_label(x(tokens), _SCATTER_HEIGHT, f"{tokens:,}"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    title = "prompt, tokens (logarithmic)"
    parts.append(
        f'<text x="{middle}" y="{_SCATTER_HEIGHT - 6}" text-anchor="middle">{title}</text>'
    )
    return "".join(parts)


def _scale_x(left: float) -> Callable[[float], float]:
    return lambda share: left + share * (_WIDTH - left - 60)


def _draw_columns(x: Callable[[float], float], height: int) -> str:
    return "".join(
        f'<path class="grid" d="M{x(share):.1f} {_TOP}V{height - _BOTTOM}"/>'
        + _draw_label(x(share), height, f"{share:.0%}")
        for share in _PERCENT
    )


def _draw_label(at: float, height: int, text: str) -> str:
    y = height - _BOTTOM + 17
    return f'<text x="{at:.1f}" y="{y}" text-anchor="middle">{text}</text>'


def _draw_name(name: str, y: float) -> str:
    end = _NAME_WIDTH - 12
    return f'<text x="{end}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'


def _frame(label: str, height: int, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{body}</svg>"
    )
