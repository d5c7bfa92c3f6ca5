"""From nbgrader notebooks to a problem set, with nbgrader's own reader of their marks."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from jupyt5_dsp.cli import main
from jupyt5_dsp.problems import load_problem_set

from .nbgrader_notebooks import Cells, write_nbgrader

pytest.importorskip("nbgrader", reason="nbgrader is not installed (extra curate)")
pytest.importorskip("datasketch", reason="datasketch is not installed (extra curate)")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

ADD = "# yours\ndef add(a, b):\n    ### BEGIN SOLUTION\n    return a + b\n    ### END SOLUTION"
TEST = "assert add(2, 3) == 5\n### BEGIN HIDDEN TESTS\nassert add(1, 1) == 2\n### END HIDDEN TESTS"
NO_NAME = [("refers", 1)]
PROBLEM: Cells = [("text", "Write `add`, which adds."), ("solution", ADD), ("test", TEST)]


def dry_run(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, object]:
    assert main(["build", *map(str, argv), "--dry-run", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def reasons(found: dict[str, object]) -> list[tuple[str, object]]:
    rejected = found["rejected"]
    assert isinstance(rejected, list)
    return [(one["filter"], one.get("cell_index")) for one in rejected]


@pytest.mark.parametrize("schema", [0, 1, 2, 3])
def test_every_schema_version_is_read(
    schema: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_nbgrader(tmp_path / "a.ipynb", PROBLEM, schema=schema)
    found = dry_run(capsys, tmp_path)
    assert (found["survey"]["problems"], found["rejected"]) == (1, [])  # type: ignore[index]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([("solution", "raise NotImplementedError()"), ("test", TEST)], [("filled", 0)]),
        ([("solution", "print 'x'"), ("test", TEST)], [("python3", 0)]),
        ([("solution", ADD)], [("grading", 0)]),
        ([("manual", ADD), ("text", "Next")], [("grading", 0)]),
        (
            [("solution", ADD), ("solution", "x = 1"), ("test", TEST)],
            [("grading", 0), ("refers", 1)],
        ),
        ([("solution", ADD), ("test", "print(add(1, 2))")], [("assert", 0)]),
        ([("solution", ADD), ("test", "### AUTOTEST add(1, 2)")], [("assert", 0)]),
        ([("solution", ADD), ("test", "assert sub(2, 1) == 1")], [("refers", 0)]),
        ([("manual", ADD), ("test", TEST)], []),
        ([("solution", ADD), ("text", "Try it"), ("code", "add(1, 1)"), ("test", TEST)], []),
        ([("solution", ADD), ("code", "assert add(1, 2) == 3")], []),
        ([("solution", ADD), ("test", "got = add(1, 2)"), ("test", "assert got == 3")], []),
        ([("text", "No marks at all")], [("nbgrader", None)]),
        ([("text", "Only a test"), ("test", TEST)], [("solution", None)]),
    ],
)
def test_each_refusal_has_its_filter(
    cells: Cells,
    expected: list[tuple[str, object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_nbgrader(tmp_path / "a.ipynb", cells)
    assert reasons(dry_run(capsys, tmp_path)) == expected


def test_odd_notebooks_do_not_stop_a_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_nbgrader(tmp_path / "good.ipynb", PROBLEM)
    write_nbgrader(tmp_path / "same.ipynb", PROBLEM)
    write_nbgrader(tmp_path / "r.ipynb", PROBLEM, language="R")
    (tmp_path / "cut.ipynb").write_text('{"cells": [')
    odd = json.loads((tmp_path / "good.ipynb").read_text())
    odd["cells"][1]["metadata"]["nbgrader"] = {"grade": True, "points": "many"}
    (tmp_path / "odd.ipynb").write_text(json.dumps(odd))
    found = dry_run(capsys, tmp_path)
    by_path = {one["path"]: one["filter"] for one in found["rejected"]}  # type: ignore[attr-defined]
    assert by_path == {
        "cut.ipynb": "readable",
        "odd.ipynb": "readable",
        "r.ipynb": "language",
        "same.ipynb": "identical",
    }


def run_build(*argv: object) -> int:
    return main(["build", *map(str, argv), "--timeout-s", "20", "--workers", "1"])


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course with two students' copies, a data file, and problems that are no good."""
    folder = tmp_path / "course"
    head: Cells = [
        ("code", 'NAME = "Ann Onym"\nimport csv'),
        ("code", "rows = list(csv.reader(open('data.csv')))"),
    ]
    total = "def total():\n    return sum(int(row[0]) for row in rows[1:])"
    more: Cells = [
        ("text", "Sum it."),
        ("solution", total),
        ("test", "assert total() == 3, 'the sum of the numbers in the file'"),
        ("solution", "def mul(a, b):\n    return a * b"),
        ("test", "assert mul or not mul"),
        # Last: a test that fails is a context cell that raises, for what comes after it.
        ("solution", "def sub(a, b):\n    return b - a"),
        ("test", "assert sub(3, 1) == 2"),
    ]
    write_nbgrader(folder / "ann" / "a.ipynb", [*head, *PROBLEM, *more])
    other = PROBLEM[1][1].replace("a + b", "b + a")
    write_nbgrader(folder / "bob" / "a.ipynb", [PROBLEM[0], ("solution", other), PROBLEM[2]])
    (folder / "ann" / "data.csv").write_text("x\n1\n2\n")
    (folder / "ann" / "unused.csv").write_text("x\n" * 1000)
    (folder / "LICENSE").write_text("MIT")
    return folder


@pytest.mark.kernel
@pytest.mark.slow
def test_course_becomes_a_set(
    course: Path,
    tmp_path: Path,
    sandbox_option: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "set"
    assert run_build(course, "--out", out, "--name", "C", "--sandbox", sandbox_option) == 0
    problem_set = load_problem_set(out)
    assert [problem.task_id for problem in problem_set.problems] == ["C/0", "C/1"]
    added, summed = problem_set.problems
    assert problem_set.prefix_of(added) == "# yours\n"
    assert problem_set.reference_of(added) == "def add(a, b):\n    return a + b"
    assert "BEGIN" not in (out / added.notebook_path).read_text()
    assert "Onym" not in (out / added.notebook_path).read_text()
    assert problem_set.cells_of(summed)[summed.cell_idx].metadata["task_id"] == "C/1"
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert files == [
        "README.md",
        "build.json",
        "counts.json",
        "course/ann/a.ipynb",
        "course/ann/data.csv",
        "problems.jsonl",
        "rejected.jsonl",
        "survey.json",
        "validation.jsonl",
    ]
    rejected = [json.loads(line) for line in (out / "rejected.jsonl").read_text().splitlines()]
    assert [(one["filter"], one["path"], one["cell_index"]) for one in rejected] == [
        ("tests", "ann/a.ipynb", 8),
        ("executes", "ann/a.ipynb", 10),
        ("duplicate", "bob/a.ipynb", 1),
    ]
    assert rejected[-1]["duplicate_of"] == "course/ann/a.ipynb#3"
    assert "| course | a local folder | none | LICENSE |" in (out / "README.md").read_text()
    capsys.readouterr()
    # Its findings are reused where limits and all else are the same.
    assert main(["validate", str(out), "--timeout-s", "20", "--sandbox", sandbox_option]) == 0
    assert "problems: 2, usable: 2" in capsys.readouterr().out
    assert run_build(course, "--out", out, "--sandbox", sandbox_option) == 2


@pytest.mark.kernel
@pytest.mark.slow
def test_broken_build_goes_on(
    course: Path, tmp_path: Path, sandbox_option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = (course, "--name", "C", "--sandbox", sandbox_option)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run_build(*argv, "--out", whole) == 0

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jupyt5_dsp.curation.build.list_opened", stop)
        assert run_build(*argv, "--out", broken) == 130
    log_path = broken / ".build" / "validation.jsonl"
    assert len(log_path.read_text().splitlines()) == 4
    assert run_build(course, "--name", "D", "--out", broken, "--sandbox", sandbox_option) == 2
    with monkeypatch.context() as patch:
        patch.setattr("jupyt5_dsp.validation.gather_evidence", stop)  # nothing is run again
        assert run_build(*argv, "--out", broken) == 130
    assert (broken / "problems.jsonl").is_file()
    assert run_build(*argv, "--out", broken) == 0
    for name in ("problems.jsonl", "rejected.jsonl", "survey.json", "counts.json", "README.md"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.kernel
def test_bad_input_is_one_error(
    tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("x")
    write_nbgrader(tmp_path / "good" / "a.ipynb", PROBLEM)
    write_nbgrader(tmp_path / "bad" / "a.ipynb", PROBLEM[:2])
    out = tmp_path / "out"
    cases: list[tuple[list[object], int, str]] = [
        ([empty, "--out", out], 1, "No notebook"),
        ([tmp_path / "none", "--out", out], 2, "does not exist"),
        ([tmp_path / "good"], 2, "--out is missing"),
        ([tmp_path / "good", "--out", taken], 2, "is not empty and holds no build"),
        ([tmp_path / "bad", "--out", out], 1, "No problem is left"),
    ]
    for argv, code, text in cases:
        assert run_build(*argv, "--sandbox", sandbox_option) == code
        errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
        assert len(errors) == 1
        assert text in errors[0]
    assert [path.name for path in taken.iterdir()] == ["thesis.txt"]
    assert "grading" in (out / "rejected.jsonl").read_text()


def test_nbgraders_own_course(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As `nbgrader quickstart` does, which takes its time.
    example = Path(str(files("nbgrader"))) / "docs" / "source" / "user_guide" / "source"
    course = tmp_path / "course101"
    shutil.copytree(example, course / "source", ignore=shutil.ignore_patterns("ps1_autotest"))
    found = dry_run(capsys, course)
    rows: dict[str, dict[str, object]] = {row["filter"]: row for row in found["counts"]}  # type: ignore[attr-defined]
    assert [rows[name]["notebooks"] for name in ("found", "nbgrader", "solution")] == [3, 2, 1]
    assert [rows[name]["problems"] for name in ("cells", "grading", "refers")] == [3, 2, 2]
    assert reasons(found) == [("nbgrader", None), ("grading", 16), ("solution", None)]
