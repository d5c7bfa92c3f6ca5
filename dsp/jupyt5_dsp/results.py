"""``results.json``: what a run found, with nothing in it that changes from run to run."""

from collections import Counter
from collections.abc import Mapping, Sequence

from jupyt5_dsp.curve import choose_ks
from jupyt5_dsp.grading import GradedSample
from jupyt5_dsp.passk import Outcome, Scope, find_clusters, summarise
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.validation import Validation

__all__ = ["make_outcomes", "make_results"]

_NUM_NAMED = 20


def make_outcomes(
    problem_set: ProblemSet,
    graded: Sequence[GradedSample],
    validations: Mapping[str, Validation],
) -> list[Outcome]:
    """Count each problem's hypotheses and passes, in the order of the problems."""
    num_samples = Counter(one.task_id for one in graded)
    num_correct = Counter(one.task_id for one in graded if one.verdict == "passed")
    problems = problem_set.problems
    keys = [problem_set.grading_key(problem) for problem in problems]
    clusters = find_clusters(
        [(problem.notebook_path, key) for problem, key in zip(problems, keys, strict=True)]
    )
    return [
        Outcome(
            task_id=problem.task_id,
            num_samples=num_samples[problem.task_id],
            num_correct=num_correct[problem.task_id],
            valid=validations[problem.task_id].valid,
            grading_key=key,
            cluster=cluster,
        )
        for problem, key, cluster in zip(problems, keys, clusters, strict=True)
    ]


def make_results(
    identity: Mapping[str, object],
    problem_set: ProblemSet,
    graded: Sequence[GradedSample],
    validations: Mapping[str, Validation],
    ks: Sequence[int],
    *,
    seed: int,
) -> dict[str, object]:
    """Put together what ``results.json`` holds.

    Args:
        identity: Suite, provider, settings and environment of the run.
        problem_set: All problems of the run, sampled or not.
        graded: Verdicts of all samples.
        validations: By task id.
        ks: For which k to report pass@k.
        seed: Of the bootstrap.
    """
    outcomes = make_outcomes(problem_set, graded, validations)
    scopes = summarise(outcomes, ks, seed=seed)
    flags = Counter(flag for one in graded if one.verdict == "passed" for flag in one.flags)
    return {
        **identity,
        "num_problems": len(outcomes),
        "num_valid": sum(outcome.valid for outcome in outcomes),
        "num_distinct": scopes["distinct"].num_problems,
        "num_attempted": sum(bool(outcome.num_samples) for outcome in outcomes),
        "num_left_out": sum(not outcome.num_samples for outcome in outcomes),
        "num_samples": len(graded),
        "pass_at_k": {name: _by_k(scope.pass_at_k) for name, scope in scopes.items()},
        "ci95": {name: _by_k(scope.ci95) for name, scope in scopes.items()},
        "blocked_k": {name: _blocked(scope) for name, scope in scopes.items() if scope.blocked_k},
        "curve": _make_curve(outcomes, seed),
        "verdict_counts": dict(sorted(Counter(one.verdict for one in graded).items())),
        "passed_with_flag": dict(sorted(flags.items())),
        "usable_counts": dict(sorted(Counter(v.usable for v in validations.values()).items())),
        "problems": _describe_problems(problem_set, outcomes, validations),
    }


def _describe_problems(
    problem_set: ProblemSet, outcomes: Sequence[Outcome], validations: Mapping[str, Validation]
) -> list[dict[str, object]]:
    return [
        {
            "task_id": outcome.task_id,
            "notebook": problem.notebook_path,
            "num_samples": outcome.num_samples,
            "num_correct": outcome.num_correct,
            "reference": validations[outcome.task_id].reference,
            "usable": validations[outcome.task_id].usable,
            "reason": validations[outcome.task_id].reason,
        }
        for problem, outcome in zip(problem_set.problems, outcomes, strict=True)
    ]


def _make_curve(outcomes: Sequence[Outcome], seed: int) -> list[list[float]]:
    """Return rows of k, pass@k over valid problems, and its interval, as far as k is defined."""
    counts = [o.num_samples for o in outcomes if o.valid and o.num_samples]
    if not counts:
        return []
    scope = summarise(outcomes, choose_ks(min(counts)), seed=seed)["valid"]
    return [[k, value, *(scope.ci95[k] or (value, value))] for k, value in scope.pass_at_k.items()]


def _by_k(values: Mapping[int, object]) -> dict[str, object]:
    return {str(k): value for k, value in values.items()}


def _blocked(scope: Scope) -> dict[str, object]:
    return {
        str(k): {
            "reason": blocked.reason,
            "num_blocking": len(blocked.task_ids),
            "task_ids": list(blocked.task_ids[:_NUM_NAMED]),
        }
        for k, blocked in scope.blocked_k.items()
    }
