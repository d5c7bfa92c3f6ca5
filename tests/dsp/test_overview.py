"""The report on several runs: the same numbers in every form, and nothing of them is markup."""

import argparse
import csv
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jupyt5.console import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from jupyt5_dsp import arguments
from jupyt5_dsp.cli import main
from jupyt5_dsp.overview.rows import CLASSES, read_run
from jupyt5_dsp.report.words import VERDICT_MEANINGS

from .overview_runs import HOSTILE, write_run


def report(out: Path, *runs: Path) -> str:
    assert main(["report", *map(str, runs), "--out", str(out)]) == EXIT_OK
    return (out / "report.html").read_text()


def list_texts(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_every_verdict_has_one_class() -> None:
    kinds = [kind for kinds in CLASSES.values() for kind in kinds]
    assert sorted(kinds) == sorted(VERDICT_MEANINGS)


def test_a_run_is_read_as_it_is(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "nano"))
    assert run.classes == {
        "passed": 2, "wrong": 1, "syntax": 0, "error": 1, "limits": 0, "not judged": 1,
    }  # fmt: skip
    assert (run.ci95["valid"], run.pass_at_k["all"][1]) == ({1: (0.25, 0.75)}, 0.25)
    # Means over valid problems: B counts in none of them.
    assert (run.prompt_tokens, run.completion_tokens) == (100, 10)
    assert (run.generation_s, run.wall_s, run.num_valid_attempted) == (2.0, 0.75, 1)
    assert [problem.pass_rate for problem in run.problems] == [0.5, 0.0]
    assert [problem.whole_prompt_tokens for problem in run.problems] == [125, 3]


def test_all_forms_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "nano")
    changes: dict[str, Any] = {"suite": "mbpp", "suite_version": "mbpp-v1", "partial": True}
    second = write_run(tmp_path / "other", provider=HOSTILE, **changes)
    out = tmp_path / "overview"
    page = report(out, second, first)
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
    markdown = (out / "report.md").read_text()
    assert "| nano | humaneval-v1 | `jupyt5:nano` | n = 4, T = 0.8 | 1/2 | 50.0% [25.0%" in markdown
    assert "- other was broken off." in markdown
    assert "pass@k over valid problems" in markdown

    # Once in the matrix of providers and suites, once in the table.
    assert list_texts(page).count("50.0% [25.0%, 75.0%]") == 4
    assert "<script" not in page
    assert "&lt;/style&gt;&lt;script&gt;" in page
    assert re.search(r"script-src|https?://", page) is None


def test_runs_csv_has_every_setting(tmp_path: Path) -> None:
    cold = write_run(tmp_path / "cold", settings={"temperature": 0.2, "num_samples": 8})
    given = {"num_samples": None, "model_sha256": None, "options": {"set": "all"}}
    file = write_run(tmp_path / "file", suite="mbpp", settings=given)
    report(tmp_path / "o", cold, file)
    frame = pd.read_csv(tmp_path / "o" / "runs.csv").set_index("run")
    for name, value in {
        "n": 8, "temperature": 0.2, "top_p": 0.95, "top_k": 0, "max_tokens": 256, "seed": 0,
        "prompt_tokens": 8192, "num_context_cells": 3, "num_following_cells": 1,
        "timeout_s": 10.0, "model_sha256": "f00", "num_valid_attempted": 1, "num_distinct": 1,
        "option_presentation": "prompt", "pass_at_1_all_low": 0.1, "pass_at_1_all_high": 0.4,
    }.items():  # fmt: skip
        assert frame.loc["cold", name] == value, name
    for name in ("option_set", "pass_at_1_distinct", "pass_at_1_attempted_low"):
        assert pd.isna(frame.loc["cold", name])
    assert (frame.loc["file", "option_set"], frame.loc["file", "n"]) == ("all", 4)


def test_rows_tell_runs_apart(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "plain"),
        write_run(tmp_path / "cold", settings={"temperature": 0.2}),
        write_run(tmp_path / "md", settings={"options": {"presentation": "markdown"}}),
        write_run(tmp_path / "seed", settings={"seed": 1}, strict=True),
        write_run(tmp_path / "own", suite="squares", suite_version="squares-v1"),
    ]
    page = report(tmp_path / "o", *runs)
    rows = dict(re.findall(r'class="mark .*?</svg>(\w+)</th>.*?"settings">([^<]*)<', page, re.S))
    assert rows == {
        # The default of the suite is not said; of a suite that nobody knows here, all is.
        "plain": "n = 4, T = 0.8, seed 0",
        "cold": "n = 4, T = 0.2, seed 0",
        "md": "n = 4, T = 0.8, presentation=markdown, seed 0",
        "seed": "n = 4, T = 0.8, seed 1, strict",
        "own": "n = 4, T = 0.8, presentation=prompt",
    }


def test_folders_of_one_name_keep_apart(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name) for name in ("a/gold", "b/gold", "b/nano", "b/b/gold")]
    out = tmp_path / "overview"
    page = report(out, *folders, folders[0] / ".." / "gold")
    names = ["a/gold", f"{tmp_path.name}/b/gold", "b/b/gold", "nano"]
    assert sorted(pd.read_parquet(out / "runs.parquet")["run"]) == sorted(names)
    assert set(pd.read_csv(out / "problems.csv")["run"]) == set(names)
    for name in names:
        assert page.count(f">{name}</text>") == 2


def test_runs_with_few_samples_are_marked(tmp_path: Path) -> None:
    problem = {"usable": "yes", "num_samples": 1, "num_correct": 1}
    problems = [{"task_id": "A", **problem}, {"task_id": "B", **problem, "num_samples": 0}]
    rates = {"valid": {"1": 0.5}, "attempted": {"1": 0.99}}
    ends = {"valid": {}, "attempted": {"1": [0.8, 1.0]}}
    changes: dict[str, Any] = {"problems": problems, "num_valid": 2, "pass_at_k": rates}
    few = write_run(tmp_path / "few", ci95=ends, **changes)
    page = report(tmp_path / "o", few, write_run(tmp_path / "whole"))
    assert list_texts(page).count("1 of 2 attempted") == 3  # in a table and two charts
    assert "attempted: 99.0% [80.0%, 100.0%]" in list_texts(page)
    note = "few has samples of 1 of 2 valid problems. The others count as failed"
    markdown = (tmp_path / "o" / "report.md").read_text()
    for text in (page, markdown):
        assert note in text
    assert "| **1 of 2 attempted** | 50.0% |" in markdown
    assert list(pd.read_csv(tmp_path / "o" / "runs.csv")["num_valid_attempted"]) == [1, 1]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "old", settings={"problem_set": "xyz"}, num_problems=7),
        write_run(tmp_path / "now"),
        write_run(tmp_path / "next", suite_version="humaneval-v2"),
    ]
    texts = list_texts(report(tmp_path / "o", *runs))
    assert "different versions of its rules (humaneval-v1, humaneval-v2): do not compare" in texts
    assert "humaneval-v1 are not over the same problems (2 in now; 7 in old)" in texts
    assert "were cut, of valid problems: 1 of 1 in now; 1 of 1 in old; 1 of 1 in next" in texts
    page = report(tmp_path / "o2", runs[1])
    assert "not over the same" not in page
    assert "different versions" not in page


def make_problems(*usable: bool) -> list[dict[str, Any]]:
    reason = "The reference fails: raised ModuleNotFoundError: No module named 'skimage'."
    valid = {"usable": "yes", "reason": "", "num_samples": 1, "num_correct": 1}
    invalid = valid | {"usable": "no", "reason": reason}
    return [
        {"task_id": name, **(valid if one else invalid)}
        for name, one in zip("ABCD", usable, strict=True)
    ]


def test_runs_that_judge_different_problems_are_told_apart(tmp_path: Path) -> None:
    few = write_run(tmp_path / "few", problems=make_problems(True, False, False, False))
    many = write_run(tmp_path / "many", problems=make_problems(True, True, True, False))
    for text in (report(tmp_path / "o", few, many), (tmp_path / "o" / "report.md").read_text()):
        text = text.replace("&#39;", "'")
        assert "few and many judge different problems: 1 and 3 valid, 1 in both." in text
        # The one that nobody can judge makes no difference.
        assert "few cannot judge what others do: 2 no module named 'skimage'." in text
        assert "many cannot judge" not in text
    more = write_run(tmp_path / "more", problems=make_problems(True, True, True, False))
    page = report(tmp_path / "o", few, many, more)
    assert "judge different problems, valid: 1 in few; 3 in many, more; 1 in all." in page
    assert "judge different" not in report(tmp_path / "o", many, more)
    other = write_run(
        tmp_path / "other", problems=make_problems(*[True] * 4), settings={"problem_set": "xyz"}
    )
    assert "judge different" not in report(tmp_path / "o", many, other)


def test_settings_off_the_default_are_said_though_all_share_them(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    arguments.add_run(parser)
    default = parser.get_default("max_tokens")
    runs = [write_run(tmp_path / f"r{n}", settings={"max_tokens": default * 2}) for n in "12"]
    assert f"max tokens {default * 2}<" in report(tmp_path / "o", *runs)
    usual = write_run(tmp_path / "usual", settings={"max_tokens": default})
    assert "max tokens" not in report(tmp_path / "o", usual)


def test_uneven_samples_are_said(tmp_path: Path) -> None:
    problems = make_problems(True, True, True, True)
    for problem, num_samples in zip(problems, (1, 3, 2, 0), strict=True):
        problem["num_samples"] = num_samples
    uneven = write_run(tmp_path / "a", problems=problems, settings={"num_samples": None})
    assert ">n = 1 to 3," in report(tmp_path / "o", uneven)


def test_runs_of_an_older_version_have_no_lengths(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"pass_at_k": {"valid": {}, "all": {}}, "ci95": {"valid": {}}}
    run = write_run(tmp_path / "old", curve=[], **nothing)
    (run / "prompts.jsonl").unlink()
    page = report(tmp_path / "overview", run)
    assert "No run noted the lengths of its prompts" in page
    assert "No run reports any k" in page
    assert "No run has several hypotheses" in page


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


def test_only_own_folders_are_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = write_run(tmp_path / "run"), tmp_path / "foreign"
    out.mkdir()
    report(out, run)  # empty
    (out / "notes.txt").write_text("mine")
    report(out, run)  # of an earlier report
    (out / "runs.csv").unlink()
    before = sorted(path.name for path in out.iterdir())
    for folder, message in ((out, "holds no earlier report"), (out / "notes.txt", "is no folder")):
        assert main(["report", str(run), "--out", str(folder)]) == EXIT_USAGE
        assert message in capsys.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == before
