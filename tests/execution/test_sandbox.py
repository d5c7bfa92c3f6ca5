"""Choosing the sandbox, and what it keeps inside."""

import subprocess
import sys
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError, UsageError
from jupyt5.execution.kernel import Launch, Step, run_steps
from jupyt5.execution.sandbox import Sandbox, choose_sandbox
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage
from jupyt5.execution.workspace import open_workspace


def test_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--sandbox jail is unknown"):
        choose_sandbox("jail")


def test_missing_sandbox_is_a_refusal_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("auto", "bwrap"):
        with pytest.raises(ExecutionError, match="apt-get install bubblewrap"):
            choose_sandbox(name)
    assert not choose_sandbox("none").isolates


def test_broken_sandbox_is_a_refusal_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(ExecutionError, match="No permissions to create new namespace"):
        choose_sandbox("auto")


def run_cell(sandbox: Sandbox, source: str) -> CellReply:
    step = Step(cell_idx=0, source=source, stage=Stage.SOLUTION, limit_s=30)
    with open_workspace() as workspace:
        (reply,) = run_steps([step], Launch(workspace, sandbox))
    return reply


@pytest.mark.kernel
@pytest.mark.parametrize(
    "source",
    [
        "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 2)\n"
        "except OSError as exc:\n    assert exc.errno == 101, exc\nelse:\n    assert False",
        "import os\nassert sum(name.isdigit() for name in os.listdir('/proc')) < 6",
        "try:\n    open('/etc/j5-test', 'w')\nexcept OSError:\n    pass\nelse:\n    assert False",
        "open('kept-inside', 'w').write('x')",
        "import os\nos.symlink('/etc', 'way-out')\ntry:\n    open('way-out/j5', 'w')\n"
        "except OSError:\n    pass\nelse:\n    assert False",
        "import os\nassert os.listdir({hidden!r}) == []",
    ],
)
def test_walls(source: str, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("secret")
    try:
        sandbox = choose_sandbox("bwrap", hidden_paths=[tmp_path])
    except ExecutionError as exc:
        pytest.skip(str(exc))
    reply = run_cell(sandbox, source.replace("{hidden!r}", repr(str(tmp_path))))
    assert reply.status is CellStatus.OK, reply.error_message


@pytest.mark.kernel
def test_environment_of_the_user_is_not_passed_on(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_KEY", "s3cret")
    reply = run_cell(sandbox, "import os\nassert 's3cret' not in str(os.environ)")
    assert reply.status is CellStatus.OK


def test_folder_that_is_the_interpreters_own_cannot_be_hidden() -> None:
    with pytest.raises(ExecutionError, match="cannot hide"):
        choose_sandbox("bwrap", hidden_paths=[Path(sys.prefix)])


@pytest.mark.kernel
def test_folder_around_the_interpreter_is_hidden_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "problems" / ".venv"
    prefix.mkdir(parents=True)
    (prefix / "kept").write_text("")
    (tmp_path / "problems" / "answers").write_text("secret")
    try:
        sandbox = choose_sandbox("bwrap", hidden_paths=[tmp_path / "problems"])
    except ExecutionError as exc:
        pytest.skip(str(exc))
    monkeypatch.setattr(sys, "prefix", str(prefix))
    with open_workspace() as workspace:
        script = f"ls -A {prefix.parent} {prefix}; touch {prefix}/new || echo refused"
        command = sandbox.wrap(["/bin/sh", "-c", script], workspace)
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "kept" in done.stdout
    assert "answers" not in done.stdout
    assert "refused" in done.stdout
