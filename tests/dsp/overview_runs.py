"""Files of small runs, for the tests of the report on several."""

import json
from pathlib import Path
from typing import Any

__all__ = ["HOSTILE", "write_run"]

HOSTILE = "</style><script>alert(1)</script> | x"
SAMPLING = {"temperature": 0.8, "top_p": 0.95, "top_k": 0, "max_tokens": 256}


def make_settings(**changes: Any) -> dict[str, Any]:
    settings = {
        "problem_set": "abc",
        "seed": 0,
        "timeout_s": 10.0,
        "options": {"presentation": "prompt"},
        "num_samples": 4,
        "sampling": SAMPLING,
        "prompt_tokens": 8192,
        "num_context_cells": 3,
        "num_following_cells": 1,
        "model_sha256": "f00",
    }
    sampling = {name: changes.pop(name) for name in SAMPLING if name in changes}
    return settings | changes | {"sampling": SAMPLING | sampling}


def write_run(folder: Path, *, settings: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write the files of a run over two problems, A in 2 of 4 samples right, B not usable."""
    problems = [
        {"task_id": "A", "usable": "yes", "num_samples": 4, "num_correct": 2},
        {"task_id": "B", "usable": "no", "num_samples": 1, "num_correct": 0},
    ]
    results = {
        "suite": "humaneval",
        "suite_version": "humaneval-v1",
        "provider": "jupyt5:nano",
        "settings": make_settings(**(settings or {})),
        "partial": False,
        "strict": False,
        "num_problems": 2,
        "num_valid": 1,
        "num_distinct": 1,
        "num_samples": 5,
        "pass_at_k": {"valid": {"1": 0.5, "2": 5 / 6}, "all": {"1": 0.25, "2": 5 / 12}},
        "ci95": {"valid": {"1": [0.25, 0.75], "2": None}, "all": {"1": [0.1, 0.4]}},
        "curve": [[1, 0.5, 0.25, 0.75], [2, 5 / 6, 0.5, 0.9]],
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
        | {"generation_s": 2.0, "num_left_out": 25},
        {"task_id": "B", "num_chars": 9, "num_tokens": 3, "is_estimate": True},
    ]
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results))
    for name, lines in (("samples", samples), ("verdicts", verdicts), ("prompts", prompts)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    return folder
