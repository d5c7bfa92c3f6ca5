"""pass@k: the unbiased estimate for one problem, and its means over sets of problems."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jupyt5.errors import Jupyt5Error
from jupyt5_dsp.clusters import Interval, bootstrap_means

__all__ = [
    "Blocked",
    "Outcome",
    "Scope",
    "TooFewSamplesError",
    "estimate_pass_at_k",
    "explain_blocked",
    "mean_by_group",
    "summarise",
    "summarise_scope",
    "tabulate_pass_at_k",
]


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
    ci95: Mapping[int, Interval]
    blocked_k: Mapping[int, Blocked]


def estimate_pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Estimate pass@k without bias.

    Args:
        num_samples: Hypotheses graded for this problem, n >= k.
        num_correct: How many passed, 0 <= c <= n.
        k: Budget, k >= 1.

    Returns:
        Probability in [0, 1] that at least one of k random hypotheses passes: 1 - C(n-c, k) /
        C(n, k) (Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1).

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
    return float(_estimate_row(num_samples, num_correct, np.array([k], dtype=np.int64))[0])


def tabulate_pass_at_k(outcomes: Sequence[Outcome], ks: Sequence[int]) -> NDArray[np.float64]:
    """Return pass@k of every problem.

    Args:
        outcomes: The problems; one without hypotheses counts 0.
        ks: Budgets, none of them larger than a problem's number of hypotheses.

    Returns:
        values_PK: (problems, ks), float64, in [0, 1].
    """
    ks_K = np.asarray(ks, dtype=np.int64)
    # Problems with the same n and c are many: n is mostly the same number for all.
    rows: dict[tuple[int, int], NDArray[np.float64]] = {(0, 0): np.zeros(len(ks_K))}
    values_PK = np.empty((len(outcomes), len(ks_K)))
    for idx, outcome in enumerate(outcomes):
        key = (outcome.num_samples, outcome.num_correct)
        if key not in rows:
            rows[key] = _estimate_row(*key, ks_K)
        values_PK[idx] = rows[key]
    return values_PK


def summarise(outcomes: Sequence[Outcome], ks: Sequence[int], *, seed: int) -> dict[str, Scope]:
    """Average pass@k over the problem sets that results report.

    Returns:
        ``valid`` (the headline) and ``all``: problems without hypotheses count 0.
        ``attempted``: valid problems that have hypotheses. ``distinct``: valid problems, first
        averaged within each group of identical grading cells.
    """
    valid = [outcome for outcome in outcomes if outcome.valid]
    attempted = [outcome for outcome in valid if outcome.num_samples]
    return {
        "valid": summarise_scope(valid, ks, seed=seed),
        "distinct": summarise_scope(valid, ks, seed=seed, group_of=lambda o: o.grading_key),
        "all": summarise_scope(outcomes, ks, seed=seed),
        "attempted": summarise_scope(attempted, ks, seed=seed),
    }


def summarise_scope(
    outcomes: Sequence[Outcome],
    ks: Sequence[int],
    *,
    seed: int,
    group_of: Callable[[Outcome], str] = lambda outcome: outcome.task_id,
) -> Scope:
    """Average pass@k over one set of problems.

    Args:
        outcomes: The problems of the set.
        ks: Budgets to report; those that are undefined here come back in ``blocked_k``.
        seed: Of the bootstrap.
        group_of: Problems with equal answers are averaged first and count once.
    """
    blocked = {k: reason for k in ks if (reason := explain_blocked(outcomes, k))}
    open_ks = [k for k in ks if k not in blocked]
    num_groups = len({group_of(outcome) for outcome in outcomes})
    if not open_ks:
        return Scope(num_groups, {}, {}, blocked)
    values_PK = tabulate_pass_at_k(outcomes, open_ks)
    values_GK, clusters = mean_by_group(values_PK, outcomes, group_of)
    means = (float(mean) for mean in values_GK.mean(axis=0))
    intervals = bootstrap_means(values_GK, clusters, seed=seed)
    return Scope(
        num_groups,
        dict(zip(open_ks, means, strict=True)),
        dict(zip(open_ks, intervals, strict=True)),
        blocked,
    )


def mean_by_group(
    values_PK: NDArray[np.float64],
    outcomes: Sequence[Outcome],
    group_of: Callable[[Outcome], str],
) -> tuple[NDArray[np.float64], list[int]]:
    """Average the rows of problems of one group.

    Returns:
        values_GK: (groups, columns), and the cluster of each group. Problems of one group have
        the same test, so they are in one cluster.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for idx, outcome in enumerate(outcomes):
        members[group_of(outcome)].append(idx)
    values_GK = np.stack([values_PK[idxs].mean(axis=0) for idxs in members.values()])
    return values_GK, [outcomes[idxs[0]].cluster for idxs in members.values()]


def explain_blocked(outcomes: Sequence[Outcome], k: int) -> Blocked | None:
    """Return why pass@k has no meaning over these problems; None if it has one."""
    if not outcomes:
        return Blocked("no problem belongs to this set", ())
    if not any(outcome.num_samples for outcome in outcomes):
        return Blocked("no problem of this set has hypotheses", ())
    short = tuple(o.task_id for o in outcomes if 0 < o.num_samples < k)
    if not short:
        return None
    fewest = min(o.num_samples for o in outcomes if o.num_samples)
    count = f"{len(short)} problem{'s have' if len(short) > 1 else ' has'}"
    return Blocked(f"{count} fewer than {k} hypotheses (fewest: {fewest})", short)


def _estimate_row(
    num_samples: int, num_correct: int, ks_K: NDArray[np.int64]
) -> NDArray[np.float64]:
    # C(n-c, k) / C(n, k) as a product over the c passes: never a huge number, and every factor
    # falls as k grows, so the estimate never does.
    left_C = num_samples - np.arange(num_correct, dtype=np.int64)
    factors_KC = np.maximum(left_C[None, :] - ks_K[:, None], 0) / left_C[None, :]
    return 1.0 - factors_KC.prod(axis=1)
