"""The hand-over to dsp-eval: by files, one at a time, taken up again, never in the way."""

import json
import os
import shutil
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jupyt5.errors import TrainingError
from jupyt5.model.checkpoint import CheckpointMeta, write_meta
from jupyt5.model.seq2seq import build_model, save_model
from jupyt5_training import handover as handover_module
from jupyt5_training.arrays import load_data_tokenizer
from jupyt5_training.handover import DspHandover, HandoverConfig
from jupyt5_training.recipes import Recipe

# Stands for both commands: says what it was asked, and makes what would be made.
STUB = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
  *crash*) echo "boom" ; exit 1 ;;
  *slow*) sleep 60 ;;
esac
while [ $# -gt 0 ]; do
  [ "$1" = --out ] && out="$2"
  shift
done
case "$out" in
  */run) mkdir -p "$out"; cp {results} "$out/results.json" ;;
  */int8) mkdir "$out" ;;
esac
"""
RESULTS = {
    "pass_at_k": {"valid": {"1": 0.25, "10": 0.5, "100": None}},
    "ci95": {"valid": {"1": [0.1, 0.4], "10": None}},
    "num_valid": 8,
    "num_samples": 80,
}


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    folder = tmp_path / "problems"
    folder.mkdir()
    (folder / "problems.jsonl").write_text("{}\n")
    return folder


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the commands; what they were asked comes into the file returned."""
    path, results = tmp_path / "calls.txt", tmp_path / "results.json"
    path.touch()
    results.write_text(json.dumps(RESULTS))
    stub = tmp_path / "stub"
    stub.write_text(STUB.format(calls=path, results=results))
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(handover_module, "_find_command", lambda name: [str(stub), name])
    return path


def save_file(folder: Path) -> None:
    (folder / "model.safetensors").write_text("weights")


def test_a_step_is_exported_validated_and_graded(
    problems: Path, calls: Path, tmp_path: Path
) -> None:
    handover = DspHandover(tmp_path / "run", HandoverConfig(problems=problems, limit=7))
    handover.start(1000, save_file)
    assert handover.finish() == [
        {
            "step": 1000,
            "dsp_pass_at_1": 0.25,
            "dsp_pass_at_1_low": 0.1,
            "dsp_pass_at_1_high": 0.4,
            "dsp_pass_at_10": 0.5,
            "dsp_num_valid": 8,
            "dsp_num_samples": 80,
        }
    ]
    export, validate, grade = calls.read_text().splitlines()
    job = tmp_path / "run" / "dsp" / "step-00001000"
    assert export == f"jupyt5 export {job}/model --out {job}/int8"
    assert validate.startswith(f"dsp-eval validate {problems}")
    assert f"--provider jupyt5:{job}/int8 -n 10 -k 1,10" in grade
    for command in (validate, grade):
        assert "--sandbox auto" in command
        assert "--limit 7" in command
    assert sorted(path.name for path in job.iterdir()) == ["log.txt", "run"]
    assert handover.poll() == []


def test_only_the_newest_waits(
    problems: Path, calls: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    handover = DspHandover(tmp_path / "run", HandoverConfig(problems=problems))
    for step in (1, 2, 3, 3):
        handover.start(step, save_file)
    assert [record["step"] for record in handover.finish()] == [1, 3]
    assert "step-00000002 is left out" in caplog.text
    assert not (tmp_path / "run" / "dsp" / "step-00000002").exists()


def test_a_failure_is_told_and_the_next_one_runs(
    problems: Path, calls: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = HandoverConfig(problems=problems, sandbox="crash")
    handover = DspHandover(tmp_path / "run", bad)
    handover.start(1, save_file)
    assert handover.finish() == []
    assert "dsp-eval of step-00000001 failed: boom" in caplog.text
    assert not (tmp_path / "run" / "dsp" / "step-00000001" / "model").exists()
    handover = DspHandover(tmp_path / "run", replace(bad, sandbox="auto"))
    handover.start(2, save_file)
    assert [record["step"] for record in handover.finish()] == [2]


def test_a_stopped_run_takes_its_evaluation_up_again(
    problems: Path, calls: Path, tmp_path: Path
) -> None:
    slow = HandoverConfig(problems=problems, sandbox="slow")
    handover = DspHandover(tmp_path / "run", slow)
    started_s = time.monotonic()
    handover.start(5, save_file)
    while "validate" not in calls.read_text():
        handover.poll()
        time.sleep(0.01)
    assert handover.poll() == []
    handover.close()
    assert time.monotonic() - started_s < 20
    handover = DspHandover(tmp_path / "run", replace(slow, sandbox="auto"))
    assert [record["step"] for record in handover.finish()] == [5]


def test_a_save_that_fails_leaves_nothing(problems: Path, calls: Path, tmp_path: Path) -> None:
    handover = DspHandover(tmp_path / "run", HandoverConfig(problems=problems))

    def save_nothing(folder: Path) -> None:
        message = "disk full"
        raise OSError(message)

    with pytest.raises(OSError, match="disk full"):
        handover.start(1, save_nothing)
    assert handover.finish() == []
    assert not list((tmp_path / "run" / "dsp").glob("step-*/*"))


def test_what_is_missing_is_said_at_once(
    problems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingError, match=r"no problems\.jsonl"):
        DspHandover(tmp_path / "run", HandoverConfig(problems=tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainingError, match="is not installed here"):
        DspHandover(tmp_path / "run", HandoverConfig(problems=problems))


@pytest.mark.slow
@pytest.mark.kernel
def test_a_real_one(data: Path, recipe: Recipe, tmp_path: Path) -> None:
    """A model with random weights, exported, and graded on one small problem."""
    if not shutil.which("dsp-eval"):
        pytest.skip("dsp-eval is not on the path")
    cells = [
        ("markdown", "Write `add`."),
        ("code", "def add(a, b):\n    return a + b"),
        ("code", "assert add(2, 3) == 5\nassert add(0, 0) == 0"),
    ]
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
        "cells": [
            {"cell_type": kind, "id": f"cell-{idx}", "metadata": {}, "source": source}
            | ({"execution_count": None, "outputs": []} if kind == "code" else {})
            for idx, (kind, source) in enumerate(cells)
        ],
    }
    problems = tmp_path / "problems"
    problems.mkdir()
    (problems / "add.ipynb").write_text(json.dumps(notebook))
    problem = {"task_id": "T/0", "notebook_path": "add.ipynb", "cell_index": 1}
    (problems / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    tokenizer = load_data_tokenizer(data)

    def save(folder: Path) -> None:
        shape = replace(recipe.model, vocab_size=tokenizer.vocab_size)
        save_model(build_model(shape, tokenizer.special, seed=0), folder)
        tokenizer.save(folder / "tokenizer.json")
        write_meta(folder, CheckpointMeta(name="tiny", formatter=recipe.examples.formatter))

    config = HandoverConfig(problems=problems, num_samples=2, sandbox="none")
    handover = DspHandover(tmp_path / "run", config)
    handover.start(3, save)
    (record,) = handover.finish()
    assert record["step"] == 3
    assert record["dsp_pass_at_1"] == 0
    assert record["dsp_num_valid"] == 1
    assert record["dsp_num_samples"] == 2
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
