"""Best of n by mean log-likelihood: against counting every subset."""

from itertools import combinations
from typing import Any

import pytest

from jupyt5_dsp.best_of_n import estimate_best_of_n, summarise_best_of_n
from jupyt5_dsp.passk import Outcome

SAMPLES = [(-0.9, True), (-0.2, False), (-0.5, True), (-0.7, False), (-0.3, True), (-0.8, True)]


def outcome(task_id: str, *, valid: bool = True, cluster: int = 0) -> Outcome:
    return Outcome(
        task_id=task_id,
        num_samples=6,
        num_correct=3,
        valid=valid,
        grading_key=task_id,
        cluster=cluster,
    )


@pytest.mark.parametrize("n", range(1, 7))
def test_equals_the_mean_over_all_subsets(n: int) -> None:
    subsets = list(combinations(SAMPLES, n))
    expected = sum(max(subset)[1] for subset in subsets) / len(subsets)
    assert estimate_best_of_n(SAMPLES, [n]) == [pytest.approx(expected)]


def test_one_sample() -> None:
    assert estimate_best_of_n([(-1.0, True)], [1]) == [1.0]


def test_large_numbers_stay_probabilities() -> None:
    samples = [(-float(idx), idx % 3 == 0) for idx in range(20_000)]
    values = estimate_best_of_n(samples, [1, 100, 19_999, 20_000])
    assert values[0] == pytest.approx(1 / 3, abs=1e-4)
    assert values[-1] == 1.0
    assert all(0 <= value <= 1 for value in values)


def test_problems_without_all_scores_are_left_out_and_counted() -> None:
    scored = {
        "A": SAMPLES,
        "B": [(-0.1, False), (None, True)],
        "C": SAMPLES,
        "invalid": SAMPLES,
        "D": [(-1.0, False)] * 6,
    }
    outcomes = [
        outcome("A"),
        outcome("B"),
        outcome("C", cluster=1),
        outcome("invalid", valid=False),
        outcome("D", cluster=2),
        outcome("never sampled"),
    ]
    found: Any = summarise_best_of_n(scored, outcomes, seed=0)
    assert found is not None
    assert (found["num_problems"], found["num_left_out"]) == (3, 1)
    first, last = found["curve"][0], found["curve"][-1]
    assert first[:2] == [1, pytest.approx((4 / 6 + 4 / 6 + 0) / 3)]
    assert last[:2] == [6, 0.0]  # The most likely of all six fails in A and C, too.
    assert first[2] <= first[1] <= first[3]


def test_equal_problems_leave_doubt() -> None:
    samples = {name: [SAMPLES[0], (-2.0, False)] for name in "AB"}
    found: Any = summarise_best_of_n(samples, [outcome("A"), outcome("B", cluster=1)], seed=0)
    share = 1 - 0.025 ** (1 / 2)  # Of other problems, that two draws can have missed.
    assert found["curve"] == [
        [1, 0.5, pytest.approx(0.5 - share / 2), pytest.approx(0.5 + share / 2)],
        [2, 1.0, pytest.approx(1 - share), 1.0],
    ]


def test_no_scores_no_summary() -> None:
    assert summarise_best_of_n({"A": [(None, True)]}, [outcome("A")], seed=0) is None
