"""Whole runs on real kernels: stale outputs, teacher forcing, resume, reports."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyt5_dsp.cli import main

pytestmark = pytest.mark.kernel

Run = Callable[..., dict[str, Any]]
RIGHT = {
    "T/0": "def add(a, b):\n    return a + b\n",
    "T/1": "def double(a):\n    return 2 * a\n",
}


@pytest.fixture
def run(
    add_set: Path, tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> Run:
    def call(
        completions: Sequence[tuple[str, str]] | None = None,
        *argv: str,
        out: str = "run",
        code: int = 0,
    ) -> dict[str, Any]:
        command = ["run", "--problems", str(add_set), "--sandbox", sandbox_option, "--json"]
        command += ["--out", str(tmp_path / out), *argv]
        if completions is not None:
            samples = tmp_path / f"{out}.jsonl"
            records = [{"task_id": task, "completion": text} for task, text in completions]
            samples.write_text("".join(json.dumps(record) + "\n" for record in records))
            command += ["--samples", str(samples)]
        assert main(command) == code
        text = capsys.readouterr().out
        return json.loads(text) if text else {}

    return call


def verdicts(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "verdicts.jsonl").read_text().splitlines()]


def test_gold_passes_everywhere(run: Run, tmp_path: Path) -> None:
    results = run(None, "--samples", "gold")
    assert results["pass_at_k"]["valid"] == {"1": 1.0}
    assert results["num_valid"] == results["num_problems"] == 2
    assert results["settings"]["ks"] == [1]
    assert results["blocked_k"] == {}
    folder = tmp_path / "run"
    for name in ("samples.jsonl", "verdicts.jsonl", "results.json", "timing.json", "report.html"):
        assert (folder / name).stat().st_size
    assert json.loads((folder / "results.json").read_text()) == results
    fields = {
        "task_id",
        "sample_idx",
        "verdict",
        "flags",
        "message",
        "output_head",
        "traceback",
        "input_key",
        "isolation",
        "isolation_reason",
        "cold_rerun",
        "wall_s",
        "cpu_s",
    }
    assert all(set(record) == fields for record in verdicts(folder))


def test_stale_outputs_never_pass(run: Run, tmp_path: Path) -> None:
    bad = [
        "while True:\n    pass",
        "1/0",
        "import os\nos._exit(0)",
        "import os\nos.kill(os.getpid(), 9)",
    ]
    results = run([("T/0", text) for text in bad], "--timeout-s", "2", "--workers", "2")
    assert results["verdict_counts"] == {"died": 2, "error": 1, "timeout": 1}
    assert results["pass_at_k"]["attempted"]["1"] == 0
    assert results["num_left_out"] == 1


def test_teacher_forcing(run: Run, add_set: Path) -> None:
    before = (add_set / "repo" / "add.ipynb").read_bytes()
    results = run(
        [
            ("T/0", "def add(a, b):\n    return 0\n"),
            ("T/1", RIGHT["T/1"]),
            ("T/1", "def double(a):\n    return add(a, a)\n"),
            # Text that looks like a notebook does not move the grading cell.
            ("T/1", '"""\n# %%\n", "cell_type": "code"}, {\n"""\nassert False'),
        ]
    )
    problems = {problem["task_id"]: problem for problem in results["problems"]}
    assert problems["T/0"]["num_correct"] == 0
    assert (problems["T/1"]["num_correct"], problems["T/1"]["num_samples"]) == (2, 3)
    assert (add_set / "repo" / "add.ipynb").read_bytes() == before


def test_samples_do_not_see_the_reference_or_each_other(run: Run) -> None:
    peek = "import pathlib\nassert 'return a + b' not in pathlib.Path('add.ipynb').read_text()\n"
    write = (
        "import pathlib\nassert not pathlib.Path('left').exists()\npathlib.Path('left').touch()\n"
    )
    results = run([("T/0", text + RIGHT["T/0"]) for text in (peek, write, write)])
    assert results["verdict_counts"] == {"passed": 3}
    # Honest or not: who opens a notebook may be after its grading cells.
    assert results["passed_with_flag"] == {"suspect: grading cell read": 1}


def test_solution_that_raises_but_passes_has_its_own_count(run: Run) -> None:
    results = run([("T/0", RIGHT["T/0"] + "raise SystemExit")])
    assert results["passed_with_flag"] == {"solution cell raised": 1}


def test_results_do_not_depend_on_workers_or_order(run: Run, tmp_path: Path) -> None:
    completions = [("T/0", RIGHT["T/0"]), ("T/1", "x"), ("T/0", "pass"), ("T/1", RIGHT["T/1"])]
    first = run(completions, "--workers", "1", "-k", "1,2", out="one")
    samples = str(tmp_path / "one.jsonl")
    second = run(None, "--samples", samples, "--workers", "3", "-k", "1,2", out="three")
    assert first == second
    assert first["pass_at_k"]["valid"] == {"1": 0.5, "2": 1.0}


def test_run_goes_on_where_it_was_broken_off(run: Run, tmp_path: Path) -> None:
    completions = [("T/0", RIGHT["T/0"]), ("T/0", "pass"), ("T/1", RIGHT["T/1"])]
    results = run(completions)
    path = tmp_path / "run" / "verdicts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1][: len(lines[1]) // 2])
    (tmp_path / "run" / "results.json").unlink()
    assert run(completions) == results
    assert path.read_text().startswith(lines[0])
    assert len(path.read_text().splitlines()) == 3


def test_other_settings_need_another_folder(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(None, "--samples", "gold")
    run(None, "--samples", "gold", "--timeout-s", "5", code=2)


def test_provider_end_to_end(run: Run, tmp_path: Path) -> None:
    answer = (
        "def%20add(a,b):%0A%20%20%20%20return%20a%2Bb%0Adef%20double(a):%0A%20%20%20%20return%202*a"
    )
    argv = ["--provider", f"fake:text={answer}", "-n", "2"]
    results = run(None, *argv, "-k", "1,2")
    assert results["pass_at_k"]["valid"] == {"1": 1.0, "2": 1.0}
    assert results["settings"]["num_samples"] == 2
    # Budgets are no part of what a run is: all is kept, and only the results are made anew.
    kept = ["run.json", "samples.jsonl", "validation.jsonl", "verdicts.jsonl"]
    before = [(tmp_path / "run" / name).stat().st_mtime_ns for name in kept]
    again = run(None, *argv)
    assert [(tmp_path / "run" / name).stat().st_mtime_ns for name in kept] == before
    assert again["pass_at_k"]["valid"] == {"1": 1.0}
    assert again["settings"] == {**results["settings"], "ks": [1]}


def test_a_cut_set_says_so(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    gold = ["--samples", "gold"]
    assert "limit" not in run(None, *gold, "--limit", "2", out="whole")["settings"]
    findings = str(tmp_path / "whole" / "validation.jsonl")
    results = run(None, *gold, "--limit", "1", "--validation", findings)
    assert (results["settings"]["limit"], results["num_problems"]) == (1, 1)
    assert "do not hold here" not in caplog.text
    assert run(None, *gold, "--limit", "1") == results
    run(None, *gold, "--limit", "2", code=2)


def test_samples_in_fences_are_hinted_at(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    fenced = f"```python\n{RIGHT['T/0']}```"
    results = run([("T/0", fenced), ("T/0", RIGHT["T/0"])])
    assert results["verdict_counts"] == {"passed": 1, "syntax": 1}
    assert "1 of 2 samples hold Markdown fences" in caplog.text


def test_validation_file_is_reused(
    run: Run,
    add_set: Path,
    tmp_path: Path,
    sandbox_option: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "validation.jsonl"
    argv = ["validate", str(add_set), "--out", str(out), "--sandbox", sandbox_option]
    assert main([*argv, "--timeout-s", "10"]) == 0
    capsys.readouterr()
    run(None, "--samples", "gold", "--validation", str(out))
    assert (tmp_path / "run" / "validation.jsonl").read_text() == out.read_text()


# `JUPYT5_TEST_PYTHONS=path:path` names interpreters that have IPython.
OTHERS = [text for text in os.environ.get("JUPYT5_TEST_PYTHONS", "").split(os.pathsep) if text]


@pytest.mark.parametrize(
    "path",
    OTHERS or [pytest.param("", marks=pytest.mark.skip(reason="JUPYT5_TEST_PYTHONS is not set"))],
)
def test_another_interpreter_executes(path: str, run: Run) -> None:
    version = subprocess.run(
        [path, "-c", "import platform; print(platform.python_version())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    asked = f"import platform\nassert platform.python_version() == {version!r}\n"
    completions = [("T/0", asked + RIGHT["T/0"]), ("T/0", "pass"), ("T/1", asked + RIGHT["T/1"])]
    results = run(completions, "--python", path)
    assert results["verdict_counts"] == {"error": 1, "passed": 2}
    assert results["environment"]["python"] == version
    assert results["num_valid"] == 2


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_no_process_and_can_go_on(
    sent: signal.Signals, add_set: Path, tmp_path: Path, sandbox_option: str
) -> None:
    samples = tmp_path / "samples.jsonl"
    slow = "import time\ntime.sleep(60)\n"
    lines = [{"task_id": "T/0", "completion": RIGHT["T/0"]}, {"task_id": "T/0", "completion": slow}]
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-c",
        "import sys; from jupyt5_dsp.cli import main; sys.exit(main())",
    ]
    command += ["run", "--problems", str(add_set), "--samples", str(samples), "--out", str(out)]
    command += ["--timeout-s", "100", "--workers", "1", "--sandbox", sandbox_option]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        if (out / "verdicts.jsonl").is_file() and (out / "verdicts.jsonl").read_text():
            break
        time.sleep(0.2)
    time.sleep(3)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    kept = "keeps 2 samples, 2 findings on problems, 1 verdicts: repeat the command to go on"
    assert f"Interrupted. {out} {kept}" in errors
    assert [record["verdict"] for record in verdicts(out)] == ["passed"]
    assert not [*tmp_path.glob("j5-*"), *tmp_path.glob("jupyt5-*")]
    assert not find_processes(str(tmp_path))


def find_processes(marker: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(command.decode(errors="replace"))
    return found
