"""From problems to jobs: which cells of a notebook run, and what is tried in which of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jupyt5.execution.jobs import Attempt, Job, Task
from jupyt5.execution.verdicts import CellReply, Stage
from jupyt5_dsp.mutants import binds_names
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["folder_of", "forgives_context", "make_job", "preload_of", "restage"]


def forgives_context(problem: Problem) -> bool:
    """Whether an exception in an earlier cell is known to do no harm.

    The set says so where it records that the reference passes: old notebooks have cells that fail
    today (a plot style that is gone) without any bearing on their problems.
    """
    return problem.passes_modern is True


def make_job(
    problem_set: ProblemSet,
    attempts: Mapping[str, Sequence[Attempt]],
    *,
    seed: int,
    runs_all: bool = False,
    forced: bool = False,
) -> Job:
    """Plan attempts at problems of one notebook, or at programs.

    Args:
        problem_set: The set.
        attempts: What to try, by task id; all problems of the same notebook or batch.
        seed: Of hash seeds and random generators.
        runs_all: Whether the notebook is run to the end of its last problem in any case.
        forced: Fork even where that is not sound.
    """
    problems = sorted(
        (problem for problem in problem_set.problems if problem.task_id in attempts),
        key=lambda problem: problem.cell_idx,
    )
    if problem_set.has_programs:
        return _make_program_job(problem_set, problems, attempts, seed)
    cells = problem_set.cells_of(problems[0])
    end = max(max(problem.grading_idxs) for problem in problems) + 1
    own = {idx for problem in problems for idx in problem.grading_idxs}
    return Job(
        cells=tuple(
            (idx, cell.source)
            for idx, cell in enumerate(cells[:end])
            if cell.kind == "code" and (idx in own or cell.source.strip())
        ),
        tasks=tuple(
            replace(_make_task(problem_set, problem, attempts[problem.task_id]), forced=forced)
            for problem in problems
        ),
        folder=folder_of(problems[0]),
        seed=seed,
        runs_all=runs_all,
    )


def _make_program_job(
    problem_set: ProblemSet,
    problems: Sequence[Problem],
    attempts: Mapping[str, Sequence[Attempt]],
    seed: int,
) -> Job:
    tasks = [
        replace(
            _make_task(problem_set, problem, attempts[problem.task_id]),
            # Not the reference: what a worker holds, a sample could find.
            cells=tuple((i, problem_set.cells_of(problem)[i].source) for i in problem.grading_idxs),
        )
        for problem in problems
    ]
    preload = dict.fromkeys(name for problem in problems for name in preload_of(problem))
    return Job(
        cells=(),
        tasks=tuple(tasks),
        seed=seed,
        runs_as=problem_set.runs_as,
        preload=tuple(preload),
    )


def folder_of(problem: Problem) -> str:
    """Return the notebook's folder inside its repository."""
    folder, _, _ = problem.notebook_path.rpartition("/")
    if problem.repository_name:
        folder = folder[len(problem.repository_name) :].lstrip("/")
    return folder or "."


def preload_of(problem: Problem) -> tuple[str, ...]:
    """Return the modules that a worker imports for a program before it forks."""
    return problem.form.preload if problem.form else ()


def restage(replies: Sequence[CellReply], problem: Problem) -> tuple[CellReply, ...]:
    """Read the replies of a whole notebook's run as the run of one problem's reference."""
    last = max(problem.grading_idxs)
    return tuple(
        replace(reply, stage=_stage_of(problem, reply.cell_idx))
        for reply in replies
        if reply.cell_idx <= last
    )


def _make_task(problem_set: ProblemSet, problem: Problem, attempts: Sequence[Attempt]) -> Task:
    return Task(
        name=problem.task_id,
        cell_idx=problem.cell_idx,
        grading_idxs=problem.grading_idxs,
        attempts=tuple(attempts),
        own_names=binds_names(problem_set.cells_of(problem)[problem.cell_idx].source),
        forgives_context=forgives_context(problem),
    )


def _stage_of(problem: Problem, idx: int) -> Stage:
    if idx < problem.cell_idx:
        return Stage.CONTEXT
    if idx == problem.cell_idx:
        return Stage.SOLUTION
    return Stage.GRADING if idx in problem.grading_idxs else Stage.BETWEEN
