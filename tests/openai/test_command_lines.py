"""openai: on the command line: what is wrong is said in one line, Ctrl-C ends everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jupyt5.cli import main

from .servers import Exchange, answer_with, serving


@pytest.fixture
def notebook(tmp_path: Path) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "Add."},
        {"cell_type": "code", "metadata": {}, "source": "", "outputs": [], "execution_count": None},
    ]
    path = tmp_path / "a.ipynb"
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_fill_asks_a_server(notebook: str, capsys: pytest.CaptureFixture[str]):
    with serving(answer_with("x = ", "1")) as server:
        uri = f"openai:m@{server.base_url}"
        assert main(["fill", notebook, "--cell", "1", "--provider", uri, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["provider"], found["hypotheses"][0]["text"]) == (uri, "x = 1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", "0.0.0.0"], "Give a token"),
        (["--parallel", "0"], "--parallel 0 is less than 1"),
        (["--port", "70000"], "--port must be"),
        (["--host", "nowhere.invalid", "--token", "x"], "cannot be listened on"),
        (["--provider", "nonsense", "--port", "0"], "not a provider URI"),
    ],
)
def test_serve_refuses(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", *arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_fill_that_waits_for_a_server(notebook: str):
    asked, left = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> None:
        asked.set()
        exchange.sock.settimeout(10)
        assert exchange.sock.recv(1) == b""
        left.set()

    with serving(answer) as server:
        code = "import sys; from jupyt5.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "fill", notebook, "--cell", "1"]
        with subprocess.Popen(
            [*command, "--provider", f"openai:m@{server.base_url}"],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        ) as process:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=10)
        assert process.returncode == 130
        assert said == "Interrupted.\n"
        assert left.wait(2)
