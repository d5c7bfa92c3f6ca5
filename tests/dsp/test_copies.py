"""No work folder holds a reference solution."""

import json
from pathlib import Path

import pytest

from jupyt5_dsp.copies import plan_copies
from jupyt5_dsp.problems import load_problem_set

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "dsp"
ANSWER = "return a + b"


def test_listed_notebook_is_copied_without_answers(add_set: Path) -> None:
    path = add_set / "repo" / "add.ipynb"
    copies = plan_copies(load_problem_set(add_set))
    blanked = json.loads(copies.blanked[path])
    assert path not in copies.left_out
    assert [cell["cell_type"] for cell in blanked["cells"]].count("code") == 4
    assert ANSWER not in copies.blanked[path].decode()
    assert "assert double(4) == 8" in copies.blanked[path].decode()


@pytest.mark.parametrize(
    "name",
    [".ipynb_checkpoints/add-checkpoint.ipynb", "copy.IPYNB", "sub/old.ipynb.bak", "add.ipynb~"],
)
def test_other_notebooks_are_left_out(add_set: Path, name: str) -> None:
    path = add_set / "repo" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((add_set / "repo" / "add.ipynb").read_bytes())
    data_path = add_set / "repo" / "data.csv"
    data_path.write_text("a,b")
    copies = plan_copies(load_problem_set(add_set))
    assert path in copies.left_out
    assert data_path not in copies.left_out


@pytest.mark.parametrize("damage", ["utf-16", "nbformat 3", "both"])
def test_notebook_that_cannot_be_blanked_is_left_out(add_set: Path, damage: str) -> None:
    path = add_set / "repo" / "add.ipynb"
    document = json.loads(path.read_text())
    if damage == "nbformat 3":
        for cell in document["cells"]:
            cell["input"] = cell["source"]
        document = {
            "nbformat": 3,
            "nbformat_minor": 0,
            "metadata": {},
            "worksheets": [{"cells": document["cells"], "metadata": {}}],
        }
    elif damage == "both":
        document["worksheets"] = [{"cells": document["cells"]}]
    path.write_text(json.dumps(document), encoding="utf-16" if damage == "utf-16" else "utf-8")
    copies = plan_copies(load_problem_set(add_set))
    assert path in copies.left_out
    assert not copies.blanked


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared problem set is not on this machine")
def test_shared_notebooks_are_all_copied() -> None:
    problem_set = load_problem_set(SHARED)
    copies = plan_copies(problem_set)
    unsure = {path for path, one in problem_set.notebooks.items() if one.nbformat != 4}
    assert len(copies.blanked) == len(problem_set.notebooks) - len(unsure)
    assert len([path for path in copies.left_out if path.suffix == ".ipynb"]) == len(unsure)
