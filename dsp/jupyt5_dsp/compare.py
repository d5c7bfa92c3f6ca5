"""``dsp-eval compare A B``: is B better than A, beyond what chance explains?"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5_dsp.clusters import FEW_CLUSTERS, bootstrap_means
from jupyt5_dsp.jsonl import read_jsonl
from jupyt5_dsp.passk import Outcome, explain_blocked, mean_by_group, tabulate_pass_at_k
from jupyt5_dsp.report.write import read_results
from jupyt5_dsp.results import counts_as_passed

__all__ = ["compare_runs", "describe_comparison"]

# What must be equal for a comparison to mean anything, and what is told if it differs.
_MUST_MATCH = ("suite", "suite_version", "strict")
_TOLD = ("settings", "environment")
_NUM_SHOWN = 80


class _TestResult(Protocol):
    pvalue: float


@dataclass(frozen=True, slots=True)
class _Run:
    """One side: its results, and its problems by task id in their order."""

    path: Path
    results: Mapping[str, Any]
    problems: Mapping[str, Mapping[str, Any]]


def compare_runs(a_path: Path, b_path: Path, *, seed: int = 0) -> dict[str, object]:
    """Compare two runs over the problems that are valid in both.

    Args:
        a_path: Folder of a finished run.
        b_path: Another one, over the same problems.
        seed: Of the bootstrap.

    Returns:
        JSON-like. ``pass_at_k`` has for each scope (``valid``, ``distinct``) and k the two means,
        ``difference`` (B minus A) and its 95 % interval from a paired bootstrap over clusters.
        ``mcnemar`` is the exact test on the first problem of each group of identical tests.
        "Solved" means: by one of the first m hypotheses, m being the smaller number of the two;
        ``num_cut`` says for how many pairs the numbers differ. Problems that a run has no
        hypotheses for are left out of the test (``num_left_out``); in ``pass_at_k`` they count 0,
        as in the run's own results (``num_missing``).

    Raises:
        UsageError: If the runs are over different problems or suite versions, or one is partial.
        ProblemSetError: If a run is unfinished or damaged.
    """
    a, b = _read_run(a_path), _read_run(b_path)
    _refuse_unequal(a, b)
    try:
        return _compare(a, b, seed)
    except (KeyError, TypeError, ValueError) as exc:
        message = (
            f"results.json of {a_path} or {b_path} is damaged or of an older version ({exc!r}). "
            "Repeat its dsp-eval run command."
        )
        raise ProblemSetError(message) from exc


def describe_comparison(found: Mapping[str, Any]) -> list[str]:
    """Return a comparison as lines for people."""
    lines = [f"A  {found['a']['provider']}  {found['a']['run']}"]
    lines.append(f"B  {found['b']['provider']}  {found['b']['run']}")
    lines.append(f"{found['suite_version']}, {_word_valid(found)}")
    lines += [f"differs: {text}" for text in found["differing"]]
    lines += _iter_cautions(found)
    lines.append("")
    lines.append(f"{'over':<10}{'k':>5}{'A':>9}{'B':>9}{'B - A':>9}  95 %")
    for scope, by_k in found["pass_at_k"].items():
        for k, row in by_k.items():
            band = "[{:+.4f}, {:+.4f}]".format(*row["ci95"])
            values = f"{row['a']:>9.4f}{row['b']:>9.4f}{row['difference']:>+9.4f}"
            lines.append(f"{scope:<10}{k:>5}{values}  {band}")
    lines += [f"pass@{k} is not compared: {why}" for k, why in found["blocked_k"].items()]
    lines += ["", _word_mcnemar(found["mcnemar"])]
    for key, label in (("only_a", "solved by A only"), ("only_b", "solved by B only")):
        ids: Sequence[str] = found["changed_sides"][key]
        lines.append(f"{label}: {len(ids)}" + (f" ({', '.join(ids)})" if ids else ""))
    return lines


def _word_valid(found: Mapping[str, Any]) -> str:
    num_valid = found["num_valid"]
    more = ", ".join(
        f"{found[f'num_valid_only_{name}']} more only in {name.upper()}"
        for name in "ab"
        if found[f"num_valid_only_{name}"]
    )
    text = f"{num_valid} problem{'' if num_valid == 1 else 's'} valid in both"
    return f"{text} ({more})" if more else text


def _iter_cautions(found: Mapping[str, Any]) -> Iterator[str]:
    for name, count in found["num_missing"].items():
        if count:
            yield f"{name.upper()} has no hypotheses for {count} of these problems: they count 0"
    if found["pass_at_k"]["valid"] and found["num_clusters"] < FEW_CLUSTERS:
        yield f"few independent clusters of problems ({found['num_clusters']}): rough intervals"


def _word_mcnemar(test: Mapping[str, Any]) -> str:
    text = (
        f"one problem a test ({test['num_groups']}): solved by both {test['both']}, only by A "
        f"{test['only_a']}, only by B {test['only_b']}, by neither {test['neither']}; "
        f"McNemar, exact: p = {test['p_value']:.3g}"
    )
    if test["num_cut"]:
        text += (
            f"\nA and B have different numbers of hypotheses in {test['num_cut']} of these pairs: "
            "solved means there by one of the first, as many as both have"
        )
    if test["num_left_out"]:
        text += f"\nleft out there, since A or B has no hypotheses: {test['num_left_out']}"
    return text


def _read_run(path: Path) -> _Run:
    results = read_results(path)
    if results.get("partial"):
        message = f"{path} is a run that was broken off. Repeat its dsp-eval run command first."
        raise UsageError(message)
    try:
        problems = {problem["task_id"]: problem for problem in results["problems"]}
    except (KeyError, TypeError) as exc:
        message = f"{path / 'results.json'} is damaged ({exc!r}). Repeat the dsp-eval run command."
        raise ProblemSetError(message) from exc
    return _Run(path, results, problems)


def _refuse_unequal(a: _Run, b: _Run) -> None:
    for name in _MUST_MATCH:
        here, there = a.results.get(name), b.results.get(name)
        if here != there:
            message = (
                f"{a.path} and {b.path} cannot be compared: {name} is {json.dumps(here)} in the "
                f"first, {json.dumps(there)} in the second. Repeat one run like the other."
            )
            raise UsageError(message)
    digests = [run.results.get("settings", {}).get("problem_set") for run in (a, b)]
    if digests[0] != digests[1] or list(a.problems) != list(b.problems):
        odd = sorted(a.problems.keys() ^ b.problems.keys())
        reason = f"only one has {', '.join(odd[:5])}" if odd else "their notebooks differ"
        message = (
            f"{a.path} and {b.path} cannot be compared: they are over different problem sets "
            f"({reason}). Repeat one run with the other's --problems and --limit."
        )
        raise UsageError(message)


def _compare(a: _Run, b: _Run, seed: int) -> dict[str, object]:
    valid = [_find_valid(run) for run in (a, b)]
    task_ids = [task_id for task_id in a.problems if task_id in valid[0] & valid[1]]
    pair = (_make_outcomes(a, task_ids), _make_outcomes(b, task_ids))
    ks = sorted(
        {int(k) for run in (a, b) for scope in run.results["pass_at_k"].values() for k in scope}
    )
    blocked = {
        str(k): f"{reason.reason} in {name}"
        for k in ks
        for name, outcomes in zip("AB", pair, strict=True)
        if (reason := explain_blocked(outcomes, k))
    }
    open_ks = [k for k in ks if str(k) not in blocked]
    solved = _find_solved(a, b, task_ids)
    only_a = [task_id for task_id in task_ids if solved[task_id] == (True, False)]
    only_b = [task_id for task_id in task_ids if solved[task_id] == (False, True)]
    return {
        "a": {"run": str(a.path), "provider": a.results["provider"]},
        "b": {"run": str(b.path), "provider": b.results["provider"]},
        "suite_version": a.results["suite_version"],
        "strict": a.results.get("strict", False),
        "num_problems": len(a.problems),
        "num_valid": len(task_ids),
        "num_valid_only_a": len(valid[0] - valid[1]),
        "num_valid_only_b": len(valid[1] - valid[0]),
        "num_missing": {
            name: sum(not outcome.num_samples for outcome in outcomes)
            for name, outcomes in zip("ab", pair, strict=True)
        },
        "num_clusters": len({outcome.cluster for outcome in pair[0]}),
        "differing": _list_differing(a, b),
        "pass_at_k": {
            "valid": _difference(pair, open_ks, seed=seed, distinct=False),
            "distinct": _difference(pair, open_ks, seed=seed, distinct=True),
        },
        "blocked_k": blocked,
        "mcnemar": _test_mcnemar(pair, solved),
        "changed_sides": {"only_a": only_a, "only_b": only_b},
    }


def _find_valid(run: _Run) -> frozenset[str]:
    return frozenset(
        task_id for task_id, problem in run.problems.items() if problem["usable"] == "yes"
    )


def _make_outcomes(run: _Run, task_ids: Sequence[str]) -> list[Outcome]:
    return [
        Outcome(
            task_id=task_id,
            num_samples=run.problems[task_id]["num_samples"],
            num_correct=run.problems[task_id]["num_correct"],
            valid=True,
            grading_key=run.problems[task_id]["grading_key"],
            cluster=run.problems[task_id]["cluster"],
        )
        for task_id in task_ids
    ]


def _difference(
    pair: tuple[Sequence[Outcome], Sequence[Outcome]],
    ks: Sequence[int],
    *,
    seed: int,
    distinct: bool,
) -> dict[str, object]:
    """Return the difference for each k; a resample draws the same clusters for both runs."""
    if not ks:
        return {}

    def group_of(outcome: Outcome) -> str:
        return outcome.grading_key if distinct else outcome.task_id

    (a_GK, clusters), (b_GK, _) = (
        mean_by_group(tabulate_pass_at_k(outcomes, ks), outcomes, group_of) for outcomes in pair
    )
    intervals = bootstrap_means(b_GK - a_GK, clusters, seed=seed, lowest=-1.0)
    means = zip(ks, a_GK.mean(axis=0), b_GK.mean(axis=0), intervals, strict=True)
    return {
        str(k): {
            "a": float(a_mean),
            "b": float(b_mean),
            "difference": float(b_mean - a_mean),
            "ci95": list(interval),
        }
        for k, a_mean, b_mean, interval in means
    }


def _find_solved(a: _Run, b: _Run, task_ids: Sequence[str]) -> dict[str, tuple[bool, bool]]:
    """Say for each problem whether A and B solved it, from equally many hypotheses of each."""
    sizes = {
        task_id: (a.problems[task_id]["num_samples"], b.problems[task_id]["num_samples"])
        for task_id in task_ids
    }
    uneven = {task_id: min(size) for task_id, size in sizes.items() if size[0] != size[1]}
    early = [_find_early(run, uneven) if uneven else frozenset[str]() for run in (a, b)]

    def solved(run: _Run, by: frozenset[str], task_id: str) -> bool:
        return task_id in by if task_id in uneven else run.problems[task_id]["num_correct"] > 0

    return {
        task_id: (solved(a, early[0], task_id), solved(b, early[1], task_id))
        for task_id in task_ids
    }


def _find_early(run: _Run, limits: Mapping[str, int]) -> frozenset[str]:
    """Return the problems that one of the first so many hypotheses solved."""
    strict = bool(run.results.get("strict"))
    passes: dict[tuple[str, int], bool] = {}
    for record in read_jsonl(run.path / "verdicts.jsonl"):
        task_id, sample_idx = str(record.get("task_id")), record.get("sample_idx")
        if isinstance(sample_idx, int) and sample_idx < limits.get(task_id, 0):
            flags = [str(flag) for flag in cast("list[object]", record.get("flags") or [])]
            passed = counts_as_passed(str(record.get("verdict")), flags, strict=strict)
            passes[task_id, sample_idx] = passed
    return frozenset(task_id for (task_id, _), passed in passes.items() if passed)


def _test_mcnemar(
    pair: tuple[Sequence[Outcome], Sequence[Outcome]], solved: Mapping[str, tuple[bool, bool]]
) -> dict[str, object]:
    """Test whether A and B solve equally many tests; the first problem speaks for its group."""
    from scipy.stats import (  # pyright: ignore[reportMissingTypeStubs]
        binomtest,  # pyright: ignore[reportUnknownVariableType]
    )

    sizes = {a.task_id: (a.num_samples, b.num_samples) for a, b in zip(*pair, strict=True)}
    tried = [outcome for outcome in pair[0] if min(sizes[outcome.task_id])]
    first = {outcome.grading_key: outcome.task_id for outcome in reversed(tried)}
    pairs = [solved[task_id] for task_id in first.values()]
    only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
    num_discordant = only_a + only_b
    # McNemar's exact test is the sign test on the pairs that differ.
    test = cast("Callable[[int, int], _TestResult]", binomtest)
    p_value = test(only_a, num_discordant).pvalue if num_discordant else 1.0
    return {
        "num_groups": len(pairs),
        "num_cut": sum(len(set(sizes[task_id])) > 1 for task_id in first.values()),
        "num_left_out": len({outcome.grading_key for outcome in pair[0]} - first.keys()),
        "both": pairs.count((True, True)),
        "only_a": only_a,
        "only_b": only_b,
        "neither": pairs.count((False, False)),
        "p_value": p_value,
    }


def _list_differing(a: _Run, b: _Run) -> list[str]:
    found: list[str] = []
    for group in _TOLD:
        here, there = a.results.get(group, {}), b.results.get(group, {})
        for name in sorted(here.keys() | there.keys()):
            sides = _drop_equal(here.get(name), there.get(name))
            if sides[0] != sides[1]:
                found.append(f"{group}.{name}: " + " / ".join(map(_shorten, sides)))
    return found


def _drop_equal(here: object, there: object) -> tuple[object, object]:
    """Leave out of two mappings what is the same in both."""
    one, other = _as_mapping(here), _as_mapping(there)
    if one is None or other is None:
        return here, there
    same = {name for name in one.keys() & other.keys() if one[name] == other[name]}
    left, right = ({k: v for k, v in side.items() if k not in same} for side in (one, other))
    return left, right


def _as_mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _NUM_SHOWN else text[: _NUM_SHOWN - 1] + "…"
