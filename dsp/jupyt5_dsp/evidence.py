"""Runs of a notebook, or of programs, that show whether problems are fit to judge anything."""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jupyt5.execution.engine import Judged, Replied
from jupyt5.execution.jobs import Attempt, Isolation
from jupyt5.execution.verdicts import CellReply, Verdict, VerdictKind, judge
from jupyt5_dsp.grader import Grader, derive_seed
from jupyt5_dsp.mutants import binds_names, make_none_mutant, reads_names
from jupyt5_dsp.plans import forgives_context, restage
from jupyt5_dsp.problems import Problem

__all__ = ["Evidence", "WrongAnswer", "gather_evidence"]

WrongAnswer = Literal["deleted", "none"]

_REFERENCE, _REPEAT = "reference", "repeat"
_WRONG_ANSWERS: tuple[WrongAnswer, ...] = ("deleted", "none")
_NUM_CHANCE_RUNS = 2
_NUM_REPEATS = 20
_NUM_CHECKED_REPEATS = 2  # each of them is a run on every input
_LONG_NOTEBOOK_S = 60.0
# Cells that match may give another result at another time: worth some more runs.
_CHANCE = re.compile(r"random|shuffle|\bset\(|\bhash\(|\btime\b|uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the runs of one problem showed.

    Attributes:
        reference: Verdict on the reference.
        num_runs: Runs of the reference, under different seeds, as a sample and in place.
        num_passed: How many of them passed.
        accepted: Wrong answers that passed too: the solution cell left out, or all of it None.
        test_reads_solution: Whether the grading cells use a name that the solution defines.
        context_errors: Earlier cells that raised.
        isolation: How its samples are to be run.
        isolation_reason: Why they are not forked; "" if they are.
        refused: Commands in earlier cells that would have installed something.
    """

    reference: Verdict
    num_runs: int
    num_passed: int
    accepted: frozenset[WrongAnswer]
    test_reads_solution: bool
    context_errors: tuple[int, ...]
    isolation: Isolation = "fork"
    isolation_reason: str = ""
    refused: tuple[str, ...] = ()


@dataclass(slots=True)
class _Run:
    """What one run of the notebook gave."""

    judged: dict[tuple[str, str], Judged] = field(default_factory=dict[tuple[str, str], Judged])
    replies: list[CellReply] = field(default_factory=list[CellReply])
    refused: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])

    @property
    def wall_s(self) -> float:
        return sum(reply.wall_s for reply in self.replies)


def gather_evidence(
    grader: Grader, problems: Sequence[Problem], cancel: threading.Event
) -> dict[str, Evidence]:
    """Run one notebook, or some programs, as often as it takes to know the problems.

    Args:
        grader: Runs the cells.
        problems: Of one notebook or batch, none with a fault that its text shows.
        cancel: Set from outside to stop.

    Returns:
        The evidence by task id.
    """
    return _NotebookRuns(grader, problems, cancel).gather()


class _NotebookRuns:
    def __init__(
        self, grader: Grader, problems: Sequence[Problem], cancel: threading.Event
    ) -> None:
        self._grader = grader
        self._problems = problems
        self._cancel = cancel
        self._passes: dict[str, list[bool]] = {problem.task_id: [] for problem in problems}
        self._reasons: dict[str, str] = {}

    def gather(self) -> dict[str, Evidence]:
        first = self._run({p.task_id: self._list_attempts(p) for p in self._problems}, 0)
        references = {p.task_id: self._judge_reference(first, p) for p in self._problems}
        for run_idx in range(1, 1 + self._count_more_runs(references, first)):
            again = {p.task_id: [self._make_reference(p)] for p in self._problems}
            more = self._run(again, run_idx)
            for problem in self._problems:
                found = more.judged[problem.task_id, _REFERENCE]
                self._passes[problem.task_id].append(found.verdict.passed)
        return {p.task_id: self._conclude(p, first, references[p.task_id]) for p in self._problems}

    def _conclude(self, problem: Problem, first: _Run, reference: Verdict) -> Evidence:
        task_id, passes = problem.task_id, self._passes[problem.task_id]
        reason = self._reasons.get(task_id, "")
        refused = [
            command
            for idx, listed in first.refused.items()
            if idx < problem.cell_idx
            for command in listed
        ]
        return Evidence(
            reference=reference,
            num_runs=len(passes),
            num_passed=sum(passes),
            accepted=frozenset(
                name
                for name in _WRONG_ANSWERS
                if (task_id, name) in first.judged and first.judged[task_id, name].verdict.passed
            ),
            test_reads_solution=self._test_reads_solution(problem),
            context_errors=first.judged[task_id, _REFERENCE].context_errors,
            isolation="kernel" if reason else "fork",
            isolation_reason=reason,
            refused=tuple(refused),
        )

    def _run(self, attempts: Mapping[str, Sequence[Attempt]], run_idx: int) -> _Run:
        grader, problem = self._grader, self._problems[0]
        name = grader.name_process(problem)
        name = f"{name} run {run_idx}" if run_idx else name
        run = _Run()
        for found in grader.run(
            attempts,
            seed=derive_seed(grader.execution.seed, name),
            runs_all=True,
            cancel=self._cancel,
        ):
            if isinstance(found, Replied):
                run.replies.append(found.reply)
                run.refused[found.reply.cell_idx] = found.refused
            elif isinstance(found, Judged):
                run.judged[found.task, found.key] = found
        return run

    def _judge_reference(self, run: _Run, problem: Problem) -> Verdict:
        """Compare the reference as a forked sample with the reference in its place."""
        task_id = problem.task_id
        found = run.judged[task_id, _REFERENCE]
        verdict = found.verdict
        if found.isolation == "kernel" and self._grader.execution.isolation == "fork":
            self._reasons[task_id] = found.isolation_reason
        elif run.replies and found.isolation == "fork":
            in_place = self._judge_in_place(run.replies, problem)
            if in_place.passed != verdict.passed and in_place.kind is not VerdictKind.CONTEXT:
                verdict = self._judge_cold(problem)
                if verdict.passed == in_place.passed:
                    self._reasons[task_id] = "the reference's verdict differs in a fork"
                self._passes[task_id].append(in_place.passed)
        self._passes[task_id].append(verdict.passed)
        repeats = [
            judged.verdict.passed
            for (name, key), judged in run.judged.items()
            if name == task_id and key.startswith(_REPEAT)
        ]
        self._passes[task_id] += repeats
        return verdict

    def _judge_in_place(self, replies: Sequence[CellReply], problem: Problem) -> Verdict:
        return judge(restage(replies, problem), forgive_context=forgives_context(problem))

    def _judge_cold(self, problem: Problem) -> Verdict:
        attempts = {problem.task_id: [self._make_reference(problem)]}
        runs = self._grader.run(attempts, isolation="kernel", cancel=self._cancel)
        return next(found.verdict for found in runs if isinstance(found, Judged))

    def _make_reference(self, problem: Problem) -> Attempt:
        return Attempt(key=_REFERENCE, source=self._source_of(problem))

    def _list_attempts(self, problem: Problem) -> list[Attempt]:
        source = self._source_of(problem)
        attempts = [self._make_reference(problem), Attempt(key="deleted", source="")]
        mutant = self._make_none_mutant(problem)
        if mutant is not None:
            attempts.append(Attempt(key="none", source=mutant))
        if self._may_depend_on_chance(problem) and not self._is_seeded_before(problem):
            checks_output = self._grader.problem_set.checker is not None
            for idx in range(_NUM_CHECKED_REPEATS if checks_output else _NUM_REPEATS):
                name = f"{_REPEAT} {idx}"
                seed = derive_seed(self._grader.execution.seed, f"{problem.task_id} {name}")
                attempts.append(Attempt(key=name, source=source, seed=seed))
        return attempts

    def _make_none_mutant(self, problem: Problem) -> str | None:
        form = problem.form
        if form is None or not form.suffix.strip():
            return make_none_mutant(self._source_of(problem))
        # What stands after the completion is the test's own.
        emptied = make_none_mutant(form.reference)
        return None if emptied is None else form.fill(emptied)

    def _source_of(self, problem: Problem) -> str:
        return self._grader.problem_set.cells_of(problem)[problem.cell_idx].source

    def _may_depend_on_chance(self, problem: Problem) -> bool:
        cells = self._grader.problem_set.cells_of(problem)
        own = (cells[idx].source for idx in (problem.cell_idx, *problem.grading_idxs))
        return any(_CHANCE.search(source) for source in own)

    def _is_seeded_before(self, problem: Problem) -> bool:
        """Whether earlier cells seed a generator: the solution may count on what follows."""
        cells = self._grader.problem_set.cells_of(problem)[: problem.cell_idx]
        return any(cell.kind == "code" and "seed(" in cell.source for cell in cells)

    def _count_more_runs(self, references: Mapping[str, Verdict], first: _Run) -> int:
        """Say how often to run the notebook again: where chance may play, or it failed."""
        if first.wall_s > _LONG_NOTEBOOK_S:
            return 0
        if self._grader.problem_set.checker is not None:
            return 1  # under another hash seed, against what was printed under the first
        if any(self._may_depend_on_chance(problem) for problem in self._problems):
            return _NUM_CHANCE_RUNS
        own_failure = {VerdictKind.WRONG, VerdictKind.ERROR}
        return 1 if any(verdict.kind in own_failure for verdict in references.values()) else 0

    def _test_reads_solution(self, problem: Problem) -> bool:
        cells = self._grader.problem_set.cells_of(problem)
        bound = binds_names(cells[problem.cell_idx].source)
        return any(bound & reads_names(cells[idx].source) for idx in problem.grading_idxs)
