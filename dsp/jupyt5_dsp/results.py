"""``results.json``: what a run found, with nothing in it that changes from run to run."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from jupyt5_dsp.best_of_n import ScoredSample, summarise_best_of_n
from jupyt5_dsp.clusters import find_clusters
from jupyt5_dsp.curve import choose_ks
from jupyt5_dsp.passk import Outcome, Scope, summarise, summarise_scope
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.validation import Validation

__all__ = ["SUSPECT_PREFIX", "Judged", "counts_as_passed", "make_outcomes", "make_results"]

SUSPECT_PREFIX = "suspect:"

_NUM_NAMED = 20


class Judged(Protocol):
    """A graded sample, as far as results need it."""

    @property
    def task_id(self) -> str:
        """The problem."""
        ...

    @property
    def sample_idx(self) -> int:
        """The sample's number in its problem."""
        ...

    @property
    def verdict(self) -> str:
        """Kind of the verdict."""
        ...

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes the verdict doubtful."""
        ...


def counts_as_passed(verdict: str, flags: Sequence[str], *, strict: bool) -> bool:
    """Say whether a sample counts as correct: ``--strict`` fails passes with a suspicion flag."""
    suspect = any(flag.startswith(SUSPECT_PREFIX) for flag in flags)
    return verdict == "passed" and not (strict and suspect)


def make_outcomes(
    problem_set: ProblemSet,
    graded: Sequence[Judged],
    validations: Mapping[str, Validation],
    *,
    strict: bool = False,
) -> list[Outcome]:
    """Count each problem's hypotheses and passes, in the order of the problems.

    A problem that was not validated (the run was broken off before) is not valid.
    """
    num_samples = Counter(one.task_id for one in graded)
    num_correct = Counter(
        one.task_id for one in graded if counts_as_passed(one.verdict, one.flags, strict=strict)
    )
    problems = problem_set.problems
    keys = [problem_set.grading_key(problem) for problem in problems]
    clusters = find_clusters(
        [(problem.notebook_path, key) for problem, key in zip(problems, keys, strict=True)]
    )
    outcomes: list[Outcome] = []
    for problem, key, cluster in zip(problems, keys, clusters, strict=True):
        found = validations.get(problem.task_id)
        outcome = Outcome(
            task_id=problem.task_id,
            num_samples=num_samples[problem.task_id],
            num_correct=num_correct[problem.task_id],
            valid=found is not None and found.valid,
            grading_key=key,
            cluster=cluster,
        )
        outcomes.append(outcome)
    return outcomes


def make_results(
    identity: Mapping[str, object],
    problem_set: ProblemSet,
    graded: Sequence[Judged],
    validations: Mapping[str, Validation],
    ks: Sequence[int],
    *,
    seed: int,
    samples: Sequence[Sample] = (),
    strict: bool = False,
    partial: bool = False,
) -> dict[str, object]:
    """Put together what ``results.json`` holds.

    Args:
        identity: Suite, provider, settings and environment of the run.
        problem_set: All problems of the run, sampled or not.
        graded: Verdicts of all samples; of those that there are, for an interrupted run.
        validations: By task id.
        ks: For which k to report pass@k.
        seed: Of the bootstrap.
        samples: The samples themselves, for best-of-n by log-probability.
        strict: Count passes with a suspicion flag as failed. ``verdict_counts`` stays as it is.
        partial: Samples or validations are missing, because the run was broken off.
    """
    outcomes = make_outcomes(problem_set, graded, validations, strict=strict)
    return {
        **identity,
        "strict": strict,
        "partial": partial,
        **_summarise(outcomes, summarise(outcomes, ks, seed=seed), len(graded)),
        "curve": _make_curve(outcomes, seed),
        "best_of_n": _make_best_of_n(outcomes, graded, samples, strict=strict, seed=seed),
        **_count_verdicts(graded),
        "usable_counts": dict(sorted(Counter(v.usable for v in validations.values()).items())),
        "problems": _describe_problems(problem_set, outcomes, validations),
    }


def _count_verdicts(graded: Sequence[Judged]) -> dict[str, object]:
    """Count verdicts as they came; ``--strict`` changes none of them."""
    passed = [one for one in graded if one.verdict == "passed"]
    flags = Counter(flag for one in passed for flag in one.flags)
    num_trusted = sum(counts_as_passed(one.verdict, one.flags, strict=True) for one in passed)
    return {
        "verdict_counts": dict(sorted(Counter(one.verdict for one in graded).items())),
        "passed_with_flag": dict(sorted(flags.items())),
        "num_suspect_passes": len(passed) - num_trusted,
    }


def _summarise(
    outcomes: Sequence[Outcome], scopes: Mapping[str, Scope], num_samples: int
) -> dict[str, object]:
    return {
        "num_problems": len(outcomes),
        "num_valid": sum(outcome.valid for outcome in outcomes),
        "num_distinct": scopes["distinct"].num_problems,
        "num_attempted": sum(bool(outcome.num_samples) for outcome in outcomes),
        "num_left_out": sum(not outcome.num_samples for outcome in outcomes),
        "num_samples": num_samples,
        "pass_at_k": {name: _by_k(scope.pass_at_k) for name, scope in scopes.items()},
        "ci95": {name: _by_k(scope.ci95) for name, scope in scopes.items()},
        "blocked_k": {name: _blocked(scope) for name, scope in scopes.items() if scope.blocked_k},
    }


def _describe_problems(
    problem_set: ProblemSet, outcomes: Sequence[Outcome], validations: Mapping[str, Validation]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for problem, outcome in zip(problem_set.problems, outcomes, strict=True):
        found = validations.get(outcome.task_id)
        row: dict[str, object] = {
            "task_id": outcome.task_id,
            "notebook": problem.notebook_path,
            "num_samples": outcome.num_samples,
            "num_correct": outcome.num_correct,
            "reference": found.reference if found else "not run",
            "usable": found.usable if found else "not validated",
            "reason": found.reason if found else "the run was broken off before",
            "grading_key": outcome.grading_key,
            "cluster": outcome.cluster,
        }
        rows.append(row)
    return rows


def _make_curve(outcomes: Sequence[Outcome], seed: int) -> list[list[float]]:
    """Return rows of k, pass@k over valid problems, and its interval, as far as k is defined."""
    valid = [outcome for outcome in outcomes if outcome.valid]
    counts = [outcome.num_samples for outcome in valid if outcome.num_samples]
    if not counts:
        return []
    scope = summarise_scope(valid, choose_ks(min(counts)), seed=seed)
    return [[k, value, *scope.ci95[k]] for k, value in scope.pass_at_k.items()]


def _make_best_of_n(
    outcomes: Sequence[Outcome],
    graded: Sequence[Judged],
    samples: Sequence[Sample],
    *,
    strict: bool,
    seed: int,
) -> dict[str, object] | None:
    logprobs = {(one.task_id, one.sample_idx): one.mean_logprob for one in samples}
    by_task: dict[str, list[ScoredSample]] = defaultdict(list)
    for one in graded:
        logprob = logprobs.get((one.task_id, one.sample_idx))
        passed = counts_as_passed(one.verdict, one.flags, strict=strict)
        by_task[one.task_id].append((logprob, passed))
    return summarise_best_of_n(by_task, outcomes, seed=seed)


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
