"""Choosing the sandbox; the same verdicts in each."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError, UsageError
from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Isolation
from jupyt5.execution.sandbox import Sandbox, choose_sandbox

Grade = Callable[..., dict[str, Judged]]
ListDescendants = Callable[[], dict[int, str]]
WaitUntil = Callable[[Callable[[], object], float], bool]

GOLD = "def add(a, b):\n    return a + b\n"
SAMPLES = {
    "gold": (GOLD, "passed"),
    "wrong": ("def add(a, b):\n    return 9\n", "wrong"),
    "error": ("1/0", "error"),
    "syntax": ("def add(a, b:\n", "syntax"),
    "exit": ("import sys\ndef add(a, b):\n    sys.exit(0)\n", "exit"),
    "died": ("import os\ndef add(a, b):\n    os._exit(0)\n", "died"),
    "group": ("import os\nos.killpg(0, 9)", "died"),
    "spoil": (f"open('data.csv', 'w').write('y')\nopen('new', 'w').close()\n{GOLD}", "passed"),
    "honest": (
        f"import os\nassert open('data.csv').read() == 'x' and not os.path.exists('new')\n{GOLD}",
        "passed",
    ),
    "leave": (f"import subprocess\nsubprocess.Popen(['sleep', '300'])\n{GOLD}", "passed"),
    "fork": (f"import os, time\nif os.fork() == 0: time.sleep(300)\n{GOLD}", "passed"),
    "loop": ("while True: pass", "timeout"),
    "memory": ("x = bytearray(1 << 40)", "oom"),
    "last": (GOLD, "passed"),
}


def test_unknown_name_is_a_usage_error(interpreter: Interpreter) -> None:
    with pytest.raises(UsageError, match="--sandbox jail is unknown"):
        choose_sandbox("jail", interpreter)


def test_no_sandbox_has_to_be_asked_for(
    interpreter: Interpreter, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert not choose_sandbox("none", interpreter).isolates
    assert "can do whatever you can do" in caplog.text


def test_folder_that_is_the_interpreters_own_cannot_be_hidden(interpreter: Interpreter) -> None:
    with pytest.raises(ExecutionError, match="cannot hide"):
        choose_sandbox("auto", interpreter, hidden_paths=[interpreter.shown_paths[0]])


@pytest.mark.kernel
def test_missing_bubblewrap_is_named(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExecutionError, match=r"bwrap is not on PATH.*apt-get install bubblewrap"):
        choose_sandbox("bwrap", interpreter)


@pytest.mark.kernel
def test_broken_bubblewrap_is_a_refusal_too(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(ExecutionError, match="No permissions to create new namespace"):
        choose_sandbox("bwrap", interpreter)


CHOOSE = """
import sys
from jupyt5.errors import ExecutionError
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.sandbox import choose_sandbox
try:
    print("chose", choose_sandbox("auto", find_interpreter(None)).name)
except ExecutionError as exc:
    print("refused:", exc)
"""


@pytest.mark.kernel
def test_machine_without_user_namespaces_is_a_refusal(tmp_path: Path) -> None:
    """A real one: this shell may make no more of them."""
    unshare = shutil.which("unshare")
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && "
    shell = [str(unshare), "-Ur", "/bin/sh", "-c"]
    if not unshare or subprocess.run([*shell, f"{forbid} true"], check=False).returncode:
        pytest.skip("This shell cannot forbid namespaces to its children.")
    done = subprocess.run(
        [*shell, forbid + 'exec "$@"', "sh", sys.executable, "-c", CHOOSE],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.startswith("refused: There is no sandbox on this machine"), done
    assert "namespaces: no user namespace" in done.stdout
    assert "apt-get install bubblewrap" in done.stdout
    assert "--sandbox none" in done.stdout


def choose_or_skip(name: str, interpreter: Interpreter) -> Sandbox:
    try:
        return choose_sandbox(name, interpreter)
    except ExecutionError as exc:
        pytest.skip(str(exc))


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("name", ["namespaces", "bwrap", "none"])
def test_same_verdicts_in_every_sandbox(
    name: str, grade: Grade, interpreter: Interpreter, isolation: Isolation
) -> None:
    found = grade(
        {key: source for key, (source, _) in SAMPLES.items()},
        sandbox=choose_or_skip(name, interpreter),
        isolation=isolation,
        files={"data.csv": "x"},
        context=["import os\nassert os.path.exists('data.csv')"],
        timeout_s=2,
    )
    assert {key: str(one.verdict.kind) for key, one in found.items()} == {
        key: kind for key, (_, kind) in SAMPLES.items()
    }
    flags = {key: one.verdict.flags for key, one in found.items() if one.verdict.flags}
    assert flags == {"fork": ("suspect: interpreter forked",)}


@pytest.mark.kernel
def test_without_a_sandbox_copies_are_removed_and_groups_are_ended(
    grade: Grade,
    interpreter: Interpreter,
    isolation: Isolation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    list_descendants: ListDescendants,
    wait_until: WaitUntil,
) -> None:
    before = set(list_descendants())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    marker = f"300.{os.getpid()}"
    leave = f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'])\n{GOLD}"
    found = grade([leave] * 3, sandbox=choose_sandbox("none", interpreter), isolation=isolation)
    assert {one.verdict.kind for one in found.values()} == {"passed"}
    assert list(tmp_path.iterdir()) == []
    assert wait_until(lambda: not set(list_descendants()) - before, 1.0)
    commands = [read_command(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert not [command for command in commands if marker in command]


def read_command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
