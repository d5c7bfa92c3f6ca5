"""A run that is killed or interrupted goes on, and ends as one that never was."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

PROGRAM = "import sys; from jupyt5_dsp.cli import main; sys.exit(main())"
GOLD = "def add(a, b):\n    return a + b\n"
ANSWERS = (
    GOLD,
    "import time\ntime.sleep(0.5)\n" + GOLD,
    "def add(a, b):\n    return 9\n",
    "import os\nos._exit(0)",
    "def add(a, b:",
    "1/0",
)
NUM_NOTEBOOKS = 3
NUM_LINES = NUM_NOTEBOOKS * (len(ANSWERS) + 1)
WAIT_S = 240

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(write_set: Callable[..., Path], tmp_path: Path, sandbox_option: str) -> Iterator[Start]:
    """Begin, or go on with, a run into a folder."""
    notebooks = {
        f"repo{idx}/n.ipynb": [("code", GOLD), ("code", f"assert add({idx}, 1) == {idx + 1}")]
        for idx in range(NUM_NOTEBOOKS)
    }
    problems = [
        {"task_id": f"T/{idx}", "notebook_path": path, "cell_index": 0}
        for idx, path in enumerate(notebooks)
    ]
    root = write_set(notebooks, problems)
    tasks = [problem["task_id"] for problem in problems]
    samples = tmp_path / "samples.jsonl"
    lines = [{"task_id": task, "completion": text} for task in tasks for text in ANSWERS]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "tmp").mkdir()
    begun: list[subprocess.Popen[str]] = []

    def begin(out: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", PROGRAM, "run", "--problems", str(root), "-k", "1"]
        command += ["--samples", str(samples), "--out", str(tmp_path / out)]
        command += ["--workers", "2", "--sandbox", sandbox_option]
        environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def finish(process: "subprocess.Popen[str]", code: int = 0) -> None:
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, errors
    assert "Traceback" not in errors


def count_lines(out: Path) -> int:
    """Return how many findings and verdicts are there so far."""
    files = [out / name for name in ("validation.jsonl", "verdicts.jsonl")]
    return sum(len(path.read_bytes().splitlines()) for path in files if path.is_file())


def has_lines(out: Path, num_lines: int) -> bool:
    return count_lines(out) >= num_lines


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def read_keys(out: Path) -> list[str]:
    lines = (out / "verdicts.jsonl").read_text().splitlines()
    return [json.loads(line)["input_key"] for line in lines]


def find_descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found, new = set[int](), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= new
    return found


def all_gone(pids: set[int]) -> bool:
    return not any(Path("/proc", str(pid)).exists() for pid in pids)


def test_killed_at_any_moment(start: Start, tmp_path: Path) -> None:
    finish(start("whole"))
    whole, out = tmp_path / "whole", tmp_path / "killed"
    generator = random.Random(0)
    points = sorted(generator.sample(range(1, NUM_LINES - 2), 3))
    for point in points:
        process = start("killed")
        wait_for(partial(has_lines, out, point))
        time.sleep(generator.random() / 4)
        descendants = find_descendants(process.pid)
        process.kill()
        process.communicate()
        wait_for(partial(all_gone, descendants))
    assert 0 < count_lines(out) < NUM_LINES
    finish(start("killed"))
    assert (out / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert sorted(read_keys(out)) == sorted(read_keys(whole))
    assert len(set(read_keys(out))) == NUM_NOTEBOOKS * len(ANSWERS)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_is_reported_and_goes_on(
    sent: signal.Signals, start: Start, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start("run")
    wait_for(partial(has_lines, out, NUM_NOTEBOOKS + 1))
    descendants = find_descendants(process.pid)
    process.send_signal(sent)
    finish(process, 130)
    wait_for(partial(all_gone, descendants))
    assert list((tmp_path / "tmp").iterdir()) == []
    done = read_keys(out)
    results = json.loads((out / "results.json").read_text())
    assert results["partial"] is True
    assert sum(results["verdict_counts"].values()) == len(done) < NUM_NOTEBOOKS * len(ANSWERS)
    assert is_labelled(out)
    finish(start("run"))
    assert json.loads((out / "results.json").read_text())["partial"] is False
    assert not is_labelled(out)
    assert read_keys(out)[: len(done)] == done
    assert len(set(read_keys(out))) == len(read_keys(out)) == NUM_NOTEBOOKS * len(ANSWERS)


def is_labelled(out: Path) -> bool:
    return "broken off" in (out / "report.html").read_text()
