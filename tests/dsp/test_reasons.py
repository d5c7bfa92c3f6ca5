"""Reasons why problems are not valid, in groups."""

import pytest

from jupyt5_dsp.printing import print_results, print_validation
from jupyt5_dsp.reasons import describe_invalid, name_reason

FAILS = "the reference does not pass here: "


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (
            f"{FAILS}The reference fails: raised ModuleNotFoundError: No module named 'skimage'.",
            "no module named 'skimage'",
        ),
        (
            f"{FAILS}grading cell 3 raised ModuleNotFoundError: No module named 'skimage.io'",
            "no module named 'skimage'",
        ),
        (
            f"{FAILS}The reference fails on input 7 of 10: raised TypeError: no 'x' in f().",
            "the reference raises TypeError",
        ),
        (f"{FAILS}The reference prints nothing.", "the reference prints nothing"),
        (
            f"{FAILS}The reference prints now this, now that on input 2 of 10: its result depends "
            "on chance.",
            "the reference prints now this, now that",
        ),
        (
            "the test passes without the solution cell, of which it uses no name",
            "the test passes without the solution cell",
        ),
        (
            "the reference imports from its package: .ba7b, .ba7d",
            "the reference imports from its package",
        ),
        ("token limit exceeded 812 > 700", "token limit exceeded … > …"),
        ("no test context", "no test context"),
    ],
)
def test_reasons_of_one_kind_have_one_name(reason: str, name: str) -> None:
    assert name_reason(reason) == name


def make_problems(*reasons: str) -> list[dict[str, str]]:
    invalid = [{"usable": "no", "reason": reason} for reason in reasons]
    return [{"usable": "yes", "reason": ""}, *invalid]


def test_the_most_frequent_comes_first() -> None:
    missing = [f"{FAILS}No module named 'Bio.{name}'" for name in "abcdefghijkl"]
    assert list(describe_invalid(make_problems("no test context", *missing))) == [
        "not valid: 12 no module named 'Bio'",
        "not valid:  1 no test context",
        "hint: --python names an interpreter that has missing packages "
        "(docs/environments.md, docs/biocoder.md)",
    ]
    assert list(describe_invalid(make_problems("no test context"))) == [
        "not valid: 1 no test context"
    ]
    assert list(describe_invalid(make_problems())) == []


def test_rare_reasons_share_a_line() -> None:
    lines = list(describe_invalid(make_problems(*"aabbccddeeffgghijkl")))
    assert len(lines) == 8
    assert lines[0] == "not valid: 2 a"
    assert lines[-1] == "not valid: 5 for 5 other reasons"
    assert sum(int(line.split()[2]) for line in lines) == 19


def test_runs_and_validations_say_it() -> None:
    problems = [
        {"task_id": "a", "reference": "error", "context_errors": [], **one}
        for one in make_problems("no test context")
    ]
    said: list[str] = []
    results = {
        "suite_version": "v",
        "provider": "gold",
        "num_valid": 1,
        "num_problems": 2,
        "num_distinct": 1,
        "num_left_out": 0,
        "num_samples": 2,
        "pass_at_k": {},
        "ci95": {},
        "verdict_counts": {},
        "passed_with_flag": {},
        "problems": problems,
        "blocked_k": {
            "valid": {
                "5": {"reason": "too few", "num_blocking": 4, "task_ids": ["a", "b", "c", "d"]},
                "9": {"reason": "too few", "num_blocking": 1, "task_ids": ["a"]},
            }
        },
    }
    print_results(results, said.append)
    assert said.count("not valid: 1 no test context") == 1
    assert [line.partition("not reported: ")[2] for line in said if "reported" in line] == [
        "too few (a, b, c, …)",
        "too few (a)",
    ]
    print_validation(
        {"problems": problems, "num_problems": 2, "num_valid": 1, "differs_from_passes_modern": []},
        said.append,
    )
    assert said.count("not valid: 1 no test context") == 2
