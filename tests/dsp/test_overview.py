"""The report on several runs: the same numbers in every form, and nothing of them is markup."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jupyt5.console import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from jupyt5_dsp.cli import main
from jupyt5_dsp.overview.charts import draw_scatter
from jupyt5_dsp.overview.rows import CLASSES, read_run
from jupyt5_dsp.report.view import VERDICT_MEANINGS

HOSTILE = "</style><script>alert(1)</script> | x"


def write_run(folder: Path, **changes: Any) -> Path:
    """Write the files of a run over two problems, A in 2 of 4 samples right, B not usable."""
    problems = [
        {"task_id": "A", "usable": "yes", "num_samples": 4, "num_correct": 2},
        {"task_id": "B", "usable": "no", "num_samples": 1, "num_correct": 0},
    ]
    results = {
        "suite": "humaneval",
        "suite_version": "humaneval-v1",
        "provider": "jupyt5:nano",
        "settings": {"options": {"presentation": "prompt"}},
        "partial": False,
        "strict": False,
        "num_problems": 2,
        "num_valid": 1,
        "num_samples": 5,
        "pass_at_k": {"valid": {"1": 0.5, "2": 5 / 6}, "all": {"1": 0.25, "2": 5 / 12}},
        "ci95": {"valid": {"1": [0.25, 0.75], "2": None}, "all": {}},
        "verdict_counts": {"passed": 2, "wrong": 1, "exit": 1, "invalid": 1},
        "problems": problems,
        **changes,
    }
    samples = [{"task_id": "A", "completion": "x" * 35}] * 4
    verdicts = [
        {"task_id": "A", "sample_idx": idx, "wall_s": 0.5 * idx, "cpu_s": 0.1} for idx in range(4)
    ]
    # An earlier verdict on a sample that was run again does not count.
    verdicts.insert(0, {"task_id": "A", "sample_idx": 3, "wall_s": 99.0, "cpu_s": 99.0})
    prompts = [
        {"task_id": "A", "num_chars": 400, "num_tokens": 100, "is_estimate": False}
        | {"generation_s": 2.0},
        {"task_id": "B", "num_chars": 9, "num_tokens": 3, "is_estimate": True},
    ]
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results))
    for name, lines in (("samples", samples), ("verdicts", verdicts), ("prompts", prompts)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    return folder


def test_every_verdict_has_one_class() -> None:
    kinds = [kind for kinds in CLASSES.values() for kind in kinds]
    assert sorted(kinds) == sorted(VERDICT_MEANINGS)


def test_a_run_is_read_as_it_is(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "nano"))
    assert run.classes == {
        "passed": 2, "wrong": 1, "syntax": 0, "error": 1, "limits": 0, "not judged": 1,
    }  # fmt: skip
    assert (run.ci95, run.pass_at_k_all[1]) == ({1: (0.25, 0.75)}, 0.25)
    # Means over valid problems: B counts in none of them.
    assert (run.prompt_tokens, run.completion_tokens) == (100, 10)
    assert (run.generation_s, run.wall_s) == (2.0, 0.75)
    assert [problem.pass_rate for problem in run.problems] == [0.5, 0.0]


def test_all_forms_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "nano")
    second = write_run(tmp_path / "other", suite="mbpp", provider=HOSTILE, partial=True)
    out = tmp_path / "overview"
    assert main(["report", str(second), str(first), "--out", str(out)]) == EXIT_OK
    assert capsys.readouterr().out.strip() == str(out / "report.html")
    frame = pd.read_parquet(out / "runs.parquet")
    assert list(frame["suite"]) == ["humaneval", "mbpp"]
    assert list(frame["pass_at_1_high"]) == [0.75, 0.75]
    with (out / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["pass_at_2_low"] for row in rows] == ["", ""]
    assert rows[1]["provider"] == HOSTILE
    problems = pd.read_parquet(out / "problems.parquet")
    assert list(problems["run"] + "/" + problems["task_id"]) == [
        "nano/A", "nano/B", "other/A", "other/B",
    ]  # fmt: skip
    assert "| 50.0% [25.0%, 75.0%] | 83.3% |" in (out / "report.md").read_text()

    page = (out / "report.html").read_text()
    assert page.count("50.0% [25.0%, 75.0%]") == 2
    assert "<script" not in page
    assert "&lt;/style&gt;&lt;script&gt;" in page
    assert len(re.findall(r'<circle class="dot ', page)) == 2
    assert "A: 100 tokens, 50%" in page
    assert "pass@1 50.0%, 95 %: 25.0% to 75.0%" in page
    assert re.search(r"script-src|https?://", page) is None


def test_runs_of_one_provider_keep_apart(tmp_path: Path) -> None:
    options = [{"options": {"presentation": name}} for name in ("prompt", "markdown")]
    runs = [write_run(tmp_path / f"r{idx}", settings=one) for idx, one in enumerate(options)]
    out = tmp_path / "overview"
    assert main(["report", *map(str, runs), "--out", str(out)]) == EXIT_OK
    page = (out / "report.html").read_text()
    for name in ("humaneval, jupyt5:nano (r0)", "humaneval, jupyt5:nano (r1)"):
        assert page.count(f">{name}</text>") == 2
    assert "presentation=markdown" in page


def test_folders_of_one_name_keep_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in ("a/gold", "b/gold", "b/nano", "b/b/gold")]
    out = tmp_path / "overview"
    argv = ["report", *map(str, folders), str(folders[0] / ".." / "gold"), "--out", str(out)]
    assert main(argv) == EXIT_OK
    names = ["a/gold", f"{tmp_path.name}/b/gold", "b/b/gold", "nano"]
    assert sorted(pd.read_parquet(out / "runs.parquet")["run"]) == sorted(names)
    assert set(pd.read_csv(out / "problems.csv")["run"]) == set(names)
    page = (out / "report.html").read_text()
    for name in names:
        assert f"({name})</text>" in page


def test_no_problem_is_missing_from_the_scatter(tmp_path: Path) -> None:
    row = read_run(write_run(tmp_path / "run"))
    problem = row.problems[0]
    # Equal ones share a dot and are counted in its words.
    apart = [replace(problem, task_id=f"P{n}", prompt_tokens=n) for n in range(1, 2001)]
    equal = [replace(problem, task_id=f"Q{n}", prompt_tokens=3000) for n in range(7)]
    chart = draw_scatter([replace(row, problems=(*apart, *equal))])
    assert chart.count('<circle class="dot ') == 2001
    assert "Q0, Q1, Q2 and 4 more: 3,000 tokens, 50%" in chart
    assert "2007 problems of 1 runs" in chart


def test_runs_of_an_older_version_have_no_lengths(tmp_path: Path) -> None:
    run = write_run(tmp_path / "old", pass_at_k={"valid": {}, "all": {}}, ci95={"valid": {}})
    (run / "prompts.jsonl").unlink()
    out = tmp_path / "overview"
    assert main(["report", str(run), "--out", str(out)]) == EXIT_OK
    page = (out / "report.html").read_text()
    assert "No run noted the lengths of its prompts" in page
    assert "No run reports any k" in page


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    assert main(["report", str(first), str(second)]) == EXIT_USAGE
    assert "--out is missing" in capsys.readouterr().err
    assert main(["report", str(first), "--out", str(second)]) == EXIT_USAGE
    assert "is the folder of a run" in capsys.readouterr().err
    (second / "results.json").write_text('{"suite": "dsp"}')
    assert main(["report", str(first), str(second), "--out", str(tmp_path / "o")]) == EXIT_FAILED
    assert "damaged or of an older version" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
