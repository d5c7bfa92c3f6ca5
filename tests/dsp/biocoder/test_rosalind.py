"""Rosalind's suite: whole programs, their stored pairs, and the rules of comparison by id."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.answers import cut_at_stop
from jupyt5_dsp.biocoder.comparison import RULES
from jupyt5_dsp.biocoder.rosalind import (
    RULES_BY_ID,
    load_rosalind,
    make_rosalind_test,
    read_pairs,
)
from jupyt5_dsp.suites import find_suite, load_suite

from .fixtures import write_pairs, write_rosalind, write_rows

SHARED = Path(__file__).parents[4] / "shared" / "data" / "biocoder"


def test_rules_are_known() -> None:
    assert set(RULES_BY_ID.values()) <= set(RULES)
    assert RULES_BY_ID["grph"] == "lines"
    assert RULES_BY_ID["iprb"] == "numbers"


def test_references_with_relative_imports_have_no_test(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "golden": "from .helpers import ints\ndef main(file): print(1)\n"},
        {"id": "b", "golden": "import rosalind.x\ndef main(file): print(1)\n"},
        {"id": "c", "golden": "def main(file): print(1)\n"},
        {"id": "d", "golden": "def main(file): print(1)\n"},
        {"id": "gbk", "golden": "def main(file): print(1)\n"},
    ]
    problems = load_rosalind(write_rows(tmp_path / "rosalind.jsonl", rows))
    pairs = read_pairs(
        write_pairs(
            tmp_path / "p.tar.xz",
            {f"{n}.{k}": "1" for n in ("a", "b", "c", "gbk") for k in ("in", "out")},
        )
    )
    tests = [make_rosalind_test(problem, pairs) for problem in problems]
    assert tests[0] == "the reference imports from its package: .helpers"
    assert tests[1] == "the reference imports from its package: rosalind.x"
    assert not isinstance(tests[2], str)
    assert tests[3:] == ["no stored input", "the reference asks an on-line database"]


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ProblemSetError, match="record 1"):
        load_rosalind(write_rows(tmp_path / "a.jsonl", [{"id": "x"}]))
    with pytest.raises(ProblemSetError, match="no problems"):
        load_rosalind(write_rows(tmp_path / "b.jsonl", []))
    bad = tmp_path / "bad.tar.xz"
    bad.write_bytes(b"no archive")
    with pytest.raises(ProblemSetError, match="tar archive"):
        read_pairs(bad)
    write_rows(tmp_path / "rosalind.jsonl", [{"id": "x", "golden": "pass"}])
    with pytest.raises(ProblemSetError, match=r"rosalind_testcases\.tar\.xz"):
        load_suite(find_suite("rosalind"), tmp_path)


def test_members_that_lead_out_of_the_archive_are_only_names(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "p.tar.xz", {"../../x.in": "1", "../../x.out": "2"})
    assert set(read_pairs(path)) == {"x"}
    assert [one.name for one in tmp_path.iterdir()] == ["p.tar.xz"]


def test_the_published_files() -> None:
    if not (SHARED / "rosalind.jsonl").is_file():
        pytest.skip(f"{SHARED} is not there.")
    problem_set = load_suite(find_suite("rosalind"), SHARED)
    reasons = [problem_set.explain_invalid(problem) for problem in problem_set.problems]
    assert len(reasons) == 177
    assert sum(not reason for reason in reasons) == 38
    others = [reason for reason in reasons if reason and "from its package" not in reason]
    assert set(others) <= {"the reference asks an on-line database"}
    for problem in problem_set.problems:
        reference = problem_set.reference_of(problem)
        assert cut_at_stop(reference, problem_set.stops) == reference, problem.task_id


def test_a_generated_program_ends_where_it_calls_itself(tmp_path: Path) -> None:
    stops = load_suite(find_suite("rosalind"), write_rosalind(tmp_path)).stops
    program = (
        "import sys\n\n@cached\ndef half(a):\n    return a / 2\n\nclass A:\n    x = 1\n\n"
        "def main(file):\n    print(half(A.x))\n\ndef later():\n    pass\n"
    )
    for rest in ('if __name__ == "__main__":\n    main(sys.argv[1])', "main('x')", "```\nIt"):
        assert cut_at_stop(f"{program}\n{rest}", stops) == program


@pytest.mark.kernel
def test_verdicts(tmp_path: Path, grade: Callable[..., Any]) -> None:
    path = write_rosalind(tmp_path)
    texts = {
        "stored order": "def main(file):\n    print('3\\n2\\n1')\n",
        "any order": "def main(file):\n    print('2\\n3\\n1')\n",
        "returns": "def solve(text):\n    return '1\\n2\\n3'\n",
        "one too few": "def main(file):\n    print('1\\n2')\n",
        "rounded": "def main(file):\n    print(0.2861)\n",
        "nothing": "x = 1\n",
        "other file": "def main(file):\n    print(open('grph.out').read())\n",
    }
    graded = grade("rosalind", path, ["grph", "iprb"], texts)
    assert graded.results["num_valid"] == 2
    assert graded.verdicts("grph") == {
        "stored order": "passed",
        "any order": "passed",
        "returns": "passed",
        "one too few": "wrong",
        "rounded": "wrong",
        "nothing": "syntax",
        "other file": "error",
    }
    assert graded.verdicts("iprb")["rounded"] == "passed"
    assert graded.verdicts("iprb")["any order"] == "wrong"


@pytest.mark.kernel
def test_zero_is_no_answer(tmp_path: Path, grade: Callable[..., Any]) -> None:
    rows = [
        {"id": "ba10a", "golden": "def main(file):\n    print(3.26e-21)\n"},
        {"id": "ba10b", "golden": "def main(file):\n    print(3.26e-21)\n"},
    ]
    write_rows(tmp_path / "r" / "rosalind.jsonl", rows)
    pairs = {"ba10a.in": "1", "ba10a.out": "3.26e-21", "ba10b.in": "1", "ba10b.out": "0.000"}
    write_pairs(tmp_path / "r" / "rosalind_testcases.tar.xz", pairs)
    texts = {
        "zero": "def main(file):\n    print(0.0)\n",
        "near": "def main(file):\n    print(3.2601e-21)\n",
    }
    graded = grade("rosalind", tmp_path / "r", ["ba10a", "ba10b"], texts)
    assert graded.verdicts("ba10a") == {"zero": "wrong", "near": "passed"}
    # A stored answer that is rounded to zero makes the test accept anything small.
    assert "0.0 for every decimal number" in graded.validations["ba10b"]["reason"]
    assert set(graded.verdicts("ba10b").values()) == {"invalid"}


def test_problems_without_any_stored_input_are_refused(tmp_path: Path) -> None:
    root = write_rosalind(tmp_path)
    write_rows(root / "rosalind.jsonl", [{"id": "abc", "golden": "def main(file): pass"}])
    with pytest.raises(ProblemSetError, match=r"None of the 1 problems .* 'abc', has an input"):
        load_suite(find_suite("rosalind"), root)
