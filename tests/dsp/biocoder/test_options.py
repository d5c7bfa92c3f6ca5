"""What the suite makes of its options, before anything is run."""

from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.suites import find_suite, load_suite

from .fixtures import ADD, PLAIN_CONTEXT, make_row, write_biocoder, write_rows


def load(path: Path, **options: str) -> ProblemSet:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return load_suite(find_suite("biocoder"), path, given)


def version_of(problem_set: ProblemSet) -> str:
    assert problem_set.checker is not None
    return problem_set.checker.version


@pytest.mark.parametrize(
    ("name", "value"),
    [("inputs", "0"), ("inputs", "ten"), ("input-seed", "-1"), ("context-tokens", "0")],
)
def test_numbers_are_checked(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={value}"):
        load_suite(find_suite("biocoder"), write_biocoder(tmp_path), {name: value})


@pytest.mark.parametrize(
    "name",
    ["java-public", "java-similar", "java-hidden", "python-similar", "python-hidden", "functions"],
)
def test_sets_without_tests_have_prompts_and_are_invalid(tmp_path: Path, name: str) -> None:
    problem_set = load(write_biocoder(tmp_path), set=name)
    for problem in problem_set.problems:
        assert problem_set.explain_invalid(problem) == "no test context"
        assert problem.shown is not None
        assert "add(" in problem.shown.prefix


def test_java_has_no_summary_at_bottom(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Java"):
        load(write_biocoder(tmp_path), set="java-public", presentation="summary-bottom")


def test_a_prompt_that_never_fits_makes_its_problem_invalid(tmp_path: Path) -> None:
    problem_set = load(write_biocoder(tmp_path), context_tokens="1")
    reasons = [problem_set.explain_invalid(problem) for problem in problem_set.problems]
    assert all(reason.startswith("token limit exceeded ") for reason in reasons)


def test_whatever_changes_a_verdict_changes_the_checkers_version(tmp_path: Path) -> None:
    path = write_biocoder(tmp_path)
    plain = version_of(load(path))
    assert version_of(load(path)) == plain
    changed = [
        load(path, inputs="11"),
        load(path, input_seed="1"),
        load(path, corrections="yes"),
        load(write_rows(tmp_path / "a.jsonl", [make_row("plain", ADD, PLAIN_CONTEXT + "\n")])),
    ]
    assert len({plain, *map(version_of, changed)}) == 5


def test_a_prompt_asks_for_the_whole_header_and_hides_the_reference(tmp_path: Path) -> None:
    for problem in load(write_biocoder(tmp_path), presentation="uncommented").problems:
        assert problem.shown is not None
        assert problem.shown.prefix.endswith("):")
        assert "return a + b" not in problem.shown.prefix
        assert "<|" not in problem.shown.prefix


def test_equal_tests_are_one_distinct_problem(tmp_path: Path) -> None:
    fixed = PLAIN_CONTEXT.replace("<|int|>", "1").replace("<|int;range=-9,9|>", "2")
    fixed = fixed.replace("<|bool|>", "0").replace("<|string;length=3|>", "s")
    rows = [make_row(name, ADD, fixed) for name in "ab"]
    rows.append(make_row("c", ADD, fixed.replace("sum", "other")))
    problem_set = load(write_rows(tmp_path / "rows.jsonl", rows))
    keys = [problem_set.grading_key(problem) for problem in problem_set.problems]
    assert keys[0] == keys[1] != keys[2]


def test_a_folder_without_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProblemSetError, match=r"python_public\.jsonl"):
        load(tmp_path)
