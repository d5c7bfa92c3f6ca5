"""A small problem set, made where a test runs, and the sandbox this machine has."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.sandbox import choose_sandbox

Cells = Sequence[tuple[str, str]]


def write_set(
    root: Path, notebooks: dict[str, Cells], problems: Sequence[dict[str, object]]
) -> Path:
    """Write notebooks (kind and source of each cell, with stale outputs) and problems.jsonl."""
    for path, cells in notebooks.items():
        document = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "", "language": "python"}
            },
            "cells": [make_cell(kind, source, idx) for idx, (kind, source) in enumerate(cells)],
        }
        notebook_path = root / path
        notebook_path.parent.mkdir(parents=True, exist_ok=True)
        notebook_path.write_text(json.dumps(document))
    lines = [json.dumps(problem) + "\n" for problem in problems]
    (root / "problems.jsonl").write_text("".join(lines))
    return root


def make_cell(kind: str, source: str, idx: int) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": kind,
        "id": f"cell-{idx}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    if kind == "code":
        # As if it had passed before: casebook R01.
        cell["execution_count"] = 7
        cell["outputs"] = [
            {"output_type": "stream", "name": "stdout", "text": ["all tests passed"]}
        ]
    return cell


@pytest.fixture(name="write_set")
def write_set_here(tmp_path: Path) -> Callable[..., Path]:
    def write(notebooks: dict[str, Cells], problems: Sequence[dict[str, object]]) -> Path:
        return write_set(tmp_path / "set", notebooks, problems)

    return write


@pytest.fixture
def add_set(tmp_path: Path) -> Path:
    """Two problems in one notebook; the second one's test needs the first one's solution."""
    cells = [
        ("markdown", "Write `add`."),
        ("code", "# your code here\n\ndef add(a, b):\n    return a + b\n"),
        ("code", "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"),
        ("markdown", "Write `double`, using `add`."),
        ("code", "def double(a):\n    return add(a, a)"),
        ("code", "assert double(4) == 8"),
    ]
    problems = [
        {"task_id": "T/0", "notebook_path": "repo/add.ipynb", "cell_index": 1},
        {"task_id": "T/1", "notebook_path": "repo/add.ipynb", "cell_index": 4},
    ]
    return write_set(tmp_path / "set", {"repo/add.ipynb": cells}, problems)


@pytest.fixture
def sandbox_option() -> str:
    try:
        choose_sandbox("auto", find_interpreter())
    except ExecutionError:
        return "none"
    return "auto"
