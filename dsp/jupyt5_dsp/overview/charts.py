"""Charts with a line a run, under a heading a suite; the style sheet has the colours."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from markupsafe import escape

from jupyt5_dsp.overview.axes import choose_top, draw_frame, draw_text
from jupyt5_dsp.overview.marks import Mark, draw_mark
from jupyt5_dsp.overview.names import group_runs, name_providers
from jupyt5_dsp.overview.rows import CLASSES, RunRow
from jupyt5_dsp.overview.words import word_attempted

__all__ = ["draw_classes", "draw_rates"]

_WIDTH = 720
_NAMES = 290
_RIGHT, _BOTTOM = 68, 28  # "100.0%" has room after the longest interval
_HEADING, _ROW = 30, 38
_LONGEST = 38
_LETTER = 6.6  # about a letter's width

# Of one run, at the height of its line's middle.
DrawRow = Callable[[RunRow, float], str]


def draw_rates(runs: Sequence[RunRow], marks: Mapping[str, Mark], k: int) -> list[str]:
    """Return, for each suite, pass@k of its runs over valid problems, with the intervals.

    All have the same axis.
    """
    ends = [run.ci95["valid"].get(k, (0.0, 0.0))[1] for run in runs]
    top = choose_top(max([*ends, *(run.pass_at_k["valid"].get(k, 0.0) for run in runs)]))

    def x(share: float) -> float:
        return _NAMES + share / top * (_WIDTH - _NAMES - _RIGHT)

    def draw_row(run: RunRow, y: float) -> str:
        value, ends = run.pass_at_k["valid"].get(k), run.ci95["valid"].get(k)
        if value is None:
            return draw_text(x(0) + 6, y + 4, "not reported")
        told, line = f"{run.run}: pass@{k} {value:.1%}", ""
        if ends:
            told += f", 95 %: {ends[0]:.1%} to {ends[1]:.1%}"
            colour = marks[run.run].colour
            line = f'<path class="whisker {colour}" d="M{x(ends[0]):.1f} {y}H{x(ends[1]):.1f}"/>'
        mark = draw_mark(marks[run.run], (x(value), y), title=told)
        return line + mark + draw_text(x(ends[1] if ends else value) + 9, y + 4, f"{value:.1%}")

    return list(_iter_charts(f"pass@{k}", runs, (x, top), draw_row))


def draw_classes(runs: Sequence[RunRow]) -> list[str]:
    """Return, for each suite, the shares of failure classes among each run's samples, stacked."""

    def x(share: float) -> float:
        return _NAMES + share * (_WIDTH - _NAMES - _RIGHT)

    def draw_row(run: RunRow, y: float) -> str:
        total, at, parts = sum(run.classes.values()) or 1, 0.0, list[str]()
        for number, kind in enumerate(CLASSES):
            share = run.classes[kind] / total
            if share:
                told = f"{run.run}, {kind}: {run.classes[kind]:,} ({share:.1%})"
                parts.append(
                    f'<rect class="c{number}" x="{x(at):.1f}" y="{y - 11:.1f}" '
                    f'width="{x(at + share) - x(at):.1f}" height="22">'
                    f"<title>{escape(told)}</title></rect>"
                )
            if x(at + share) - x(at) > _LETTER * (len(kind) + 1):
                middle = (x(at) + x(at + share)) / 2
                parts.append(draw_text(middle, y + 4, kind, anchor="middle", style="inside"))
            at += share
        return "".join(parts)

    return list(_iter_charts("verdicts by class", runs, (x, 1.0), draw_row))


def _iter_charts(
    label: str,
    runs: Sequence[RunRow],
    axis: tuple[Callable[[float], float], float],
    draw_row: DrawRow,
) -> Iterator[str]:
    (x, top), names = axis, name_providers(runs)
    shares = [top * step / 4 for step in range(5)]
    for version, group in group_runs(runs).items():
        bottom = _HEADING + _ROW * len(group)
        lines = "".join(f"M{x(share):.1f} {_HEADING}V{bottom}" for share in shares)
        parts = [draw_text(0, 18, version, style="heading"), f'<path class="grid" d="{lines}"/>']
        for idx, run in enumerate(group):
            end, middle = _NAMES - 14, _HEADING + (idx + 0.5) * _ROW
            name, attempted = _cut(names[run.provider], _LONGEST), word_attempted(run)
            about = f" · {attempted}" if attempted else ""
            about = _cut(run.run, _LONGEST - len(about)) + about
            parts.append(draw_text(end, middle - 3, name, anchor="end", style="name"))
            parts.append(draw_text(end, middle + 12, about, anchor="end"))
            parts.append(draw_row(run, middle))
        for share in shares:
            parts.append(draw_text(x(share), bottom + 16, f"{100 * share:g}%", anchor="middle"))
        title = f"{version}: {label} of {len(group)} run{'s' if len(group) != 1 else ''}"
        yield draw_frame(title, (_WIDTH, bottom + _BOTTOM), "".join(parts))


def _cut(name: str, longest: int) -> str:
    """Keep the end of a name, which says more than its beginning."""
    return name if len(name) <= longest else f"…{name[1 - longest :]}"
