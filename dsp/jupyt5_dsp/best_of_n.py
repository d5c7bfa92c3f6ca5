"""Best of n: the pass rate when only the hypothesis with the highest mean log-likelihood is run.

This is how a model serves people who have no test to choose by; the paper's discussion tries it
with n = 100.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jupyt5_dsp.clusters import bootstrap_means
from jupyt5_dsp.curve import choose_ks
from jupyt5_dsp.passk import Outcome

__all__ = ["ScoredSample", "estimate_best_of_n", "summarise_best_of_n"]

# Mean log-probability of its tokens, in nats (None if the provider gave none); did it pass?
ScoredSample = tuple[float | None, bool]


def estimate_best_of_n(samples: Sequence[tuple[float, bool]], ns: Sequence[int]) -> list[float]:
    """Estimate without bias how often the most likely of n random hypotheses passes.

    Args:
        samples: Mean log-probability and outcome of every hypothesis of one problem. Of equal
            ones the earlier counts as more likely.
        ns: Draws, 1 <= n <= number of samples.

    Returns:
        A probability for each n: over all subsets of size n, the share whose most likely member
        passes. The i-th most likely of N is that member in C(N-1-i, n-1) of C(N, n) subsets.
    """
    order = sorted(range(len(samples)), key=lambda idx: -samples[idx][0])
    passed_S = np.array([samples[idx][1] for idx in order], dtype=np.float64)
    return [float(passed_S @ _chances(len(samples), n)) for n in ns]


def summarise_best_of_n(
    samples: Mapping[str, Sequence[ScoredSample]], outcomes: Sequence[Outcome], *, seed: int
) -> dict[str, object] | None:
    """Average over the valid problems all of whose hypotheses have a log-probability.

    Returns:
        ``num_problems``, ``num_left_out`` (valid, with hypotheses, but not all of them scored) and
        ``curve``: rows of n, the estimate, and the ends of its 95 % interval. None if no problem
        is scored.
    """
    scored: list[tuple[Outcome, list[tuple[float, bool]]]] = []
    num_left_out = 0
    for outcome in outcomes:
        own = samples.get(outcome.task_id, ())
        if not outcome.valid or not own:
            continue
        known = [(logprob, passed) for logprob, passed in own if logprob is not None]
        if len(known) == len(own):
            scored.append((outcome, known))
        else:
            num_left_out += 1
    if not scored:
        return None
    ns = choose_ks(min(len(known) for _, known in scored))
    values_PN = np.array([estimate_best_of_n(known, ns) for _, known in scored])
    intervals = bootstrap_means(values_PN, [outcome.cluster for outcome, _ in scored], seed=seed)
    means = [float(mean) for mean in values_PN.mean(axis=0)]
    curve = [[n, mean, *ends] for n, mean, ends in zip(ns, means, intervals, strict=True)]
    return {"num_problems": len(scored), "num_left_out": num_left_out, "curve": curve}


def _chances(num_samples: int, n: int) -> NDArray[np.float64]:
    """Return how likely each rank is to lead a random subset of size n; the sum is 1."""
    ranks = np.arange(num_samples - 1, dtype=np.float64)
    steps = np.maximum(num_samples - ranks - n, 0) / (num_samples - 1 - ranks)
    return (n / num_samples) * np.concatenate(([1.0], np.cumprod(steps)))
