"""Problems that can judge nothing are found (casebook R13, R14), on real kernels."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.cli import main
from jupyt5_dsp.validation import read_validations

pytestmark = pytest.mark.kernel

GOLD = "def add(a, b):\n    return a + b\n"
NONE = "def add(a, b):\n    return None\n"
GRADED = "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"

WriteSet = Callable[[dict[str, Sequence[tuple[str, str]]], list[dict[str, object]]], Path]


@pytest.fixture
def validate(
    write_set: WriteSet, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, dict[str, object]]]:
    def run(
        *notebooks: Sequence[tuple[str, str]], argv: Sequence[str] = (), **fields: object
    ) -> dict[str, dict[str, object]]:
        """Validate notebooks whose problem is the cell before the last; return the findings."""
        named = {f"r{idx}/nb.ipynb": cells for idx, cells in enumerate(notebooks)}
        problems = [
            {
                "task_id": f"T/{idx}",
                "notebook_path": path,
                "cell_index": _solution_idx(cells),
                **fields,
            }
            for idx, (path, cells) in enumerate(named.items())
        ]
        folder = write_set(named, problems)
        command = ["validate", str(folder), "--sandbox", sandbox_option, "--json", *argv]
        assert main(command) == 0
        found = json.loads(capsys.readouterr().out)
        return {problem["task_id"]: problem for problem in found["problems"]}

    return run


def _solution_idx(cells: Sequence[tuple[str, str]]) -> int:
    found = (idx for idx, (_, source) in enumerate(cells) if source.startswith("def add"))
    return next(found, 0)


def problem(graded: str, *, kind: str = "code") -> list[tuple[str, str]]:
    return [("markdown", "Write add."), ("code", GOLD), (kind, graded)]


def test_good_problem_is_usable(validate: Callable[..., dict[str, dict[str, object]]]) -> None:
    found = validate(problem(GRADED))["T/0"]
    assert (found["reference"], found["usable"], found["reason"]) == ("passed", "yes", "")


def test_tests_that_test_nothing(validate: Callable[..., dict[str, dict[str, object]]]) -> None:
    found = validate(
        problem(""),
        problem("# nothing\n# at all"),
        problem("print(add(2, 3))"),
        problem("assert True"),
        problem("some text", kind="markdown"),
        problem(GRADED)[:2],
        problem("assert add(2, 3) != 6"),
        problem("assert add(2, 3) == 6"),
        [("code", GOLD.replace("def", "# earlier\ndef")), *problem(GRADED)],
    )
    usable = [finding["usable"] for finding in found.values()]
    assert usable == [
        "no",
        "no",
        "vacuous",
        "vacuous",
        "no",
        "no",
        "vacuous",
        "no",
        "solved before",
    ]
    references = [found[f"T/{idx}"]["reference"] for idx in (0, 1, 4, 5)]
    assert references == ["invalid"] * 4
    reasons = {task_id: str(finding["reason"]) for task_id, finding in found.items()}
    assert "is empty" in reasons["T/0"]
    assert "only comments" in reasons["T/1"]
    assert "is markdown" in reasons["T/4"]
    assert "missing" in reasons["T/5"]
    assert "does not pass here" in reasons["T/7"]


def test_blank_solution_cell_is_a_finding(
    validate: Callable[..., dict[str, dict[str, object]]],
) -> None:
    needs_it = "assert missing == 1"
    found = validate(
        [("markdown", "Write it."), ("code", ""), ("code", "assert True")],
        [("markdown", "Write it."), ("code", " \n"), ("code", needs_it)],
        cell_index=1,
    )
    assert [one["usable"] for one in found.values()] == ["vacuous", "no"]
    assert [one["reference"] for one in found.values()] == ["passed", "error"]


def test_failing_context_is_context(validate: Callable[..., dict[str, dict[str, object]]]) -> None:
    cells = [("code", "base = open('missing.txt').read()"), *problem(GRADED)]
    found = validate(cells)["T/0"]
    assert (found["reference"], found["usable"]) == ("context", "no")
    assert "FileNotFoundError" in str(found["reason"])


def test_set_may_declare_a_failing_context_harmless(
    validate: Callable[..., dict[str, dict[str, object]]],
) -> None:
    cells = [("code", "base = open('missing.txt').read()"), *problem(GRADED)]
    found = validate(cells, passes_modern=True)["T/0"]
    assert (found["reference"], found["usable"], found["context_errors"]) == ("passed", "yes", [0])


def test_gold_that_hangs_on_chance_is_unstable(
    validate: Callable[..., dict[str, dict[str, object]]],
) -> None:
    # Passes at every other hash seed. The seeds are fixed, so this is no bet.
    seed_is_even = "int(os.environ['PYTHONHASHSEED']) % 2 == 0, 'random'"
    graded = f"import os\nassert add(2, 3) == 5\nassert {seed_is_even}"
    found = validate(problem(graded))["T/0"]
    assert found["usable"] == "unstable"
    assert "22 of 23 runs" in str(found["reason"])


def test_wrong_answer_that_hangs_or_dies_does_not_stop_the_rest(
    validate: Callable[..., dict[str, dict[str, object]]],
) -> None:
    hang = "while add(2, 3) is None:\n    pass\n" + GRADED
    die = "import os\nif add(2, 3) is None:\n    os._exit(1)\n" + GRADED
    found = validate(problem(hang), problem(die), problem(GRADED), argv=["--timeout-s", "3"])
    assert [finding["usable"] for finding in found.values()] == ["yes", "yes", "yes"]


def test_validation_goes_on_from_its_file(
    validate: Callable[..., dict[str, dict[str, object]]], tmp_path: Path
) -> None:
    out = tmp_path / "validation.jsonl"
    first = validate(problem(GRADED), problem("assert True"), argv=["--out", str(out)])
    lines = out.read_text().splitlines(keepends=True)
    assert len(lines) == 2
    out.write_text(lines[0] + lines[1][:20])
    again = validate(problem(GRADED), problem("assert True"), argv=["--out", str(out)])
    assert again == first
    assert sorted(out.read_text().splitlines(keepends=True)) == sorted(lines)


def test_findings_do_not_depend_on_workers(
    write_set: WriteSet, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vacuous, broken = problem("assert True"), [("code", "1/0"), *problem(GRADED)]
    chance = problem("import random\nassert add(2, 3) == 5 and random.random() < 0.5")
    books = [problem(GRADED), vacuous, broken, chance, problem(f"print(add)\n{GRADED}")]
    named: dict[str, Sequence[tuple[str, str]]] = {
        f"r{idx}/nb.ipynb": cells for idx, cells in enumerate(books)
    }
    problems: list[dict[str, object]] = [
        {"task_id": f"T/{idx}", "notebook_path": path, "cell_index": _solution_idx(cells)}
        for idx, (path, cells) in enumerate(named.items())
    ]
    folder = write_set(named, problems)
    found: list[str] = []
    for num_workers in ("1", "2", "4"):
        command = ["validate", str(folder), "--sandbox", sandbox_option, "--json"]
        assert main([*command, "--workers", num_workers]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] == found[2]
    assert len(json.loads(found[0])["problems"]) == len(books)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"task_id": "a", "completion": "x"}', "field 'completion' is none of a finding's"),
        ('{"task_id": "a"}', "a field is missing"),
    ],
)
def test_another_file_is_named_as_such(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "validation.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ProblemSetError, match=f"is not a validation file .{said}"):
        read_validations(path)
