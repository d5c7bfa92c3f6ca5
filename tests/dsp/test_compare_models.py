"""The script that compares models: draws that go on where they stopped, one row a file."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "compare_models.py"

pytestmark = pytest.mark.slow


def call(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_two_models_in_one_table(
    write_set: Callable[..., Path], tmp_path: Path, sandbox_option: str
) -> None:
    cells = [
        ("code", "xs = [1, 2, 3]"),
        ("code", "total = sum(xs)"),
        ("code", "assert total == 6"),
    ]
    problems = [
        {"task_id": f"T/{idx}", "notebook_path": f"{idx}.ipynb", "cell_index": 1} for idx in (0, 1)
    ]
    root = write_set({f"{idx}.ipynb": cells for idx in (0, 1)}, problems)
    draw = ("generate", "--problems", root)
    copied, honest = tmp_path / "copied.jsonl", tmp_path / "honest.jsonl"
    for out, text, options in (
        (copied, "total%20=%206", ("--greedy", "--label", "copier")),
        (honest, "total%20=%20sum(xs)", ("-n", 10, "--distinct", 1)),
    ):
        made = call(*draw, "--provider", f"fake:text={text}", *options, "--out", out)
        assert made.returncode == 0, made.stderr
    before = copied.read_text(), (tmp_path / "copied.times.jsonl").read_text()
    again = ("--provider", "fake:text=total%20=%206", "--greedy", "--label", "copier")
    assert call(*draw, *again, "--out", copied).returncode == 0
    assert (copied.read_text(), (tmp_path / "copied.times.jsonl").read_text()) == before
    other = call(*draw, "--provider", "fake:", "--greedy", "--out", copied)
    assert other.returncode == 2
    assert "other settings" in other.stderr

    out = tmp_path / "out"
    options = ("--", "--workers", 1, "--sandbox", sandbox_option)
    made = call("grade", copied, honest, "--problems", root, "--out", out, *options)
    assert made.returncode == 0, made.stderr
    first, second = json.loads((out / "table.json").read_text())
    assert first["label"] == "copier"
    assert first["pass_at_k"]["distinct"] == {"1": 1.0}
    assert (first["num_passes"], first["share_repeating_constants"]) == (2, 1.0)
    assert second["pass_at_k"]["distinct"] == {"1": 1.0, "10": 1.0}
    assert (second["num_passes"], second["share_repeating_constants"]) == (10, 0.0)
    assert second["num_problems"] == 1
    assert first["seconds_per_cell"]["median"] >= 0
    assert "| copier | greedy | 3 | 1 | 1 | 100.0 [2.5, 100.0] |" in (out / "table.md").read_text()
    assert len((out / "samples.jsonl").read_text().splitlines()) <= 4  # equal ones run once
