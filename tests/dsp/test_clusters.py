"""Intervals over clusters: they say 95 %, two-sided, and claim no certainty from a few of them."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom, binomtest

from jupyt5_dsp.clusters import Interval, bootstrap_means, find_clusters
from jupyt5_dsp.passk import Outcome, summarise


def outcome(task_id: str, num_samples: int, num_correct: int, cluster: int) -> Outcome:
    return Outcome(
        task_id=task_id,
        num_samples=num_samples,
        num_correct=num_correct,
        valid=True,
        grading_key=task_id,
        cluster=cluster,
    )


def intervals_of(values_GC: NDArray[np.float64], *, lowest: float = 0.0) -> list[Interval]:
    """Each row a cluster of its own."""
    return bootstrap_means(values_GC, list(range(len(values_GC))), seed=0, lowest=lowest)


def test_clusters_join_through_others() -> None:
    keys = [("nb1", "t1"), ("nb2", "t2"), ("nb2", "t1"), ("nb3", "t3")]
    assert find_clusters(keys) == [0, 0, 0, 1]


def test_interval_is_seeded_and_resamples_clusters() -> None:
    many = [outcome(str(idx), 40, idx, idx) for idx in range(41)]
    first = summarise(many, [1], seed=3)["valid"].ci95[1]
    assert first == summarise(many, [1], seed=3)["valid"].ci95[1]
    assert first != summarise(many, [1], seed=4)["valid"].ci95[1]
    assert 0.3 < first[0] < 0.5 < first[1] < 0.7
    # The same problems, but all of the harder ones belong together, and all of the others.
    two = [outcome(str(idx), 40, idx, idx // 21) for idx in range(41)]
    low, high = summarise(two, [1], seed=3)["valid"].ci95[1]
    assert low < 0.25
    assert high > 0.75


@pytest.mark.parametrize("num_clusters", [1, 2, 10, 164])
def test_all_or_none_leaves_doubt_by_clusters(num_clusters: int) -> None:
    for num_correct in (0, 5):
        # Two problems a cluster: doubt goes by clusters.
        outcomes = [
            outcome(f"{idx}{half}", 5, num_correct, idx)
            for idx in range(num_clusters)
            for half in "ab"
        ]
        count = num_clusters if num_correct else 0
        exact = binomtest(count, num_clusters).proportion_ci(0.95, method="exact")
        for scope in summarise(outcomes, [1, 5], seed=0).values():
            assert scope.ci95 == {k: pytest.approx((exact.low, exact.high)) for k in (1, 5)}


def test_equal_rates_between_leave_doubt_at_both_ends() -> None:
    # 20 problems, each solved by 2 of 3 hypotheses: they could all be sure or hopeless, or not.
    outcomes = [outcome(str(idx), 3, 2, idx) for idx in range(20)]
    share = binomtest(0, 20).proportion_ci(0.95, method="exact").high
    expected = (2 / 3 - share * 2 / 3, 2 / 3 + share / 3)
    assert summarise(outcomes, [1], seed=0)["valid"].ci95[1] == pytest.approx(expected)
    assert intervals_of(np.zeros((10, 1)), lowest=-1.0) == [
        pytest.approx((-0.3085, 0.3085), abs=1e-4)
    ]
    assert intervals_of(np.ones((5, 1)), lowest=-1.0) == [pytest.approx((-0.0436, 1.0), abs=1e-4)]


@pytest.mark.parametrize("lowest", [0.0, -1.0])
def test_equal_values_miss_the_mean_by_2_5_percent_at_most_on_either_side(lowest: float) -> None:
    # Every distribution over four values, by twentieths; draws that are all alike are the event.
    values_V = np.array([lowest, (3 * lowest + 1) / 4, (lowest + 1) / 2, 1.0])
    shares = [s for s in product(range(21), repeat=4) if sum(s) == 20]
    shares_SV = np.array(shares) / 20
    means_S = shares_SV @ values_V
    worst = 0.0
    for num_clusters in (1, 2, 3, 6, 10):
        same_VC = np.tile(values_V, (num_clusters, 1))
        low_V, high_V = np.array(intervals_of(same_VC, lowest=lowest)).T
        chance_SV = shares_SV**num_clusters
        above_S = (chance_SV * (means_S[:, None] > high_V + 1e-9)).sum(axis=1)
        below_S = (chance_SV * (means_S[:, None] < low_V - 1e-9)).sum(axis=1)
        assert max(above_S.max(), below_S.max()) <= 0.025
        worst = max(worst, above_S.max(), below_S.max())
    assert worst > 0.02  # No wider than it has to be.


def test_rates_near_the_ends_are_covered() -> None:
    # All outcomes of 10 problems with one hypothesis each: exact coverage, nothing drawn.
    passes = np.arange(11)
    solved_GC = (np.arange(10)[:, None] < passes).astype(float)
    low_C, high_C = np.array(intervals_of(solved_GC)).T
    for rate in (0.001, 0.01, 0.03, 0.05, 0.1, 0.9, 0.95, 0.97, 0.99, 0.999):
        held_C = (low_C <= rate + 1e-9) & (rate <= high_C + 1e-9)
        assert held_C @ binom.pmf(passes, 10, rate) >= 0.95


def test_unequal_problems_near_the_ends_are_covered() -> None:
    # 10 problems of unequal difficulty, 5 hypotheses each, drawn 1000 times.
    generator = np.random.default_rng(7)
    for rate in (0.01, 0.05, 0.1, 0.9, 0.95, 0.99):
        drawn_GC = beta.rvs(rate, 1 - rate, size=(10, 1000), random_state=generator)
        passed_GC = np.asarray(generator.binomial(5, drawn_GC), dtype=np.float64)
        low_C, high_C = np.array(intervals_of(passed_GC / 5)).T
        assert ((low_C <= rate) & (rate <= high_C)).mean() >= 0.95


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    # 30 clusters of 4 problems that go together, true mean 1/2: an interval that took problems
    # for independent would be half as wide and miss far more often.
    generator = np.random.default_rng(1)
    rates_GC = np.repeat(generator.beta(1, 1, size=(30, 1000)), 4, axis=0)
    intervals = bootstrap_means(rates_GC, np.repeat(np.arange(30), 4).tolist(), seed=0)
    num_covered = sum(low <= 0.5 <= high for low, high in intervals)
    assert 920 <= num_covered <= 970


@pytest.mark.parametrize("num_clusters", [4, 10, 100])
def test_more_passes_never_lower_an_end(num_clusters: int) -> None:
    counts = np.arange(num_clusters + 1)
    solved_GC = (np.arange(num_clusters)[:, None] < counts).astype(float)
    for lowest in (0.0, -1.0):
        ends_C2 = np.array(intervals_of(lowest + (1 - lowest) * solved_GC, lowest=lowest))
        assert (np.diff(ends_C2, axis=0) >= 0).all()
        assert (ends_C2[:, 0] >= lowest).all()
        assert (ends_C2[:, 1] <= 1).all()


def test_columns_share_the_draws() -> None:
    values_GC = np.random.default_rng(0).random((50, 1)) / 2
    both = intervals_of(np.hstack([values_GC, values_GC + 0.5]))
    assert both[1] == pytest.approx((both[0][0] + 0.5, both[0][1] + 0.5))
