"""results.json: strict and partial runs, clusters, and nothing that changes from run to run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyt5_dsp.passk import Outcome, summarise, summarise_scope
from jupyt5_dsp.problems import ProblemSet, load_problem_set
from jupyt5_dsp.results import counts_as_passed, make_results
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.validation import Validation

SUSPECT = "suspect: comparison overridden"
RAISED = "solution cell raised"


@dataclass(frozen=True)
class Graded:
    task_id: str
    sample_idx: int
    verdict: str
    flags: tuple[str, ...] = ()


GRADED = (
    Graded("T/0", 0, "passed"),
    Graded("T/0", 1, "passed", (SUSPECT,)),
    Graded("T/1", 0, "passed", (RAISED,)),
    Graded("T/1", 1, "wrong", (SUSPECT,)),
)


def validation(task_id: str) -> Validation:
    return Validation(task_id=task_id, reference="passed", usable="yes")


@pytest.fixture
def problem_set(add_set: Path) -> ProblemSet:
    return load_problem_set(add_set)


def results_of(
    problem_set: ProblemSet, graded: Sequence[Graded] = GRADED, **options: Any
) -> dict[str, Any]:
    found = {task_id: validation(task_id) for task_id in ("T/0", "T/1")}
    return make_results({}, problem_set, graded, found, [1, 2], seed=0, **options)


def test_strict_fails_suspect_passes_and_keeps_the_verdicts(problem_set: ProblemSet) -> None:
    loose, strict = results_of(problem_set), results_of(problem_set, strict=True)
    assert (loose["strict"], strict["strict"]) == (False, True)
    assert loose["pass_at_k"]["valid"]["1"] == pytest.approx(3 / 4)
    assert strict["pass_at_k"]["valid"]["1"] == pytest.approx(2 / 4)
    assert [row["num_correct"] for row in strict["problems"]] == [1, 1]
    for name in ("verdict_counts", "passed_with_flag", "num_suspect_passes"):
        assert loose[name] == strict[name]
    assert strict["verdict_counts"] == {"passed": 3, "wrong": 1}
    assert strict["passed_with_flag"] == {RAISED: 1, SUSPECT: 1}
    assert strict["num_suspect_passes"] == 1


@pytest.mark.parametrize(
    ("verdict", "flags", "strict", "passed"),
    [
        ("passed", [], True, True),
        ("passed", [RAISED], True, True),
        ("passed", [RAISED, SUSPECT], True, False),
        ("passed", [SUSPECT], False, True),
        ("wrong", [], False, False),
    ],
)
def test_what_counts(verdict: str, flags: list[str], strict: bool, passed: bool) -> None:
    assert counts_as_passed(verdict, flags, strict=strict) is passed


def test_partial_run_has_problems_that_were_not_validated(problem_set: ProblemSet) -> None:
    found: dict[str, Any] = make_results(
        {}, problem_set, GRADED[:2], {"T/0": validation("T/0")}, [1], seed=0, partial=True
    )
    assert found["partial"] is True
    assert found["num_valid"] == 1
    assert found["problems"][1]["usable"] == "not validated"
    assert found["pass_at_k"]["valid"] == {"1": 1.0}


def test_best_of_n_needs_log_probabilities(problem_set: ProblemSet) -> None:
    samples = [
        Sample(task_id=one.task_id, sample_idx=one.sample_idx, completion="", mean_logprob=-idx)
        for idx, one in enumerate(GRADED)
    ]
    found = results_of(problem_set, samples=samples)["best_of_n"]
    assert found["curve"][-1][:2] == [2, 1.0]
    strict = results_of(problem_set, GRADED[1:] + GRADED[:1], samples=samples, strict=True)
    assert strict["best_of_n"]["num_problems"] == 2
    assert results_of(problem_set)["best_of_n"] is None


def test_problems_of_one_notebook_are_one_cluster(problem_set: ProblemSet) -> None:
    rows = results_of(problem_set)["problems"]
    assert [row["cluster"] for row in rows] == [0, 0]
    assert rows[0]["grading_key"] != rows[1]["grading_key"]


def test_equal_inputs_give_equal_bytes(problem_set: ProblemSet) -> None:
    assert json.dumps(results_of(problem_set)) == json.dumps(results_of(problem_set))


def test_a_curve_over_many_problems_is_quick() -> None:
    outcomes = [
        Outcome(
            task_id=f"P{idx}",
            num_samples=1000,
            num_correct=idx % 1001,
            valid=True,
            grading_key=str(idx // 3),
            cluster=idx // 4,
        )
        for idx in range(900)
    ]
    ks = list(range(1, 1000, 25))
    scopes = summarise(outcomes, ks, seed=0)
    assert len(scopes["distinct"].ci95) == len(ks)
    assert scopes["distinct"].num_problems == 300
    # A mean that is over whole clusters is no different from one over their problems.
    scope = summarise_scope(outcomes, [1], seed=0)
    low, high = scope.ci95[1] or (0, 0)
    assert low < scope.pass_at_k[1] < high
