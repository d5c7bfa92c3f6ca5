"""The page: complete, self-contained, and safe to open."""

import json
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.curve import choose_ks, draw_curve
from jupyt5_dsp.report import write_report

SCOPES = ("valid", "distinct", "all", "attempted")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def write_run(path: Path) -> Path:
    problem = {
        "task_id": "T/0",
        "notebook": HOSTILE,
        "num_samples": 2,
        "num_correct": 1,
        "reference": "passed",
        "usable": "yes",
        "reason": "",
    }
    bad = {**problem, "task_id": "T/1", "usable": "vacuous", "reason": HOSTILE}
    scope = {"1": 0.5}
    results = {
        "suite": "dsp",
        "suite_version": "dsp-v1",
        "provider": HOSTILE,
        "settings": {"x": HOSTILE},
        "environment": {"python": "3"},
        "num_problems": 2,
        "num_valid": 1,
        "num_distinct": 1,
        "num_attempted": 2,
        "num_left_out": 0,
        "num_samples": 4,
        "pass_at_k": {name: scope for name in SCOPES},
        "ci95": {name: {"1": [0.25, 0.75]} for name in SCOPES},
        "blocked_k": {
            "valid": {"100": {"reason": "too few", "num_blocking": 1, "task_ids": [HOSTILE]}}
        },
        "curve": [[1, 0.5, 0.25, 0.75], [2, 0.6, 0.3, 0.8]],
        "verdict_counts": {"passed": 1, "wrong": 1},
        "passed_with_flag": {HOSTILE: 1},
        "usable_counts": {"yes": 1, "vacuous": 1},
        "problems": [problem, bad],
    }
    verdict = {
        "task_id": "T/0",
        "verdict": "wrong",
        "message": HOSTILE,
        "output_head": HOSTILE,
        "traceback": HOSTILE,
    }
    path.mkdir()
    (path / "results.json").write_text(json.dumps(results))
    (path / "verdicts.jsonl").write_text(json.dumps(verdict) + "\n")
    return path


def test_hostile_texts_are_escaped_and_nothing_is_loaded(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page


def test_page_says_what_it_must(tmp_path: Path) -> None:
    page = write_report(write_run(tmp_path / "run")).read_text(encoding="utf-8")
    for text in (
        "pass@1 = 50.0%",
        "1 valid of 2 problems",
        "<svg",
        "pass@100",
        "too few",
        "Not usable here (1)",
        "[0.2500, 0.7500]",
    ):
        assert text in page


def test_unfinished_run(tmp_path: Path) -> None:
    with pytest.raises(ProblemSetError, match=r"no results\.json"):
        write_report(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    (tmp_path / "verdicts.jsonl").write_text("")
    with pytest.raises(ProblemSetError, match="is damaged"):
        write_report(tmp_path)


def test_curve() -> None:
    assert choose_ks(1) == [1]
    ks = choose_ks(100)
    assert ks[0] == 1
    assert ks[-1] == 100
    assert ks == sorted(set(ks))
    assert "no valid problem" in draw_curve([])
    assert "polyline" in draw_curve([[1, 0.5, 0.5, 0.5]])
