"""The Python that executes: which are refused, and that old and new ones work."""

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import Interpreter, find_interpreter
from jupyt5.execution.jobs import Isolation
from jupyt5.execution.sandbox import choose_sandbox

Grade = Callable[..., dict[str, Judged]]

GOLD = "def add(a, b):\n    return a + b\n"
OTHERS = [text for text in os.environ.get("JUPYT5_TEST_PYTHONS", "").split(os.pathsep) if text]
SAMPLES = {
    "gold": (GOLD, "passed"),
    "wrong": ("def add(a, b):\n    return 9\n", "wrong"),
    "error": ("1/0", "error"),
    "syntax": ("def add(a, b:\n", "syntax"),
    "exit": ("import sys\ndef add(a, b):\n    sys.exit(0)\n", "exit"),
    "quit": (f"quit()\n{GOLD}", "exit"),
    "died": ("import os\ndef add(a, b):\n    os._exit(0)\n", "died"),
    "await": (f"import asyncio\nawait asyncio.sleep(0)\n{GOLD}", "passed"),
    "magics": (
        f"%%time\n!echo hi\nout = !echo ho\nassert out == ['ho'], out\n%timeit -n1 -r1 1\n{GOLD}",
        "passed",
    ),
    "install": (f"!pip install x\n%pip install x\n{GOLD}", "passed"),
    "display": (f"from IPython.display import display\ndisplay(1)\n1 + 1\n{GOLD}", "passed"),
    "history": (f"assert _ == 42 and Out[1] == 42 and len(In) == 4, (In, Out)\n{GOLD}", "passed"),
    "input": ("def add(a, b):\n    return input()\n", "error"),
    "loop": ("while True: pass", "timeout"),
    "thread pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def add(a, b):\n    with ThreadPoolExecutor(1) as pool:\n"
        "        return pool.submit(lambda: a + b).result()\n",
        "passed",
    ),
    "last": (GOLD, "passed"),
}


def test_missing_path() -> None:
    with pytest.raises(ExecutionError, match=r"/no/such/python.*--python"):
        find_interpreter(Path("/no/such/python"))


def test_something_else_than_python() -> None:
    with pytest.raises(ExecutionError, match="cannot be used as the interpreter"):
        find_interpreter(Path("/bin/true"))


def test_folder_instead_of_a_program(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="--python"):
        find_interpreter(tmp_path)


def pretend(tmp_path: Path, answer: str) -> Path:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"version": [3, 7, 9], "system": "linux", "ipython": "7.1"}', r"Python 3\.7\.9.* 3\.8"),
        ('{"version": [3, 9, 1], "system": "darwin", "ipython": "7.1"}', "darwin"),
        ('{"version": [3, 9, 1], "system": "linux"}', "no IPython.*pip install ipython"),
        ('{"version": [3, 9, 1], "system": "linux", "ipython": "6.5.0"}', r"IPython 6\.5\.0; 7"),
        ("hello", "cannot be used"),
    ],
)
def test_too_old_or_incomplete_ones(tmp_path: Path, answer: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        find_interpreter(pretend(tmp_path, answer))


@pytest.mark.kernel
def test_real_one_without_ipython(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    with pytest.raises(ExecutionError, match="no IPython"):
        find_interpreter(tmp_path / "bare" / "bin" / "python")


def test_own_interpreter_knows_its_packages(interpreter: Interpreter) -> None:
    assert interpreter.version == ".".join(map(str, sys.version_info[:3]))
    assert interpreter.packages["ipython"]
    assert "ipython" in interpreter.owners["IPython"]
    assert Path(sys.prefix) in interpreter.shown_paths


# `JUPYT5_TEST_PYTHONS=path:path` runs it under other interpreters, too.
@pytest.mark.kernel
@pytest.mark.parametrize("path", [sys.executable, *OTHERS])
def test_smoke(path: str, grade: Grade, isolation: Isolation) -> None:
    interpreter = find_interpreter(Path(path))
    try:
        sandbox = choose_sandbox("auto", interpreter)
    except ExecutionError:
        sandbox = choose_sandbox("none", interpreter)
    asked = (
        f"import sys\nassert '.'.join(map(str, sys.version_info[:3])) == '{interpreter.version}'"
    )
    found = grade(
        {key: source for key, (source, _) in SAMPLES.items()},
        context=[f"{asked}\n42", "import asyncio\nawait asyncio.sleep(0)"],
        graded=["%%time\nassert add(2, 3) == 5", "await asyncio.sleep(0)\nassert add(0, 0) == 0"],
        interpreter=interpreter,
        sandbox=sandbox,
        isolation=isolation,
        timeout_s=3,
    )
    kinds = {key: str(one.verdict.kind) for key, one in found.items()}
    messages = {key: one.verdict.message for key, one in found.items()}
    assert kinds == {key: kind for key, (_, kind) in SAMPLES.items()}, messages
    assert {key for key, one in found.items() if one.verdict.flags} == set()
    # What the worker is told to do, it does: nothing was forked that needed a fresh process.
    assert {one.isolation for key, one in found.items() if key != "loop"} == {isolation}
