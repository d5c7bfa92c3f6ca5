"""The page of a run: what it shows, what it leaves out, and that it loads nothing."""

import json
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

from jupyt5.errors import TrainingError
from jupyt5_training.metrics import METRICS_NAME
from jupyt5_training.run_report import write_report
from jupyt5_training.run_report.charts import Chart, Line, draw_chart, format_number
from jupyt5_training.run_report.series import bin_values, read_history, smooth

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


def make_run(run: Path, num_steps: int = 900, *, name: str = "nano") -> Path:
    """Write a run's files as the loop does."""
    run.mkdir(parents=True, exist_ok=True)
    recipe = {"name": name, "steps": num_steps, "optimizer": {"peak_lr": 1e-3}}
    (run / "recipe.json").write_text(json.dumps({"recipe": recipe, "data_sha256": "ab" * 32}))
    draw = np.random.default_rng(0)
    lines: list[str] = []
    for step in range(1, num_steps + 1):
        record = {
            "step": step,
            "loss": 2 + 7 * math.exp(-step / 90) + 0.1 * float(draw.normal()),
            "lr": 1e-3 * min(1, step / 100),
            "grad_norm": float(draw.lognormal()),
            "tokens": 7900,
            "target_tokens": 2000,
            "pad_fraction": 0.04,
            "step_s": 2.0,
            "data_wait_s": 0.02,
            "tokens_per_s": 3950.0,
            "mfu": 0.36,
            "rank_step_s": [1.9, 2.0],
            "loss_scale": 65536.0,
        }
        lines.append(json.dumps(record))
        if step % 300 == 0:
            lines.append(
                json.dumps(
                    {
                        "step": step,
                        "tokens_seen": 7900 * step,
                        "validation_loss": 3 - step / 1000,
                        "validation_code_loss": 2.5 - step / 1000,
                        "validation_markdown_loss": 3.5 - step / 1000,
                        "exact_match": 0.05,
                        "codebleu": 0.3,
                    }
                )
            )
    lines.append(
        json.dumps(
            {
                "step": num_steps,
                "dsp_pass_at_1": 0.1,
                "dsp_pass_at_1_low": 0.05,
                "dsp_pass_at_1_high": 0.2,
                "dsp_num_valid": 20,
            }
        )
    )
    lines.append(json.dumps({"step": 450, "event": "rollback", "detail": HOSTILE}))
    lines.append(json.dumps({"step": 300, "event": "order", "detail": "c0ffee"}))
    (run / METRICS_NAME).write_text("\n".join(lines) + "\n")
    return run


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(make_run(tmp_path_factory.mktemp("run"))).read_text("utf-8")


def test_every_figure_has_its_chart(page: str) -> None:
    titles = re.findall(r"<figure>\s*<h3>(.*?)</h3>", page)
    assert titles == [
        "Loss",
        "Learning rate",
        "Held-out code cells, decoded greedily",
        "dsp-eval on a few problems",
        "Speed",
        "Model FLOPs utilisation",
        "Time of a step by rank",
        "Wait for data",
        "Padding",
        "Gradient norm",
        "Loss scale",
    ]
    for name in ("held out", "held out, code", "held out, markdown", "slowest rank", "pass@1"):
        assert name in page


def test_headline_and_table(page: str) -> None:
    cards = dict(re.findall(r"<h3>(.*?)</h3>\s*<p class=\"value\">(.*?)</p>", page))
    assert cards == {
        "Held-out loss": "2.1000",
        "Speed": "3,950",
        "Padding": "4.0%",
        "Wait for data": "1.0%",
    }
    assert "36.0% of the device" in page
    assert "step 900 of 900" in page
    assert "Not finished" not in page
    # The validation and the dsp-eval of step 900 are one row.
    assert page.count('<td class="n">900</td>') == 1
    assert "optimizer.peak_lr" in page


def test_the_page_asks_for_nothing_and_texts_are_texts(page: str) -> None:
    assert not re.search(r"(?:src|href)\s*=", page.replace("img src=x", ""))
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert HOSTILE not in page
    assert page.count("<script") == 2
    # Rollbacks are marked in each chart, the routine fingerprint is not.
    assert page.count('class="event"') == 11


def test_a_run_at_work_and_an_old_log(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 40)
    record = json.loads((run / "recipe.json").read_text())
    record["recipe"] |= {"steps": 4000, "name": HOSTILE}
    (run / "recipe.json").write_text(json.dumps(record))
    lines = [json.dumps({"step": step, "loss": 5.0, "step_s": 1.5}) for step in range(1, 41)]
    (run / METRICS_NAME).write_text("\n".join(lines) + '\n{"step": 41, "lo')
    page = write_report(run).read_text("utf-8")
    assert "Not finished" in page
    assert "about 99 min to go" in page
    assert HOSTILE not in page
    assert re.findall(r"<figure>\s*<h3>(.*?)</h3>", page) == ["Loss", "Time of a step"]


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1)
    (run / METRICS_NAME).write_text("")
    assert "step 0 of 1" in write_report(run).read_text("utf-8")


@pytest.mark.parametrize("content", [None, "{", "[]", '{"recipe": 1}'])
def test_what_is_no_run_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(TrainingError, match=re.escape(str(tmp_path))):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_bins_keep_extremes_and_gaps() -> None:
    at = np.arange(1, 1001, dtype=np.float64)
    values = np.zeros(1000)
    values[500] = 9.0
    values[:10] = math.nan
    bins = bin_values(at, values, 100)
    assert len(bins.at) == 100
    assert np.isnan(bins.mean[0])
    assert bins.high.max(initial=0, where=np.isfinite(bins.high)) == 9.0
    assert bins.mean[50] == pytest.approx(0.9)
    assert bins.low[50] == 0.0
    assert smooth(np.array([1.0, math.nan, 3.0]), 3).tolist() == [1.0, 2.0, 3.0]
    assert len(bin_values(at[:150], values[:150], 100).at) == 75  # all of one size
    short = bin_values(at[:3], np.array([1.0, 2.0, 3.0]), 100)
    assert short.mean.tolist() == [1.0, 2.0, 3.0]


def test_charts_stay_in_their_frame() -> None:
    at = np.array([1.0, 500.0, 1000.0])
    line = Line(name="loss", at=at, values=np.array([1e6, 3.0, 2.0]))
    chart = Chart(title="Loss", note="", unit="", lines=[line], clips="start")
    svg = draw_chart(chart, idx=0, last_step=1000)
    assert ">3<" in svg  # the axis ends near 3, not at a million
    assert ">1,000,000<" not in svg
    spiky = np.full(300, 3.0)
    spiky[100] = 1e6
    line = Line(name="speed", at=np.arange(1.0, 301.0), values=spiky)
    chart = Chart(title="Speed", note="", unit="", lines=[line], clips="peaks")
    assert ">1,000,000<" not in draw_chart(chart, idx=0, last_step=300)
    for constant in (0.0, 5.0, -1.0):
        flat = Line(name="flat", at=at, values=np.full(3, constant))
        for is_log in (False, True):
            chart = Chart(title="x", note="", unit="", lines=[flat], is_log=is_log)
            assert "nan" not in draw_chart(chart, idx=0, last_step=1000)
    gap = Line(name="gap", at=at, values=np.array([1.0, math.nan, 2.0]), has_dots=True)
    svg = draw_chart(Chart(title="x", note="", unit="", lines=[gap]), idx=0, last_step=1000)
    assert svg.count("<circle") == 2
    assert "<polyline" not in svg


def test_numbers() -> None:
    assert [format_number(value) for value in (0, 0.00125, 12.3456, 1234.5)] == [
        "0",
        "0.00125",
        "12.35",
        "1,234",
    ]


@pytest.mark.slow
def test_a_run_of_the_papers_length_is_quick(tmp_path: Path) -> None:
    """216,000 steps, 5 epochs of the paper's corpus."""
    run = make_run(tmp_path / "run", 216_000)
    start_s = time.process_time()
    path = write_report(run)
    assert time.process_time() - start_s < 15
    assert path.stat().st_size < 1_000_000
    assert len(read_history(run).steps["loss"]) == 216_000
