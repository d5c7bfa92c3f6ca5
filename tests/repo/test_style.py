"""The parts of the house style that a linter does not check."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("jupyt5", "corpus/jupyt5_corpus", "dsp/jupyt5_dsp", "training/jupyt5_training")
MODULES = sorted(path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))
MAX_MODULE_LINES = 500
MAX_TEST_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL = 5


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_are_short():
    assert MODULES
    assert [str(path) for path in MODULES if num_lines(path) > MAX_MODULE_LINES] == []


def test_functions_are_short():
    lengths = {where: (node.end_lineno or 0) - node.lineno + 1 for where, node in functions()}
    assert {where: n for where, n in lengths.items() if n > MAX_FUNCTION_LINES} == {}


def test_functions_take_few_positional_parameters():
    counts = {
        where: sum(
            argument.arg not in {"self", "cls"}
            for argument in [*node.args.posonlyargs, *node.args.args]
        )
        for where, node in functions()
    }
    assert {where: n for where, n in counts.items() if n > MAX_POSITIONAL} == {}


def test_test_files_are_short():
    tests = (ROOT / "tests").rglob("test_*.py")
    assert [str(path) for path in tests if num_lines(path) > MAX_TEST_LINES] == []


def test_no_file_has_merge_conflict_markers():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, so git knows no tracked files")
    command = ["git", "grep", "-I", "-n", "-E", "^(<{7}|>{7}) "]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # 1: nothing found.
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "")
