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


@pytest.mark.parametrize(
    ("script", "arguments", "package", "extra"),
    [
        ("jupyt5-corpus", ["build", "shards", "--out", "out"], "pyarrow", "corpus"),
        ("jupyt5-train", ["prepare", "--corpus", "corpus", "--out", "out"], "pyarrow", "train"),
        ("jupyt5-train", ["run", "debug", "--data", "data", "--out", "out"], "torch", "train"),
    ],
)
def test_missing_package_is_named_with_the_install_command(
    script: str, arguments: list[str], package: str, extra: str, tmp_path: Path
):
    module, function = SCRIPTS[script].split(":")
    code = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"from {module} import {function}; sys.exit({function}())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 1
    assert f"The package {package} is not installed." in answer.stderr
    assert f"pip install 'jupyt5[{extra}]'" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list(tmp_path.iterdir()) == []
