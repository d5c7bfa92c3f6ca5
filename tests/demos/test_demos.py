"""The demo notebooks: what is in them runs, once what is missing is there, and the asserts bite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyt5.cli.lab import DEMO_NAMES
from jupyt5.notebook import read_notebook

ROOT = Path(__file__).parents[2]
SOLUTIONS = json.loads((Path(__file__).parent / "solutions.json").read_text())
STUB = "raise NotImplementedError()"


def is_open(source: str) -> bool:
    """Whether a cell waits for the reader: blank, a stub, comments or an import alone."""
    code = [line for line in source.splitlines() if line.strip() and line.strip()[0] != "#"]
    return STUB in source or all(line.startswith("import matplotlib") for line in code)


def test_all_of_them_come_with_jupyt5_lab():
    assert sorted(DEMO_NAMES) == sorted(SOLUTIONS)
    assert sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb")) == sorted(SOLUTIONS)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_open_cells_are_those_with_a_solution_and_nothing_has_been_run(name: str):
    notebook = read_notebook(ROOT / "notebooks" / name)
    assert [cell.id for cell in notebook.cells if is_open(cell.source)] == [*SOLUTIONS[name]]
    raw = json.loads((ROOT / "notebooks" / name).read_text())
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in raw["cells"])


def run(name: str, *, leave_open: bool) -> list[tuple[str, Any]]:
    """Run a demo with its solutions, or with ``None`` in their place; errors do not end it.

    Returns:
        Id and error of each code cell; None where it ran through.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    for cell in notebook.cells:
        if cell.id in SOLUTIONS[name] and not (leave_open and not cell.source.startswith("import")):
            cell.source = SOLUTIONS[name][cell.id]
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%matplotlib agg"))
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    return [
        (cell.id, next((out for out in cell.outputs if out.output_type == "error"), None))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.kernel
@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_solved_demo_runs_through(name: str):
    ran = run(name, leave_open=False)
    assert [(cell_id, error["evalue"]) for cell_id, error in ran if error] == []


@pytest.mark.kernel
def test_the_asserts_notice_that_nothing_was_filled():
    ran = dict(run("homework.ipynb", leave_open=True))
    assert all(ran[f"{cell_id}-test"] for cell_id in SOLUTIONS["homework.ipynb"])
