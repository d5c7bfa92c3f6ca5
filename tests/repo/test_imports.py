"""What importing loads, and who may import whom."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "ctranslate2",
    "jupyter_server",
    "jupyterlab",
    "matplotlib",
    "nbclient",
    "numpy",
    "pandas",
    "pyarrow",
    "tokenizers",
    "torch",
    "transformers",
}


def loaded_by(module: str) -> set[str]:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.partition(".")[0] for name in json.loads(answer.stdout)}


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("jupyt5") & HEAVY == set()


@pytest.mark.parametrize(
    "module", ["jupyt5.cli", "jupyt5_corpus.cli", "jupyt5_dsp.cli", "jupyt5_training.cli"]
)
def test_command_lines_start_without_heavy_packages(module: str):
    assert loaded_by(module) & (HEAVY - {"numpy"}) == set()


@pytest.mark.parametrize("module", ["jupyt5.server", "jupyt5.providers"])
def test_server_and_providers_load_no_torch(module: str):
    assert loaded_by(module) & {"torch", "transformers", "pyarrow", "pandas"} == set()


def test_importing_the_package_is_quick():
    # Whole process, so the interpreter's own start is in it. The best of five is judged, since the
    # others may have waited for a busy machine.
    times_ms: list[float] = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import jupyt5"], check=True, cwd=ROOT)
        times_ms.append((time.perf_counter() - started) * 1000)
    assert min(times_ms) < 150


def test_import_layers_hold():
    tool = Path(sys.executable).parent / "lint-imports"
    answer = subprocess.run(
        [tool, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
