"""Problem sets on disk."""

import json
from pathlib import Path

import pytest

from jupyt5.errors import NotebookError, ProblemSetError, UsageError
from jupyt5_dsp.problems import load_problem_set, split_initial_comments
from jupyt5_dsp.suites import find_suite

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "dsp"


@pytest.mark.parametrize(
    ("source", "prefix", "rest"),
    [
        ("x = 1\n# tail", "", "x = 1\n# tail"),
        ("# a\n# b\nx = 1", "# a\n# b\n", "x = 1"),
        ("# a\n\n  # b\n\nx = 1", "# a\n\n  # b\n\n", "x = 1"),
        ("\n\nx = 1", "", "\n\nx = 1"),
        ("# only", "# only\n", ""),
        ("", "", ""),
    ],
)
def test_initial_comments(source: str, prefix: str, rest: str) -> None:
    assert split_initial_comments(source) == (prefix, rest)


def test_filling_in_the_reference_gives_the_cell_back(add_set: Path) -> None:
    problem_set = load_problem_set(add_set)
    for problem in problem_set.problems:
        source = problem_set.cells_of(problem)[problem.cell_idx].source
        assert problem_set.fill(problem, problem_set.reference_of(problem)) == source
    assert problem_set.fill(problem_set.problems[0], "pass") == "# your code here\n\npass"


def test_grading_cell_is_the_next_unless_listed(add_set: Path) -> None:
    assert load_problem_set(add_set).problems[0].grading_idxs == (2,)
    line = {
        "task_id": "x",
        "notebook_path": "repo/add.ipynb",
        "cell_index": 1,
        "grading_cells": [2, 5],
    }
    (add_set / "problems.jsonl").write_text(json.dumps(line))
    assert load_problem_set(add_set).problems[0].grading_idxs == (2, 5)


def test_folder_without_problems(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ProblemSetError, match=r"there is no problems\.jsonl in it"):
            load_problem_set(path)
    (tmp_path / "problems.jsonl").write_text("\n")
    with pytest.raises(ProblemSetError, match="has no problems in it"):
        load_problem_set(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 1: "),
        ("[]", "not a JSON object"),
        ('{"task_id": "a", "cell_index": 1}', "field 'notebook_path' is missing"),
        ('{"task_id": "a", "notebook_path": "a.ipynb", "cell_index": -1}', "not the index"),
        ('{"task_id": "a", "notebook_path": "../a.ipynb", "cell_index": 1}', "leads out"),
        ('{"task_id": "a", "notebook_path": "/a.ipynb", "cell_index": 1}', "leads out"),
        (
            '{"task_id": "a", "notebook_path": "a.ipynb", "cell_index": 1, "grading_cells": 2}',
            "line 1: grading_cells is 2, not a list",
        ),
        (
            '{"task_id": "a", "notebook_path": "a.ipynb", "cell_index": 1, "grading_cells": "2"}',
            "line 1: grading_cells is '2', not a list",
        ),
    ],
)
def test_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "problems.jsonl").write_text(line)
    with pytest.raises(ProblemSetError, match=reason):
        load_problem_set(tmp_path)


def test_double_task_id(add_set: Path) -> None:
    path = add_set / "problems.jsonl"
    path.write_text(path.read_text().splitlines()[0] * 1 + "\n" + path.read_text())
    with pytest.raises(ProblemSetError, match="lists T/0 twice"):
        load_problem_set(add_set)


def test_missing_notebook(add_set: Path) -> None:
    (add_set / "repo" / "add.ipynb").unlink()
    with pytest.raises(NotebookError, match=r"add\.ipynb"):
        load_problem_set(add_set)


def test_unknown_suite_suggests() -> None:
    with pytest.raises(UsageError, match="Did you mean dsp"):
        find_suite("dps")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared problem set is not on this machine")
def test_shared_set() -> None:
    problem_set = load_problem_set(SHARED)
    assert len(problem_set.problems) == 672
    assert len(problem_set.notebooks) == 211
    assert len({problem_set.grading_key(p) for p in problem_set.problems}) == 290
    lines = (SHARED / "problems.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    for problem, record in zip(problem_set.problems, records, strict=True):
        assert problem_set.prefix_of(problem).strip() == record["initial_comments"].strip()
        assert problem_set.reference_of(problem).strip() == record["solution"].strip()
        assert problem_set.explain_invalid(problem) == ""
