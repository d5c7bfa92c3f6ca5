"""The ablation's table and plot, from runs that are made up."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "ablation.py"


@pytest.fixture(scope="module")
def ablation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ablation", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["ablation"] = module
    spec.loader.exec_module(module)
    return module


def make_run(folder: Path, *, context: int, following: int, gain: float, model: str = "m") -> Path:
    """A run over 30 problems in 10 clusters, ten hypotheses each."""
    draw = np.random.default_rng(1)
    chances = np.clip(draw.beta(0.5, 2, size=30) + gain, 0, 1)
    problems: list[dict[str, Any]] = [
        {
            "task_id": f"T/{idx}",
            "notebook": f"n{idx % 10}.ipynb",
            "num_samples": 10,
            "num_correct": int(np.random.default_rng(idx).binomial(10, chances[idx])),
            "usable": "yes",
            "grading_key": f"g{idx}",
            "cluster": idx % 10,
        }
        for idx in range(30)
    ]
    results = {
        "settings": {
            "num_context_cells": context,
            "num_following_cells": following,
            "model_sha256": model,
        },
        "problems": problems,
    }
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def make_losses(path: Path, *, shift: float = 0.0) -> Path:
    ids = np.arange(100, 140)
    rows: list[dict[str, Any]] = []
    for context, following in ((1, 0), (1, 1), (3, 0), (3, 1)):
        mean = 2.5 - 0.1 * context - 0.2 * following + shift
        nll = ids * (mean + 0.1 * np.sin(np.arange(40)))
        value = float(nll.sum() / ids.sum())
        notebooks = np.stack([nll, ids], axis=1).tolist()
        band = [value - 0.02, value + 0.02]
        rows.append(
            {
                "num_context_cells": context,
                "num_following_cells": following,
                "validation_loss": value,
                "validation_code_loss": value,
                "ci95": {"validation_loss": band, "validation_code_loss": band},
                "notebooks": {"all": notebooks, "code": notebooks},
            }
        )
    path.write_text(json.dumps({"settings": rows}))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    settings = ((3, 1, 0.3), (1, 0, 0.0), (3, 0, 0.1), (1, 1, 0.2))
    return [
        str(make_run(tmp_path / f"c{c}f{f}", context=c, following=f, gain=gain))
        for c, f, gain in settings
    ]


def test_table_and_plot(
    ablation: ModuleType, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = make_losses(tmp_path / "losses.json")
    other = make_losses(tmp_path / "other.json", shift=-0.3)
    markdown = make_run(tmp_path / "markdown", context=3, following=1, gain=0.35, model="n")
    out = tmp_path / "out"
    pair = ["--pair", f"full={runs[0]}", f"Markdown={markdown}"]
    pair += ["--pair-losses", str(losses), str(other)]
    assert ablation.main([*runs, "--losses", str(losses), *pair, "--out", str(out)]) == 0
    table = capsys.readouterr().out
    assert (out / "ablation.md").read_text() == table
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    assert rows == [
        "| model",
        "| C = 1, no following cell",
        "| C = 1, one following cell",
        "| C = 3, no following cell",
        "| C = 3, one following cell",
        "| full",
        "| Markdown",
        "| gained by",
        "| following cell, C = 1",
        "| following cell, C = 3",
        "| C = 3 for 1, without following cell",
        "| C = 3 for 1, with following cell",
        "| Markdown for full",
    ]
    assert "-0.200 [-0.200, -0.200]" in table  # the following cell's loss, paired
    assert "-0.300 [-0.300, -0.300]" in table
    found = json.loads((out / "ablation.json").read_text())
    gained = found["contrasts"][1]["pass_at_k"]["valid"]["1"]
    assert gained["difference"] > 0.1
    assert gained["ci95"][0] < gained["difference"] < gained["ci95"][1]
    assert (out / "ablation.png").stat().st_size > 20_000


def test_the_table_of_a_comparison_serves_too(
    ablation: ModuleType, runs: list[str], tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = []
    for run in runs:
        results = json.loads((Path(run) / "results.json").read_text())
        names = ("task_id", "num_samples", "num_correct", "grading_key", "cluster")
        outcomes = [
            {**{name: problem[name] for name in names}, "valid": problem["usable"] == "yes"}
            for problem in results["problems"]
        ]
        row = {**results["settings"], "provider": "jupyt5:nano", "outcomes": outcomes}
        rows += [{**row, "greedy": False}, {**row, "greedy": True}]
    table = tmp_path / "table.json"
    table.write_text(json.dumps(rows))
    assert ablation.main([str(table), "--out", str(tmp_path / "table")]) == 0
    assert ablation.main([*runs, "--out", str(tmp_path / "runs")]) == 0
    written = [(tmp_path / name / "ablation.json").read_text() for name in ("table", "runs")]
    assert written[0] == written[1]


def test_without_losses(ablation: ModuleType, runs: list[str], tmp_path: Path) -> None:
    assert ablation.main([*runs, "--out", str(tmp_path / "out")]) == 0
    assert "| n/a | n/a |" in (tmp_path / "out" / "ablation.md").read_text()


def test_what_does_not_belong_together_is_refused(
    ablation: ModuleType, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert ablation.main([*runs[:3], runs[0], *out]) == 1
    assert "wanted are" in capsys.readouterr().err
    other = make_run(tmp_path / "other", context=1, following=1, gain=0, model="n")
    assert ablation.main([*runs[:3], str(other), *out]) == 1
    assert "different models" in capsys.readouterr().err
    assert ablation.main([*runs[:3], str(tmp_path), *out]) == 1
    assert "no results.json" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
