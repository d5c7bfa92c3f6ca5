"""pass@k arithmetic (casebook R06)."""

import random
from fractions import Fraction
from itertools import combinations

import pytest

from jupyt5_dsp.passk import (
    Outcome,
    TooFewSamplesError,
    estimate_pass_at_k,
    explain_blocked,
    summarise,
)


def brute_force(passed: list[bool], k: int) -> Fraction:
    """Draw every k of the hypotheses: in how many draws does at least one pass?"""
    draws = list(combinations(passed, k))
    return Fraction(sum(any(draw) for draw in draws), len(draws))


def test_every_small_case_against_all_draws() -> None:
    for n in range(1, 10):
        for c in range(n + 1):
            passed = [idx < c for idx in range(n)]
            for k in range(1, n + 1):
                expected = float(brute_force(passed, k))
                assert estimate_pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


def test_means_over_a_suite_against_all_draws() -> None:
    # Problems with other numbers of hypotheses, some not usable, some without any.
    draw = random.Random(6)
    problems = {
        f"P{idx}": [draw.random() < 0.3 for _ in range(draw.choice([0, 4, 7, 9]))]
        for idx in range(60)
    }
    outcomes = [
        outcome(name, len(passed), sum(passed), valid=idx % 5 > 0)
        for idx, (name, passed) in enumerate(problems.items())
    ]
    scopes = summarise(outcomes, [1, 2, 4], seed=0)
    for k in (1, 2, 4):
        rates = [brute_force(passed, k) if passed else Fraction(0) for passed in problems.values()]
        valid = [rate for idx, rate in enumerate(rates) if idx % 5]
        assert scopes["all"].pass_at_k[k] == pytest.approx(float(sum(rates) / len(rates)))
        assert scopes["valid"].pass_at_k[k] == pytest.approx(float(sum(valid) / len(valid)))


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (5, 1, 2, Fraction(2, 5)),
        (10, 3, 5, Fraction(11, 12)),
        (100, 2, 10, Fraction(21, 110)),
        (200, 1, 100, Fraction(1, 2)),
        (4, 0, 4, Fraction(0)),
        (3, 3, 1, Fraction(1)),
        (100_000, 1, 50_000, Fraction(1, 2)),
    ],
)
def test_table(n: int, c: int, k: int, expected: Fraction) -> None:
    assert estimate_pass_at_k(n, c, k) == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("n", "c"), [(2, 0), (2, 1)])
def test_fewer_samples_than_k_is_undefined(n: int, c: int) -> None:
    with pytest.raises(TooFewSamplesError, match="pass@10 is undefined for 2 hypotheses"):
        estimate_pass_at_k(n, c, 10)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_nonsense_is_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="has no meaning"):
        estimate_pass_at_k(n, c, k)


@pytest.mark.parametrize("c", [0, 1, 7, 49, 50])
def test_never_falls_as_k_grows(c: int) -> None:
    values = [estimate_pass_at_k(50, c, k) for k in range(1, 51)]
    assert values == sorted(values)
    assert all(0 <= value <= 1 for value in values)


def outcome(task_id: str, n: int, c: int, *, valid: bool = True, key: str = "") -> Outcome:
    return Outcome(
        task_id=task_id,
        num_samples=n,
        num_correct=c,
        valid=valid,
        grading_key=key or task_id,
        cluster=sum((key or task_id).encode()),
    )


def test_means_over_sets_and_the_reason_for_a_missing_k() -> None:
    scopes = summarise(
        [outcome("A", 2, 1), outcome("B", 2, 2), outcome("C", 0, 0)], [1, 10], seed=0
    )
    assert scopes["all"].pass_at_k == {1: pytest.approx(1 / 2)}
    assert scopes["valid"].pass_at_k == {1: pytest.approx(1 / 2)}
    assert scopes["attempted"].pass_at_k == {1: pytest.approx(3 / 4)}
    assert scopes["all"].blocked_k[10].task_ids == ("A", "B")
    assert "fewer than 10" in scopes["all"].blocked_k[10].reason


def test_one_short_problem_blocks_and_is_named() -> None:
    outcomes = [outcome(f"P{idx}", 100, 3) for idx in range(9)] + [outcome("short", 99, 3)]
    scopes = summarise(outcomes, [1, 100], seed=0)
    assert 100 not in scopes["valid"].pass_at_k
    assert scopes["valid"].blocked_k[100].task_ids == ("short",)


def test_no_samples_at_all_reports_nothing() -> None:
    scope = summarise([outcome("A", 0, 0)], [1], seed=0)["valid"]
    assert scope.pass_at_k == {}
    assert scope.blocked_k[1].reason == "no problem of this set has hypotheses"


def test_invalid_problems_count_in_all_only() -> None:
    scopes = summarise([outcome("A", 1, 1), outcome("B", 1, 0, valid=False)], [1], seed=0)
    assert scopes["valid"].pass_at_k[1] == 1
    assert scopes["all"].pass_at_k[1] == pytest.approx(1 / 2)


def test_distinct_averages_within_equal_tests_first() -> None:
    outcomes = [outcome("A", 1, 1, key="t"), outcome("B", 1, 0, key="t"), outcome("C", 1, 1)]
    scope = summarise(outcomes, [1], seed=0)["distinct"]
    assert scope.num_problems == 2
    assert scope.pass_at_k[1] == pytest.approx(3 / 4)


def test_reasons_count_the_problems() -> None:
    blocked = explain_blocked([outcome("A", 1, 0), outcome("B", 5, 0)], 2)
    assert blocked is not None
    assert blocked.reason == "1 problem has fewer than 2 hypotheses (fewest: 1)"
