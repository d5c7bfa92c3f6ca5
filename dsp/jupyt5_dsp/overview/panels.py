"""Charts that have one panel a suite: pass@k over k, and pass rate over the prompt's length."""

import itertools
import math
from collections.abc import Mapping, Sequence

from jupyt5_dsp.overview.axes import (
    Plot,
    Scale,
    choose_ticks,
    choose_top,
    draw_frame,
    make_log_scale,
)
from jupyt5_dsp.overview.marks import Mark, draw_mark
from jupyt5_dsp.overview.rows import ProblemRow, RunRow

__all__ = ["draw_curves", "draw_scatter"]

_PLOT = Plot(width=460, height=300)
_NUM_NAMED = 3
_MOST_GROUPS = 5
_LEAST_IN_GROUP = 10
_LARGEST_SHIFT = 9.0
_CURVE_STEP = 4.0  # between equal curves
_NEAR = 2.0
_DOT = 0.7  # of a whole mark
_MOST_BANDS = 3  # More of them on top of each other are faint, so that their lines show.

Marks = Mapping[str, Mark]


def draw_curves(version: str, runs: Sequence[RunRow], marks: Marks) -> str:
    """Return pass@k over valid problems for every k, with 95 % bands; "" if no run has several.

    Args:
        version: Of the suite of all these runs.
        runs: With their curves.
        marks: By name of a run.
    """
    shown = [run for run in runs if run.curve]
    last_k = max((run.curve[-1][0] for run in shown), default=1.0)
    if last_k <= 1:
        return ""
    top = choose_top(max(row[3] for run in shown for row in run.curve))
    x, y = make_log_scale(_PLOT.x_ends, 1.0, last_k), _PLOT.scale_y(top)
    bands, lines = "", ""
    style = "band" if len(shown) <= _MOST_BANDS else "band faint"
    shifts = _shift_equal(shown, y)
    for run in shown:
        mark, shift = marks[run.run], shifts[run.run]
        upper = [f"{x(k):.1f},{y(high):.1f}" for k, _, _, high in run.curve]
        lower = [f"{x(k):.1f},{y(low):.1f}" for k, _, low, _ in reversed(run.curve)]
        bands += f'<polygon class="{style} {mark.colour}" points="{" ".join(upper + lower)}"/>'
        points = " ".join(f"{x(k):.1f},{y(mean) + shift:.1f}" for k, mean, *_ in run.curve)
        lines += f'<polyline class="line {mark.colour} {mark.dash}" points="{points}"/>'
        for k, mean, low, high in run.curve:
            told = f"{run.run}: pass@{k:.0f} {mean:.1%}, 95 %: {low:.1%} to {high:.1%}"
            lines += draw_mark(mark, (x(k), y(mean) + shift), title=told)
    axis = _PLOT.draw_ticks(x, _list_ks(last_k), "k, hypotheses (logarithmic)")
    label = f"{version}: pass@k of {len(shown)} runs up to k = {last_k:.0f}"
    return _frame(label, f"{_PLOT.draw_shares(y, top)}{axis}{bands}{lines}")


def draw_scatter(version: str, runs: Sequence[RunRow], marks: Marks) -> str:
    """Return each valid problem's pass rate over its whole prompt's length; "" without any.

    A problem whose prompt was cut is hollow. A line joins the mean rates of up to five groups of
    equal size, by length.
    """
    by_run = {run.run: _list_measured(run) for run in runs}
    lengths = [length for points in by_run.values() for length, _ in points]
    if not lengths:
        return ""
    low, high = min(lengths), max(lengths)
    x, y = make_log_scale(_PLOT.x_ends, low, high), _PLOT.scale_y(1.0)
    shown = [run for run in runs if by_run[run.run]]
    dots, lines = "", ""
    for idx, run in enumerate(shown):
        # Equal rates of several runs lie beside each other, not on top.
        step = min(3.0, 2 * _LARGEST_SHIFT / len(shown))
        shift = (idx - (len(shown) - 1) / 2) * step
        mark, points = marks[run.run], by_run[run.run]
        dots += _draw_dots(run, points, (x, lambda rate, by=shift: y(rate) + by), mark)
        lines += _draw_trend(run, points, (x, y), mark)
    axis = _PLOT.draw_ticks(x, choose_ticks(low, high), "whole prompt, tokens (logarithmic)")
    label = f"{version}: pass rate over prompt length, {len(lengths):,} problems, {len(shown)} runs"
    return _frame(label, f"{_PLOT.draw_shares(y, 1.0)}{axis}{dots}{lines}")


def _shift_equal(runs: Sequence[RunRow], y: Scale) -> dict[str, float]:
    """Return how far down each run's curve moves, so that equal ones lie beside each other."""
    groups: list[list[RunRow]] = []
    for run in runs:
        for group in groups:
            if _lie_together(group[0], run, y):
                group.append(run)
                break
        else:
            groups.append([run])
    shifts: dict[str, float] = {}
    for group in groups:
        step = min(_CURVE_STEP, 2 * _LARGEST_SHIFT / len(group))
        for idx, run in enumerate(group):
            shifts[run.run] = (idx - (len(group) - 1) / 2) * step
    return shifts


def _lie_together(one: RunRow, other: RunRow, y: Scale) -> bool:
    """Whether two curves cover each other at every k that both have."""
    heights = {k: y(mean) for k, mean, *_ in one.curve}
    return all(abs(heights[k] - y(mean)) < _NEAR for k, mean, *_ in other.curve if k in heights)


def _list_measured(run: RunRow) -> list[tuple[int, ProblemRow]]:
    return [
        (length, problem)
        for problem in run.problems
        if problem.usable == "yes"
        and problem.pass_rate is not None
        and (length := problem.whole_prompt_tokens)
    ]


def _draw_dots(
    run: RunRow,
    points: Sequence[tuple[int, ProblemRow]],
    scales: tuple[Scale, Scale],
    mark: Mark,
) -> str:
    x, y = scales
    # One dot for all that lie on the same spot, so that many problems draw quickly.
    dots: dict[tuple[int, float, bool], list[str]] = {}
    for length, problem in points:
        is_cut = bool(problem.prompt_tokens_left_out)
        dots.setdefault((length, problem.pass_rate or 0.0, is_cut), []).append(problem.task_id)
    parts: list[str] = []
    for (length, rate, is_cut), task_ids in dots.items():
        told = f"{run.run}, {_list_some(task_ids)}: {length:,} tokens, {rate:.0%}"
        told += ", prompt cut" if is_cut else ""
        style = "dot cut" if is_cut else "dot"
        parts.append(draw_mark(mark, (x(length), y(rate)), title=told, style=style, size=_DOT))
    return "".join(parts)


def _draw_trend(
    run: RunRow,
    points: Sequence[tuple[int, ProblemRow]],
    scales: tuple[Scale, Scale],
    mark: Mark,
) -> str:
    x, y = scales
    num_groups = min(_MOST_GROUPS, len(points) // _LEAST_IN_GROUP)
    ordered = sorted(points, key=lambda point: point[0])
    if num_groups <= 1 or ordered[0][0] == ordered[-1][0]:
        return ""
    ends = [round(idx * len(ordered) / num_groups) for idx in range(num_groups + 1)]
    means: list[tuple[float, float]] = []
    for start, end in itertools.pairwise(ends):
        group = ordered[start:end]
        length = math.exp(sum(math.log(one) for one, _ in group) / len(group))
        means.append((length, sum(problem.pass_rate or 0.0 for _, problem in group) / len(group)))
    line = " ".join(f"{x(length):.1f},{y(mean):.1f}" for length, mean in means)
    parts = [f'<polyline class="line {mark.colour} {mark.dash}" points="{line}"/>']
    for length, mean in means:
        told = f"{run.run}: mean of a group of problems, about {length:,.0f} tokens: {mean:.1%}"
        parts.append(draw_mark(mark, (x(length), y(mean)), title=told))
    return "".join(parts)


def _list_some(task_ids: Sequence[str]) -> str:
    more = len(task_ids) - _NUM_NAMED
    return ", ".join(task_ids[:_NUM_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _list_ks(last_k: float) -> list[float]:
    ticks = [tick for tick in choose_ticks(1.0, last_k) if tick == int(tick)]
    return sorted({*(tick for tick in ticks if tick <= 0.7 * last_k), 1.0, last_k})


def _frame(label: str, body: str) -> str:
    return draw_frame(label, (_PLOT.width, _PLOT.height), body)
