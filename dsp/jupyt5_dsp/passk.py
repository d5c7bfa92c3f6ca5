"""pass@k: the unbiased estimate for one problem, and its means over sets of problems."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jupyt5.errors import Jupyt5Error

__all__ = [
    "Blocked",
    "Outcome",
    "Scope",
    "TooFewSamplesError",
    "estimate_pass_at_k",
    "find_clusters",
    "summarise",
]

_NUM_RESAMPLES = 1000
_MIN_CLUSTERS = 2


class TooFewSamplesError(Jupyt5Error):
    """Raised when pass@k is asked of fewer than k hypotheses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one problem went: n hypotheses graded, c of them passed.

    ``cluster`` joins problems that are not independent (see ``find_clusters``).
    """

    task_id: str
    num_samples: int
    num_correct: int
    valid: bool
    grading_key: str
    cluster: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a pass@k is not reported, and because of which problems."""

    reason: str
    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """pass@k over one set of problems, for every k that is defined there."""

    num_problems: int
    pass_at_k: Mapping[int, float]
    ci95: Mapping[int, tuple[float, float] | None]
    blocked_k: Mapping[int, Blocked]


def estimate_pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Estimate pass@k without bias.

    Args:
        num_samples: Hypotheses graded for this problem, n >= k.
        num_correct: How many passed, 0 <= c <= n.
        k: Budget, k >= 1.

    Returns:
        Probability in [0, 1] that at least one of k random hypotheses passes.

    Raises:
        TooFewSamplesError: If n < k.
        ValueError: If k < 1, or c is not between 0 and n.
    """
    if k < 1 or not 0 <= num_correct <= num_samples:
        message = f"pass@{k} of {num_correct} passes in {num_samples} hypotheses has no meaning."
        raise ValueError(message)
    if num_samples < k:
        message = (
            f"pass@{k} is undefined for {num_samples} hypotheses. Draw at least {k}, "
            "or ask for a smaller k."
        )
        raise TooFewSamplesError(message)
    # C(n-c, k) / C(n, k) as a product over the c passes: never a huge number, and every factor
    # falls as k grows, so the estimate never does.
    all_fail = 1.0
    for idx in range(num_correct):
        all_fail *= max(num_samples - k - idx, 0) / (num_samples - idx)
    return 1.0 - all_fail


def summarise(outcomes: Sequence[Outcome], ks: Sequence[int], *, seed: int) -> dict[str, Scope]:
    """Average pass@k over the problem sets that results report.

    Returns:
        ``valid`` (the headline) and ``all``: problems without hypotheses count 0.
        ``attempted``: valid problems that have hypotheses. ``distinct``: valid problems, first
        averaged within each group of identical grading cells.
    """
    valid = [outcome for outcome in outcomes if outcome.valid]
    attempted = [outcome for outcome in valid if outcome.num_samples]

    def by_test(outcome: Outcome) -> str:
        return outcome.grading_key

    def by_problem(outcome: Outcome) -> str:
        return outcome.task_id

    return {
        "valid": _summarise_scope(valid, ks, by_problem, seed),
        "distinct": _summarise_scope(valid, ks, by_test, seed),
        "all": _summarise_scope(outcomes, ks, by_problem, seed),
        "attempted": _summarise_scope(attempted, ks, by_problem, seed),
    }


def find_clusters(keys_by_problem: Sequence[Sequence[str]]) -> list[int]:
    """Number the clusters of problems that share a key, directly or through others.

    Args:
        keys_by_problem: For each problem, e.g. its notebook and the digest of its test.

    Returns:
        A cluster number for each problem, counted from 0 in order of appearance.
    """
    parent = list(range(len(keys_by_problem)))

    def find(idx: int) -> int:
        while parent[idx] != idx:
            parent[idx] = parent[parent[idx]]
            idx = parent[idx]
        return idx

    first_with: dict[str, int] = {}
    for idx, keys in enumerate(keys_by_problem):
        for key in keys:
            root, other = find(idx), find(first_with.setdefault(key, idx))
            parent[max(root, other)] = min(root, other)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(find(idx), len(numbers)) for idx in range(len(parent))]


def _summarise_scope(
    outcomes: Sequence[Outcome], ks: Sequence[int], group_of: Callable[[Outcome], str], seed: int
) -> Scope:
    pass_at_k: dict[int, float] = {}
    ci95: dict[int, tuple[float, float] | None] = {}
    blocked: dict[int, Blocked] = {}
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[group_of(outcome)].append(outcome)
    for k in ks:
        reason = _explain_blocked(outcomes, k)
        if reason:
            blocked[k] = reason
            continue
        values = [
            (members[0].cluster, sum(_value(o, k) for o in members) / len(members))
            for members in groups.values()
        ]
        pass_at_k[k] = sum(value for _, value in values) / len(values)
        ci95[k] = _bootstrap(values, seed)
    return Scope(len(groups), pass_at_k, ci95, blocked)


def _value(outcome: Outcome, k: int) -> float:
    if not outcome.num_samples:
        return 0.0
    return estimate_pass_at_k(outcome.num_samples, outcome.num_correct, k)


def _explain_blocked(outcomes: Sequence[Outcome], k: int) -> Blocked | None:
    if not outcomes:
        return Blocked("no problem belongs to this set", ())
    if not any(outcome.num_samples for outcome in outcomes):
        return Blocked("no problem of this set has hypotheses", ())
    short = tuple(o.task_id for o in outcomes if 0 < o.num_samples < k)
    if not short:
        return None
    fewest = min(o.num_samples for o in outcomes if o.num_samples)
    reason = f"{len(short)} problems have fewer than {k} hypotheses (fewest: {fewest})"
    return Blocked(reason, short)


def _bootstrap(values: Sequence[tuple[int, float]], seed: int) -> tuple[float, float] | None:
    """Return a 95 % interval, resampling whole clusters; None for fewer than two clusters."""
    import numpy as np

    numbers = sorted({cluster for cluster, _ in values})
    if len(numbers) < _MIN_CLUSTERS:
        return None
    position = {cluster: idx for idx, cluster in enumerate(numbers)}
    sums, counts = np.zeros(len(numbers)), np.zeros(len(numbers))
    for cluster, value in values:
        sums[position[cluster]] += value
        counts[position[cluster]] += 1
    generator = np.random.default_rng(seed)
    draws = generator.integers(0, len(numbers), size=(_NUM_RESAMPLES, len(numbers)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
