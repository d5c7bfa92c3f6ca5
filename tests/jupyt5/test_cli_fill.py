"""`jupyt5 fill`: what it prints, what it writes, and what it says when something is wrong."""

import errno
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jupyt5.cli import main
from jupyt5.notebook import read_notebook

ANSWER = "def add3(a, b, c):\n    return add(add(a, b), c)"


def fake(text: str = ANSWER, *options: str) -> str:
    return "fake:" + "&".join([f"text={quote(text)}", *options])


def cell(kind: str, source: str, **fields: object) -> dict[str, Any]:
    of_code = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source, **of_code, **fields}


def save(path: Path, *cells: dict[str, Any], **fields: object) -> Path:
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **fields}
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return save(
        tmp_path / "n.ipynb",
        cell("code", "def add(a, b): return a + b"),
        cell("markdown", "Add three numbers with the helper above; call it `add3`."),
        cell("code", "", metadata={"tags": ["keep"]}, execution_count=3),
        cell("code", "assert add3(1, 2, 3) == 6"),
        cell("raw", "raw"),
    )


def fill(notebook: Path, *arguments: str, cell_idx: int = 2) -> int:
    return main(["fill", str(notebook), "--cell", str(cell_idx), *arguments])


def test_prints_the_hypothesis_and_leaves_the_file(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = notebook.read_bytes()
    assert fill(notebook, "--provider", fake(f"```python\n{ANSWER}\n```\nThere.")) == 0
    assert capsys.readouterr() == (ANSWER + "\n", "")
    assert notebook.read_bytes() == before


def test_writes_the_source_and_nothing_else(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(notebook.read_bytes())
    assert fill(notebook, "--provider", fake(), "--write") == 0
    after = json.loads(notebook.read_bytes())
    assert after["cells"][2].pop("source") == ANSWER
    before["cells"][2].pop("source")
    assert after == before
    assert "Filled cell 2" in capsys.readouterr().err


def test_goes_on_from_what_the_cell_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "n.ipynb", cell("code", "# the rows\ndef count(df):"))
    assert fill(path, "--provider", fake("return len(df)"), "--write", cell_idx=0) == 0
    assert read_notebook(path).cells[0].source == "# the rows\ndef count(df):\n    return len(df)"
    assert capsys.readouterr().out == "\n    return len(df)\n"


def test_does_not_give_the_next_cells_test_away(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fill(notebook, "--provider", fake(f"{ANSWER}\n\nassert add3(1, 2, 3) == 6")) == 0
    assert capsys.readouterr().out == ANSWER + "\n"


def test_several_hypotheses_are_numbered(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fill(notebook, "--provider", fake("pass"), "-n", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[::2]] == [f"--- {k} of 3" for k in (1, 2, 3)]
    assert lines[1::2] == ["pass"] * 3


def test_json_follows_the_documented_schema(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--json", "-n", "2", "--seed", "7", "--top-k", "9", "--context", "1", "--write"]
    assert fill(notebook, "--provider", fake(f"```\n{ANSWER}\n```"), *arguments) == 0
    result = json.loads(capsys.readouterr().out)
    hypotheses = result.pop("hypotheses")
    assert result == {
        "notebook": str(notebook),
        "cell": 2,
        "kind": "code",
        "provider": fake(f"```\n{ANSWER}\n```"),
        "seed": 7,
        "sampling": {"temperature": 0.8, "top_p": 0.95, "top_k": 9, "max_tokens": 128},
        "num_context_cells": 1,
        "num_following_cells": 1,
        "best_idx": 0,
        "written": True,
    }
    assert hypotheses == [
        {
            "hypothesis_idx": idx,
            "text": ANSWER,
            "raw": f"```\n{ANSWER}\n```",
            "mean_logprob": 0.0,
        }
        for idx in range(2)
    ]


def test_one_hypothesis_is_greedy_unless_told(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(notebook, "--provider", "fake:", "--json")
    assert json.loads(capsys.readouterr().out)["sampling"]["temperature"] == 0.0
    fill(notebook, "--provider", "fake:", "--json", "--temperature", "0.3")
    assert json.loads(capsys.readouterr().out)["sampling"]["temperature"] == 0.3


def test_markdown_cells_can_be_filled(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(notebook, cell("code", "x = 1"), cell("markdown", ""))
    assert fill(path, "--provider", fake("# Title\n```python\nx\n```"), cell_idx=1) == 0
    assert capsys.readouterr().out == "# Title\n```python\nx\n```\n"


def other_language(path: Path) -> None:
    save(path, cell("code", "x <- 1"), cell("code", ""), cell("code", ""), metadata={
        "kernelspec": {"name": "ir", "language": "R", "display_name": "R"}
    })  # fmt: skip


def old_format(path: Path) -> None:
    cells = [{"cell_type": "code", "input": text} for text in ("x", "y", "")]
    path.write_text(json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}))


def nothing_around(path: Path) -> None:
    save(path, *(cell("code", "  \n") for _ in range(3)))


def bash_cell(path: Path) -> None:
    save(path, cell("code", "x"), cell("code", "y"), cell("code", "%%bash\nfor x in a"))


REFUSED = {
    "no such cell": (None, ["--cell", "9"], 2, "no cell 9: it has 5, counted from 0"),
    "negative cell": (None, ["--cell", "-1"], 2, "no cell -1"),
    "raw cell": (None, ["--cell", "4"], 2, "raw cell"),
    "unknown provider": (None, ["--provider", "nano"], 2, "jupyt5:nano"),
    "unknown fake option": (None, ["--provider", "fake:speed=1"], 2, "speed"),
    "missing model": (None, ["--provider", "jupyt5:/no/such/model"], 1, "/no/such/model"),
    "model fails": (None, ["--provider", "fake:fail"], 1, "fail"),
    "model is silent": (None, ["--provider", "fake:text="], 1, "nothing to say"),
    "no hypotheses": (None, ["-n", "0"], 2, "-n 0"),
    "temperature": (None, ["--temperature", "-1"], 2, "temperature"),
    "top-p": (None, ["--top-p", "0"], 2, "top_p"),
    "context": (None, ["--context", "-1"], 2, "0 or more"),
    "another language": (other_language, [], 2, "not Python (r)"),
    "a bash cell": (bash_cell, [], 2, "%%bash"),
    "old format": (old_format, [], 1, "jupyter nbconvert"),
    "nothing around": (nothing_around, [], 1, "Markdown cell above"),
    "not a notebook": (lambda path: path.write_text("{"), [], 1, "not valid JSON"),
    "no file": (lambda path: path.unlink(), [], 1, "cannot be read"),
}


@pytest.mark.parametrize(
    ("prepare", "arguments", "exit_code", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_bad_input_gives_one_message_and_leaves_the_file(
    notebook: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Any,
    arguments: list[str],
    exit_code: int,
    message: str,
) -> None:
    if prepare is not None:
        prepare(notebook)
    before = notebook.read_bytes() if notebook.exists() else None
    assert fill(notebook, "--provider", "fake:", "--write", *arguments) == exit_code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert (notebook.read_bytes() if notebook.exists() else None) == before
    assert set(notebook.parent.iterdir()) <= {notebook}


def test_full_disk_leaves_the_file(
    notebook: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    before = notebook.read_bytes()
    assert fill(notebook, "--provider", "fake:", "--write") == 1
    assert "disk is full" in capsys.readouterr().err
    assert notebook.read_bytes() == before
    assert list(notebook.parent.iterdir()) == [notebook]


def test_a_notebook_changed_meanwhile_is_not_written(
    notebook: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyt5.providers.fake import FakeProvider

    answer = FakeProvider.generate

    def answer_late(self: FakeProvider, *arguments: Any) -> Any:
        save(notebook, *(cell("code", "by hand") for _ in range(3)))
        return answer(self, *arguments)

    monkeypatch.setattr(FakeProvider, "generate", answer_late)
    assert fill(notebook, "--provider", "fake:", "--write") == 1
    assert "changed while" in capsys.readouterr().err
    assert read_notebook(notebook).cells[2].source == "by hand"


COMMAND = "import sys; from jupyt5.cli import main; sys.exit(main())"


def run_on_terminal(*arguments: str) -> str:
    """Run the command on a pseudo-terminal; return what it wrote there."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", COMMAND, *arguments]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, close_fds=True)
    os.close(follower)
    pieces: list[bytes] = []
    try:
        while piece := os.read(leader, 4096):
            pieces.append(piece)
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(leader)
    assert process.wait() == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_streams_on_a_terminal_and_corrects_itself(notebook: Path) -> None:
    provider = fake(f"{ANSWER}\n\nassert add3(1, 2, 3) == 6", "slow=5")
    shown = run_on_terminal("fill", str(notebook), "--cell", "2", "--provider", provider)
    assert shown.startswith("def add3")
    assert shown.endswith(ANSWER + "\n")
    last_erase = shown.rfind("\x1b[J")
    assert last_erase >= 0
    assert shown[last_erase + 3 :] == ANSWER + "\n"


def test_interrupt_stops_the_model(notebook: Path) -> None:
    import signal
    import time

    command = [sys.executable, "-c", COMMAND, "fill", str(notebook), "--cell", "2", "--write"]
    command += ["--provider", fake("a " * 50, "slow=200")]
    before = notebook.read_bytes()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=10)
    assert process.returncode == 130
    assert message == "Interrupted.\n"
    assert time.monotonic() - start < 2
    assert notebook.read_bytes() == before


class TestTry:
    @pytest.fixture(autouse=True)
    def _walls(self):
        from jupyt5.errors import ExecutionError
        from jupyt5.execution.trials import find_walls

        try:
            find_walls(None)
        except ExecutionError as exc:
            pytest.skip(str(exc))

    def test_the_one_that_passes_is_best(self, notebook, capsys):
        wrong, right = "def add3(a, b, c):\n    return 0", ANSWER
        provider = f"fake:text={quote(wrong)}&text={quote(right)}&logprob=-0.1"
        assert fill(notebook, "--provider", provider, "-n", "2", "--try", "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert [one["verdict"] for one in found["hypotheses"]] == ["wrong", "passed"]
        assert found["best_idx"] == 1
        assert fill(notebook, "--provider", provider, "-n", "2", "--try") == 0
        assert "--- 2 of 2  (-0.20 nats/token)  passed" in capsys.readouterr().out

    def test_one_hypothesis(self, notebook, capsys):
        assert fill(notebook, "--provider", fake(), "--try") == 0
        shown = capsys.readouterr()
        assert shown.out == ANSWER + "\n"
        assert "It was tried: passed." in shown.err

    def test_nothing_to_try_against(self, notebook, capsys):
        assert fill(notebook, "--provider", fake(), "--try", cell_idx=3) == 2
        assert "another code cell below" in capsys.readouterr().err

    def test_a_cell_above_that_fails_is_named(self, notebook, capsys):
        path = save(
            notebook, cell("code", "y = x"), cell("code", ""), cell("code", "assert y"), metadata={}
        )
        assert fill(path, "--provider", fake("pass"), "--try", cell_idx=1) == 0
        message = capsys.readouterr().err
        assert "Nothing was judged: Context cell 0 raised NameError" in message
        assert "cells above first" in message

    def test_no_sandbox(self, notebook, capsys, monkeypatch):
        from jupyt5.errors import ExecutionError
        from jupyt5.execution import trials

        def refuse(*_):
            raise ExecutionError("there is none here")

        monkeypatch.setattr(trials, "find_walls", refuse)
        assert fill(notebook, "--provider", fake(), "--try", "--json") == 0
        shown = capsys.readouterr()
        assert "Not tried: there is none here" in shown.err
        assert json.loads(shown.out)["hypotheses"][0]["verdict"] is None
