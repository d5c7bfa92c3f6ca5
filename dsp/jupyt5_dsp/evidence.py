"""Runs of one notebook that show whether its problems are fit to judge anything."""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from jupyt5.execution.kernel import Step
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, Verdict, VerdictKind, judge
from jupyt5_dsp.grader import Grader, derive_seed
from jupyt5_dsp.mutants import binds_names, make_none_mutant, reads_names
from jupyt5_dsp.plans import forgives_context, plan_reference, plan_sample, plan_trial, restage
from jupyt5_dsp.problems import Problem

__all__ = ["Evidence", "WrongAnswer", "gather_evidence"]

WrongAnswer = Literal["deleted", "none"]

_TRIAL_EXTRA_S = 10.0
_NUM_CHANCE_RUNS = 2
_NUM_REPEATS = 20
_REPEATS_S = 20.0
_LONG_NOTEBOOK_S = 60.0
# Cells that match may give another result at another time: worth some more runs.
_CHANCE = re.compile(r"random|shuffle|\bset\(|\bhash\(|\btime\b|uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the runs of one problem showed.

    Attributes:
        reference: Verdict on the reference in the first run.
        num_runs: Runs of the reference, under different hash seeds; with repeats on one kernel
            where those showed that chance decides.
        num_passed: How many of them passed.
        accepted: Wrong answers that passed too: the solution cell left out, or all of it None.
        test_reads_solution: Whether the grading cells use a name that the solution defines.
        context_errors: Earlier cells that raised.
    """

    reference: Verdict
    num_runs: int
    num_passed: int
    accepted: frozenset[WrongAnswer]
    test_reads_solution: bool
    context_errors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Trial:
    problem: Problem
    kind: str
    source: str | None
    limit_s: float


def gather_evidence(
    grader: Grader, problems: Sequence[Problem], cancel: threading.Event
) -> dict[str, Evidence]:
    """Run one notebook as often as it takes to know its problems.

    Args:
        grader: Runs the cells.
        problems: Problems of one notebook, none with a fault that its text shows.
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

    def gather(self) -> dict[str, Evidence]:
        replies = self._run_reference(0)
        first = {p.task_id: self._note(replies, p) for p in self._problems}
        passing = [p for p in self._problems if first[p.task_id].passed]
        accepted = self._try_wrong_answers(passing, _wall_s_of(replies)) if passing else {}
        for run_idx in range(2, 2 + self._count_more_runs(first, replies)):
            more = self._run_reference(run_idx)
            for problem in self._problems:
                self._note(more, problem)
        self._repeat_by_chance(passing, _wall_s_of(replies))
        return {
            p.task_id: Evidence(
                reference=first[p.task_id],
                num_runs=len(self._passes[p.task_id]),
                num_passed=sum(self._passes[p.task_id]),
                accepted=accepted.get(p.task_id, frozenset()),
                test_reads_solution=self._test_reads_solution(p),
                context_errors=_find_context_errors(replies, p),
            )
            for p in self._problems
        }

    def _run_reference(self, run_idx: int) -> tuple[CellReply, ...]:
        grader = self._grader
        steps = plan_reference(grader.problem_set, self._problems, grader.limits)
        return self._run(steps, run_idx)

    def _run(self, steps: Sequence[Step], run_idx: int) -> tuple[CellReply, ...]:
        problem = self._problems[0]
        seed = derive_seed(self._grader.seed, f"{problem.notebook_path} run {run_idx}")
        return self._grader.run(problem, steps, hash_seed=seed, cancel=self._cancel)

    def _judge(self, replies: Sequence[CellReply], problem: Problem) -> Verdict:
        own = restage(replies, problem, self._grader.limits)
        return judge(own, forgive_context=forgives_context(problem))

    def _note(self, replies: Sequence[CellReply], problem: Problem) -> Verdict:
        verdict = self._judge(replies, problem)
        self._passes[problem.task_id].append(verdict.passed)
        return verdict

    def _try_wrong_answers(
        self, passing: Sequence[Problem], ref_wall_s: Mapping[int, float]
    ) -> dict[str, frozenset[WrongAnswer]]:
        """Return what each test accepts, every acceptance confirmed on a fresh kernel."""
        trials = [trial for p in passing for trial in self._make_trials(p, ref_wall_s)]
        accused, controls = self._run_trials(trials)
        doubtful = {p.task_id for p in passing if not controls[p.task_id]}
        if doubtful:
            # Was it chance, or did a wrong answer leave something behind? Ask without them.
            replies = self._run_reference(1)
            controls.update((p.task_id, self._judge(replies, p).passed) for p in passing)
            first_idx = min(p.cell_idx for p in passing if p.task_id in doubtful)
            accused |= {trial for trial in trials if trial.problem.cell_idx >= first_idx}
        for problem in passing:
            self._passes[problem.task_id].append(controls[problem.task_id])
        accepted: dict[str, set[WrongAnswer]] = {}
        for trial in (trial for trial in trials if trial in accused):
            kinds = accepted.setdefault(trial.problem.task_id, set())
            if not kinds and self._confirm(trial):
                kinds.add(cast("WrongAnswer", trial.kind))
        return {task_id: frozenset(kinds) for task_id, kinds in accepted.items()}

    def _repeat_by_chance(
        self, passing: Sequence[Problem], ref_wall_s: Mapping[int, float]
    ) -> None:
        """Run references that may depend on chance many times over, on one kernel.

        Each takes milliseconds there. A reference that cannot be run twice fails every time;
        only one that passes sometimes shows chance.
        """
        chancy = [problem for problem in passing if self._may_depend_on_chance(problem)]
        if not chancy or sum(ref_wall_s.values()) > _LONG_NOTEBOOK_S:
            return
        cells = self._grader.problem_set.cells_of(chancy[0])
        repeats: list[_Trial] = []
        for problem in chancy:
            limit_s = self._limit_trial(problem, ref_wall_s)
            count = int(_REPEATS_S / max(self._own_wall_s(problem, ref_wall_s), 1e-3))
            source = cells[problem.cell_idx].source
            names = (f"repeat {idx}" for idx in range(min(count, _NUM_REPEATS)))
            repeats += [_Trial(problem, name, source, limit_s) for name in names]
        planned = self._interleave(repeats)
        replies = self._run([step for _, step in planned], 1)
        own: dict[_Trial, list[CellReply]] = {repeat: [] for repeat in repeats}
        for (repeat, _), reply in zip(planned, replies, strict=True):
            if repeat:
                own[repeat].append(reply)
        for problem in chancy:
            results = [_all_passed(own[repeat]) for repeat in repeats if repeat.problem == problem]
            if 0 < sum(results) < len(results):
                self._passes[problem.task_id] += results

    def _may_depend_on_chance(self, problem: Problem) -> bool:
        cells = self._grader.problem_set.cells_of(problem)
        own = (cells[idx].source for idx in (problem.cell_idx, *problem.grading_idxs))
        return any(_CHANCE.search(source) for source in own)

    def _own_wall_s(self, problem: Problem, ref_wall_s: Mapping[int, float]) -> float:
        own_idxs = (problem.cell_idx, *problem.grading_idxs)
        return sum(ref_wall_s.get(idx, 0.0) for idx in own_idxs)

    def _limit_trial(self, problem: Problem, ref_wall_s: Mapping[int, float]) -> float:
        spent_s = self._own_wall_s(problem, ref_wall_s)
        return min(self._grader.limits.timeout_s, 2 * spent_s + _TRIAL_EXTRA_S)

    def _make_trials(self, problem: Problem, ref_wall_s: Mapping[int, float]) -> list[_Trial]:
        limit_s = self._limit_trial(problem, ref_wall_s)
        cells = self._grader.problem_set.cells_of(problem)
        mutant = make_none_mutant(cells[problem.cell_idx].source)
        trials = [_Trial(problem, "deleted", None, limit_s)]
        if mutant is not None:
            trials.append(_Trial(problem, "none", mutant, limit_s))
        return trials

    def _run_trials(self, trials: Sequence[_Trial]) -> tuple[set[_Trial], dict[str, bool]]:
        """Run all trials inside runs of the notebook; a broken run is taken up by the next.

        Returns:
            The trials that passed or could not be run, and for each problem whether its
            reference still passed after them.
        """
        accused: set[_Trial] = set()
        controls: dict[str, bool] = {trial.problem.task_id: False for trial in trials}
        left = list(trials)
        while left:
            planned = self._interleave(left)
            replies = self._run([step for _, step in planned], 1)
            own: dict[_Trial, list[CellReply]] = {trial: [] for trial in left}
            plain: list[CellReply] = []
            for (trial, _), reply in zip(planned, replies, strict=True):
                (own[trial] if trial else plain).append(reply)
            for problem in {trial.problem for trial in left}:
                controls[problem.task_id] |= self._judge(plain, problem).passed
            accused |= {trial for trial in left if _all_passed(own[trial])}
            unreached = [t for t in left if own[t][0].status is CellStatus.NOT_RUN]
            if len(unreached) == len(left):
                return accused | set(unreached), controls
            left = unreached
        return accused, controls

    def _interleave(self, trials: Sequence[_Trial]) -> list[tuple[_Trial | None, Step]]:
        problem_set = self._grader.problem_set
        before: dict[int, list[_Trial]] = {}
        for trial in trials:
            before.setdefault(trial.problem.cell_idx, []).append(trial)
        planned: list[tuple[_Trial | None, Step]] = []
        for step in plan_reference(problem_set, self._problems, self._grader.limits):
            for trial in before.get(step.cell_idx, ()):
                name = f"{trial.problem.task_id} {trial.kind}"
                steps = plan_trial(
                    problem_set, trial.problem, trial.source, name=name, limit_s=trial.limit_s
                )
                planned += [(trial, trial_step) for trial_step in steps]
            planned.append((None, step))
        return planned

    def _confirm(self, trial: _Trial) -> bool:
        """Try one wrong answer alone, as a sample would be run."""
        grader, problem = self._grader, trial.problem
        source = trial.source or ""
        steps = plan_sample(grader.problem_set, problem, source, grader.limits)
        replies = self._run(steps, 0)
        return judge(replies, forgive_context=forgives_context(problem)).passed

    def _count_more_runs(self, first: Mapping[str, Verdict], replies: Sequence[CellReply]) -> int:
        """Say how often to run the reference again: where chance may play, or it failed."""
        if sum(_wall_s_of(replies).values()) > _LONG_NOTEBOOK_S:
            return 0
        if any(self._may_depend_on_chance(problem) for problem in self._problems):
            return _NUM_CHANCE_RUNS
        own_failure = {VerdictKind.WRONG, VerdictKind.ERROR}
        return 1 if any(verdict.kind in own_failure for verdict in first.values()) else 0

    def _test_reads_solution(self, problem: Problem) -> bool:
        cells = self._grader.problem_set.cells_of(problem)
        bound = binds_names(cells[problem.cell_idx].source)
        return any(bound & reads_names(cells[idx].source) for idx in problem.grading_idxs)


def _all_passed(replies: Sequence[CellReply]) -> bool:
    grading = [reply for reply in replies if reply.stage is Stage.GRADING]
    return bool(grading) and all(reply.status is CellStatus.OK for reply in grading)


def _wall_s_of(replies: Sequence[CellReply]) -> dict[int, float]:
    return {reply.cell_idx: reply.wall_s for reply in replies}


def _find_context_errors(replies: Sequence[CellReply], problem: Problem) -> tuple[int, ...]:
    return tuple(
        reply.cell_idx
        for reply in replies
        if reply.cell_idx < problem.cell_idx and reply.status is CellStatus.ERROR
    )
