"""Each console script of pyproject.toml starts, explains itself and refuses a wrong option."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def call(target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    module, function = target.split(":")
    code = f"import sys; from {module} import {function}; sys.exit({function}())"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_says_how_to_use_it(script: str):
    answer = call(SCRIPTS[script], "--help")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"usage: {script}")


@pytest.mark.parametrize("script", SCRIPTS)
def test_wrong_command_is_a_usage_error(script: str):
    answer = call(SCRIPTS[script], "no-such-command")
    assert answer.returncode == 2
    assert "no-such-command" in answer.stderr
    assert "Traceback" not in answer.stderr
