"""Charts of several runs: everything is inside, nothing is left to colour alone."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from jupyt5_dsp.overview.axes import Plot, choose_ticks
from jupyt5_dsp.overview.charts import draw_classes, draw_rates
from jupyt5_dsp.overview.marks import choose_marks
from jupyt5_dsp.overview.panels import draw_curves, draw_scatter
from jupyt5_dsp.overview.rows import ProblemRow, RunRow, read_run

from .overview_runs import HOSTILE, write_run

PLACE = re.compile(r'class="dot[^>]*translate\((-?[\d.]+) (-?[\d.]+)\)')


@pytest.fixture
def run(tmp_path: Path) -> RunRow:
    return read_run(write_run(tmp_path / "nano"))


def scatter(*runs: RunRow) -> str:
    return draw_scatter("humaneval-v1", runs, choose_marks(runs))


def test_the_scatter_has_whole_prompts(run: RunRow) -> None:
    chart = scatter(run)
    assert "nano, A: 125 tokens, 50%, prompt cut" in chart
    assert 'class="dot cut s0"' in chart
    assert "B:" not in chart  # it is not valid
    assert ">125</text>" in chart  # one length alone has a tick, too


def test_no_problem_is_missing_from_the_scatter(run: RunRow) -> None:
    problem = replace(run.problems[0], prompt_tokens_left_out=None)
    # Equal ones share a dot and are counted in its words.
    apart = [replace(problem, task_id=f"P{n}", prompt_tokens=n) for n in range(1, 2001)]
    equal = [replace(problem, task_id=f"Q{n}", prompt_tokens=3000) for n in range(7)]
    chart = scatter(replace(run, problems=(*apart, *equal)))
    assert len(PLACE.findall(chart)) == 2001
    assert "Q0, Q1, Q2 and 4 more: 3,000 tokens, 50%" in chart
    assert "2,007 problems" in chart
    # Means of five groups of the same size.
    assert len(re.findall(r"mean of a group of problems, about", chart)) == 5


@pytest.mark.parametrize("lengths", [(40,), (40, 41), (1, 9_000_000)])
def test_dots_lie_inside_the_axes(run: RunRow, lengths: tuple[int, ...]) -> None:
    one = run.problems[0]

    def make(task_id: str, tokens: int, num_correct: int) -> ProblemRow:
        return replace(one, task_id=task_id, prompt_tokens=tokens, num_correct=num_correct)

    problems = tuple(make(f"{n} {c}", n, c) for n in lengths for c in (0, 4))
    runs = [replace(run, run=f"r{idx}", problems=problems) for idx in range(24)]
    chart, plot = scatter(*runs), Plot(width=460, height=300)
    places = [(float(x), float(y)) for x, y in PLACE.findall(chart)]
    assert len(places) == 24 * 2 * len(lengths)
    for x, y in places:
        assert plot.left < x - 5 < x + 5 < plot.width - plot.right
        assert plot.top < y < plot.height - plot.bottom


def test_ticks() -> None:
    assert choose_ticks(30, 700) == [50, 100, 200, 500]
    assert choose_ticks(40, 40) == [40]
    assert choose_ticks(110, 190) == [110, 190]
    assert len(choose_ticks(1, 9_000_000)) == 7


def test_no_two_of_24_runs_have_the_same_mark(run: RunRow) -> None:
    runs = [replace(run, run=f"r{idx}", provider=f"p{idx % 12}") for idx in range(24)]
    other = replace(runs[3], run="other", suite_version="mbpp-v1")
    marks = choose_marks([*runs, other])
    assert len({(marks[one.run].colour, marks[one.run].shape) for one in runs}) == 24
    assert marks["other"] == marks["r3"]  # the same provider's first over another suite


def test_rates_stand_by_suite_on_one_axis(run: RunRow) -> None:
    other = replace(run, run="low", suite_version="mbpp-v1", ci95={"valid": {1: (0.0, 0.1)}})
    other = replace(other, pass_at_k={"valid": {}, "attempted": {}})
    charts = draw_rates([run, other], choose_marks([run, other]), 1)
    assert [">100%<" in one or ">80%<" in one for one in charts] == [True, True]
    sure = replace(run, pass_at_k={"valid": {1: 1.0}}, ci95={"valid": {1: (0.9, 1.0)}})
    (chart,) = draw_rates([sure], choose_marks([sure]), 1)
    start = re.search(r'x="([\d.]+)"[^>]*>100.0%<', chart)
    assert start
    # In a wide font, DejaVu Sans of 12 units, "100.0%" is 46 units wide.
    assert float(start[1]) + 46 < 720
    assert "nano: pass@1 50.0%, 95 %: 25.0% to 75.0%" in charts[0]
    assert "humaneval-v1: pass@1 of 1 run</title>" in charts[0]
    assert ">not reported</text>" in charts[1]


def test_curves_have_every_k_and_a_band(run: RunRow) -> None:
    single = replace(run, run="one", curve=run.curve[:1])
    chart = draw_curves("humaneval-v1", [run, single], choose_marks([run, single]))
    assert chart.count("<polygon") == 2
    assert "nano: pass@2 83.3%, 95 %: 50.0% to 90.0%" in chart
    assert "one: pass@1 50.0%" in chart
    assert draw_curves("humaneval-v1", [single], choose_marks([single])) == ""


def test_equal_curves_lie_beside_each_other(run: RunRow) -> None:
    far = tuple((k, 0.1, 0.0, 1.0) for k, *_ in run.curve)
    runs = [replace(run, run=f"r{idx}") for idx in range(3)]
    runs.append(replace(run, run="far", curve=far))
    chart = draw_curves("humaneval-v1", runs, choose_marks(runs))
    heights = [float(y) for y in re.findall(r'points="[\d.]+,([\d.]+) [^"]*"/><path', chart)]
    plot = Plot(width=460, height=300)
    low, middle, high = sorted(heights[:3])
    assert middle == pytest.approx(plot.scale_y(1.0)(0.5), abs=0.1)
    assert (middle - low, high - middle) == pytest.approx((4.0, 4.0), abs=0.11)
    assert heights[3] == pytest.approx(plot.scale_y(1.0)(0.1), abs=0.1)


def test_names_in_charts_are_escaped(run: RunRow) -> None:
    runs = [replace(run, run=HOSTILE, suite_version=HOSTILE, provider=HOSTILE)]
    marks = choose_marks(runs)
    charts = [
        *draw_rates(runs, marks, 1), *draw_classes(runs),
        draw_curves(HOSTILE, runs, marks), draw_scatter(HOSTILE, runs, marks),
    ]  # fmt: skip
    for chart in charts:
        assert "<script" not in chart
        assert "&lt;script" in chart
