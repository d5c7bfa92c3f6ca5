"""Ctrl-C while a model decodes ends the process with 130, wherever it falls."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_NUM_TRIES = 6
# A test run in the background of a script ignores interrupts, and so would its children.
_HEAR = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
_RUN = "import sys; from jupyt5_dsp.cli import main; sys.exit(main(sys.argv[1:]))"
_FILL = """
import os, signal, sys
from jupyt5.cli import main
from jupyt5.model.ct2_engine import Ct2Engine

decode = Ct2Engine.decode

def decode_interrupted(*args):
    for step in decode(*args):
        os.kill(os.getpid(), signal.SIGINT)
        yield step

Ct2Engine.decode = decode_interrupted
sys.exit(main(sys.argv[1:]))
"""
# An interrupt while the thread that decodes is waited for: it goes on, and Python ends.
_BROKEN_OFF = """
import sys, threading
from jupyt5.model.decoding import DecodeRequest
from jupyt5.providers import load_provider

class Interrupting(threading.Thread):
    def join(self, timeout=None):
        if self.name == "jupyt5-decode" and not interrupted:
            interrupted.append(1)
            raise KeyboardInterrupt
        super().join(timeout)

interrupted = []
engine = load_provider("jupyt5:nano")._engine
threading.Thread = Interrupting
request = DecodeRequest(source_ids=list(range(20, 400)), n=16, max_tokens=400)
steps = engine.decode(request, threading.Event())
next(steps)
try:
    steps.close()
except KeyboardInterrupt:
    print("Interrupted.")
    sys.exit(130)
"""


def test_python_ends_after_the_decoding_thread() -> None:
    _check(_start(_BROKEN_OFF, []))


def test_a_run_that_is_interrupted_while_it_asks_a_model(tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    rows = [
        {
            "task_id": f"T/{idx}",
            "prompt": f'def add(a, b):\n    """Return the sum of a, b and {idx}."""\n',
            "canonical_solution": f"    return a + b + {idx}\n",
            "entry_point": "add",
            "test": f"def check(candidate):\n    assert candidate(2, 3) == {5 + idx}\n",
        }
        for idx in range(60)
    ]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    chance = random.Random(1)
    for idx in range(_NUM_TRIES):
        out = tmp_path / f"run {idx}"
        argv = ["run", "--suite", "humaneval", "--problems", str(problems), "--out", str(out)]
        argv += ["--provider", "jupyt5:nano", "-n", "4", "-k", "1", "--max-tokens", "24"]
        process = _start(_RUN, argv)
        _wait_for_lines(out / "samples.jsonl", 4 * idx + 4, process)
        time.sleep(chance.random() * 0.01)
        process.send_signal(signal.SIGINT)
        _check(process)


def test_a_fill_that_is_interrupted(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "source": "import numpy as np"}, {**cell, "source": ""}]
    path = tmp_path / "a.ipynb"
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    path.write_text(json.dumps(notebook))
    argv = ["fill", str(path), "--cell", "1", "-n", "16", "--max-tokens", "400"]
    _check(_start(_FILL, argv))


def _start(code: str, argv: list[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _HEAR + code, *argv]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )


def _wait_for_lines(path: Path, num_lines: int, process: "subprocess.Popen[str]") -> None:
    while process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= num_lines:
            return
        time.sleep(0.001)


def _check(process: "subprocess.Popen[str]") -> None:
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Interrupted." in said
    assert "terminate" not in said
