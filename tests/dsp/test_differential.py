"""Verdicts do not depend on whether a sample is forked or gets a fresh process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.sandbox import choose_sandbox

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "benchmarks" / "differential.py"
SHARED = ROOT.parent / "shared" / "data" / "dsp"
NUM_NOTEBOOKS = 20


def compare(problems: Path, out: Path, *options: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(problems), "--out", str(out), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(autouse=True)
def need_sandbox() -> None:
    try:
        choose_sandbox("auto", find_interpreter())
    except ExecutionError as exc:
        pytest.skip(str(exc))


def test_twenty_notebooks_of_the_shared_set(tmp_path: Path) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    few = [
        "--notebooks",
        str(NUM_NOTEBOOKS),
        "--per-notebook",
        "1",
        "--each",
        "1",
        "--workers",
        "2",
    ]
    code, found = compare(SHARED, tmp_path / "out.jsonl", *few, "--timeout-s", "3")
    assert found["differing"] == []
    assert found["num_notebooks"] == NUM_NOTEBOOKS
    assert found["num_compared"] == sum(found["num_by_kind"].values()) == 4 * NUM_NOTEBOOKS  # pyright: ignore
    assert code == 0


def test_a_difference_is_found_and_a_broken_run_goes_on(add_set: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    code, found = compare(add_set, out, "--kinds", "reference")
    assert (code, found["num_compared"], found["num_differing"]) == (0, 2, 0)
    lines = out.read_text().splitlines()
    assert len(lines) == 4
    # One verdict is another one, and another is cut in the middle.
    record = json.loads(lines[0])
    lines[0] = json.dumps({**record, "verdict": "wrong"})
    out.write_text("\n".join(lines)[:-9])
    code, found = compare(add_set, out, "--kinds", "reference")
    assert (code, found["num_compared"], found["num_differing"]) == (1, 2, 1)
    assert len(out.read_text().splitlines()) == 4
