"""The page: complete, self-contained, small, and safe to open."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5.hypotheses.codebleu import explain_missing
from jupyt5_dsp.cli import main
from jupyt5_dsp.curve import choose_ks
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.report import write_references, write_report
from jupyt5_dsp.report.charts import RatePoint, correlate, draw_curve, draw_rates

SCOPES = ("valid", "distinct", "all", "attempted")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\ud800"
ESCAPED = "&lt;/script&gt;&lt;script&gt;alert(1)"
RAISED = "solution cell raised"


def make_results(**changes: Any) -> dict[str, Any]:
    problem = {
        "task_id": "T/0",
        "notebook": HOSTILE,
        "num_samples": 3,
        "num_correct": 1,
        "reference": "passed",
        "usable": "yes",
        "reason": "",
        "grading_key": "a",
        "cluster": 0,
    }
    bad = {**problem, "task_id": "T/1", "usable": "vacuous", "reason": HOSTILE, "num_samples": 0}
    results = {
        "suite": "dsp",
        "suite_version": "dsp-v1",
        "provider": HOSTILE,
        "settings": {"x": HOSTILE},
        "environment": {"python": "3"},
        "strict": False,
        "partial": False,
        "num_problems": 2,
        "num_valid": 1,
        "num_distinct": 1,
        "num_attempted": 2,
        "num_left_out": 0,
        "num_samples": 3,
        "pass_at_k": {name: {"1": 0.5} for name in SCOPES},
        "ci95": {name: {"1": [0.25, 0.75]} for name in SCOPES},
        "blocked_k": {
            "valid": {"100": {"reason": "too few", "num_blocking": 1, "task_ids": [HOSTILE]}}
        },
        "curve": [[1, 0.5, 0.25, 0.75], [2, 0.6, 0.3, 0.8]],
        "best_of_n": {"num_problems": 1, "num_left_out": 0, "curve": [[1, 0.5, 0.2, 0.7]]},
        "verdict_counts": {"passed": 1, "wrong": 2},
        "passed_with_flag": {HOSTILE: 1, RAISED: 1},
        "num_suspect_passes": 0,
        "usable_counts": {"yes": 1, "vacuous": 1},
        "problems": [problem, bad],
    }
    return results | changes


def write_run(path: Path, **changes: Any) -> Path:
    path.mkdir()
    (path / "results.json").write_text(json.dumps(make_results(**changes)))
    samples = [
        {"task_id": "T/0", "sample_idx": idx, "completion": HOSTILE, "mean_logprob": -0.5}
        for idx in range(3)
    ]
    verdicts = [
        {
            "task_id": "T/0",
            "sample_idx": idx,
            "verdict": "passed" if idx == 1 else "wrong",
            "flags": [HOSTILE] if idx == 1 else [],
            "message": HOSTILE,
            "output_head": "\x1b[31mred\x1b[0m",
            "traceback": "t" * 5000,
            "isolation": "fork" if idx else "kernel",
            "isolation_reason": "" if idx else HOSTILE,
            "cold_rerun": idx == 2,
            "wall_s": 0.1,
        }
        for idx in (2, 0, 1)
    ]
    stale = {**verdicts[0], "verdict": "error"}
    for name, records in (("samples", samples), ("verdicts", [stale, *verdicts])):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (path / f"{name}.jsonl").write_text(text + '{"cut of')
    return path


def read_block(page: str, name: str) -> Any:
    (text,) = re.findall(f'<script type="application/octet-stream" id="{name}">([^<]*)<', page)
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_hostile_texts_are_escaped_and_nothing_is_loaded(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "<img" not in page
    assert ESCAPED in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_policy_names_the_one_script_and_the_one_style_sheet(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "innerHTML" not in script
    assert not re.search(r"<[^>]+ (style|on\w+)=", page.replace(script, ""))


def test_page_says_what_it_must(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    for text in (
        "50.0%",
        "25.0% to 75.0%",
        "1 of 2 problems are valid",
        "Every problem has samples",
        "pass@100 over “valid”: too few: ",
        "undefined for a problem with fewer than k",
        f"of these, {RAISED}",
        "an assertion of a grading cell failed",
        "highest mean log-likelihood",
        "Few independent clusters of valid problems (1): rough intervals.",
        "timeouts run again cold",
        "[0.2500, 0.7500]",
        "<svg",
    ):
        assert text in page, text
    for absent in ("Partial report", "Strict.", "No sandbox"):
        assert absent not in page


def test_banners(tmp_path: Path) -> None:
    changes = {
        "partial": True,
        "strict": True,
        "num_suspect_passes": 7,
        "environment": {"sandbox": "none"},
        "num_samples": 2,
    }
    page = write_report(write_run(tmp_path / "run", **changes)).read_text(encoding="utf-8")
    assert "2 of 3 samples are graded" in " ".join(page.split())
    assert "count as failed: 7 in this run" in " ".join(page.split())
    assert "No sandbox." in page


def test_many_clusters_need_no_caution(tmp_path: Path) -> None:
    problem = make_results()["problems"][0]
    problems = [problem | {"task_id": f"T/{idx}", "cluster": idx} for idx in range(20)]
    page = write_report(write_run(tmp_path / "run", problems=problems)).read_text(encoding="utf-8")
    assert "rough intervals" not in page
    few = write_run(tmp_path / "few", problems=problems[1:])
    assert "valid problems (19): rough" in write_report(few).read_text(encoding="utf-8")


def test_every_sample_is_there_with_its_texts_once(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    first, second = read_block(page, "index")
    assert first["verdicts"] == [["passed", 1], ["wrong", 2]]
    assert (first["flagged"], first["places"]) == (1, [[0, 0, 3]])
    assert second["places"] == []
    (part,) = read_block(page, "b0")
    assert [row[:2] for row in part["samples"]] == [[0, "wrong"], [1, "passed"], [2, "wrong"]]
    assert part["texts"].count(HOSTILE) == 1
    texts = {name: part["texts"][part["samples"][0][at]] for name, at in (("out", 4), ("tb", 5))}
    assert texts["out"] == "red"
    assert texts["tb"].startswith("[… 2,000 more characters")
    assert texts["tb"].endswith("t" * 3000)


def test_references_come_from_the_problem_set(tmp_path: Path, add_set: Path) -> None:
    run = write_run(tmp_path / "run")
    write_references(run, load_problem_set(add_set))
    part = read_block(write_report(run).read_text(encoding="utf-8"), "b0")[0]
    assert part["prefix"] == "# your code here\n\n"
    assert part["reference"] == "def add(a, b):\n    return a + b\n"
    assert part["grading"] == ["assert add(2, 3) == 5\nassert add(0, 0) == 0\n"]


@pytest.mark.skipif(bool(explain_missing()), reason=f"codebleu: {explain_missing()}")
def test_few_problems_have_no_rank_correlation(tmp_path: Path, add_set: Path) -> None:
    run = write_run(tmp_path / "run")
    write_references(run, load_problem_set(add_set))
    sample = {"task_id": "T/0", "completion": "def add(a, b):\n    return b + a\n"}
    (run / "samples.jsonl").write_text((json.dumps(sample) + "\n") * 3)
    page = write_report(run).read_text(encoding="utf-8")
    assert "1 problem); too few for a rank correlation, which takes 10" in page


def test_command_takes_a_problem_set(
    tmp_path: Path, add_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    assert main(["report", str(run), "--problems", str(add_set)]) == 0
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    assert "def double" in (run / "references.jsonl").read_text()


def test_page_stays_small_whatever_the_samples_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyt5_dsp.report.write.pack_samples", _pack_into(60_000))
    run = write_run(tmp_path / "run")
    samples = [
        {"task_id": "T/0", "completion": hashlib.sha512(str(idx).encode()).hexdigest() * 30}
        for idx in range(600)
    ]
    verdicts = [{"task_id": "T/0", "sample_idx": idx, "verdict": "wrong"} for idx in range(600)]
    for name, records in (("samples", samples), ("verdicts", verdicts)):
        lines = [json.dumps(record) + "\n" for record in records]
        (run / f"{name}.jsonl").write_text("".join(lines))
    page = write_report(run).read_text(encoding="utf-8")
    assert len(page) < 120_000
    assert "holds at most 80 characters of a source" in page
    (part,) = read_block(page, "b0")
    assert len(part["samples"]) == 600


def _pack_into(budget_bytes: int) -> Any:
    from jupyt5_dsp.report.blocks import pack_samples

    return lambda *args: pack_samples(*args, budget_bytes=budget_bytes)


def test_unfinished_and_damaged_runs(tmp_path: Path) -> None:
    with pytest.raises(ProblemSetError, match=r"no results\.json"):
        write_report(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ProblemSetError, match="is damaged"):
        write_report(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ProblemSetError, match="is damaged"):
        write_report(tmp_path)
    run = write_run(tmp_path / "run")
    (run / "verdicts.jsonl").write_text('{"task_id": "T/0"}\nnot json\n')
    with pytest.raises(ProblemSetError, match=r"verdicts\.jsonl, line 2"):
        write_report(run)


def test_curve_and_rates() -> None:
    assert choose_ks(1) == [1]
    ks = choose_ks(100)
    assert (ks[0], ks[-1]) == (1, 100)
    assert ks == sorted(set(ks))
    assert draw_curve([], []) == ""
    assert draw_rates([]) == ""
    curve = draw_curve([[1, 0.03, 0.02, 0.04]], [])
    assert ">5%<" in curve  # The axis ends where the values do.
    points = [RatePoint(f"P{idx}", idx / 10, 1 - idx / 10) for idx in range(10)]
    assert correlate(points) == pytest.approx(-1)
    assert correlate(points[:9]) is None
    assert correlate([RatePoint("P", 0.5, 0.5)] * 10) is None
    assert draw_rates([*points, RatePoint("Q", 0.0, None)]).count("dot-b") == 10
