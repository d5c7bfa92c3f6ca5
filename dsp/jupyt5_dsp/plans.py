"""Which cells run, in which order, for one sample or for a whole notebook."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jupyt5.execution.kernel import Step
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["Limits", "forgives_context", "plan_reference", "plan_sample", "plan_trial", "restage"]

_SHARED_LIMIT = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Wall seconds: ``timeout_s`` for solution and grading cells together, else one cell's."""

    timeout_s: float = 10.0
    context_timeout_s: float = 600.0


def forgives_context(problem: Problem) -> bool:
    """Whether an exception in an earlier cell is known to do no harm.

    The set says so where it records that the reference passes: old notebooks have cells that fail
    today (a plot style that is gone) without any bearing on their problems.
    """
    return problem.passes_modern is True


def plan_sample(
    problem_set: ProblemSet, problem: Problem, source: str, limits: Limits
) -> tuple[Step, ...]:
    """Plan one sample: all code cells up to the last grading cell, one of them replaced."""
    cells = problem_set.cells_of(problem)
    goes_on = forgives_context(problem)
    steps: list[Step] = []
    for idx, cell in enumerate(cells[: max(problem.grading_idxs) + 1]):
        is_own = idx == problem.cell_idx or idx in problem.grading_idxs
        if cell.kind != "code" or not (is_own or cell.source.strip()):
            continue
        if idx < problem.cell_idx:
            steps.append(
                Step(
                    cell_idx=idx,
                    source=cell.source,
                    stage=Stage.CONTEXT,
                    limit_s=limits.context_timeout_s,
                    goes_on=goes_on,
                )
            )
        else:
            text = source if idx == problem.cell_idx else cell.source
            steps.append(_own_step(problem, idx, text, limits.timeout_s, group=_SHARED_LIMIT))
    return tuple(steps)


def plan_reference(
    problem_set: ProblemSet, problems: Sequence[Problem], limits: Limits
) -> tuple[Step, ...]:
    """Plan one run of a notebook as it is, far enough for all ``problems`` of it."""
    cells = problem_set.cells_of(problems[0])
    own_idxs = {idx for p in problems for idx in (p.cell_idx, *p.grading_idxs)}
    last_idx = max(own_idxs)
    limit_s = max(limits.timeout_s, limits.context_timeout_s)
    return tuple(
        Step(cell_idx=idx, source=cell.source, stage=Stage.CONTEXT, limit_s=limit_s)
        for idx, cell in enumerate(cells[: last_idx + 1])
        # A problem's own cells count even when blank: trials take their places from them.
        if cell.kind == "code" and (idx in own_idxs or cell.source.strip())
    )


def plan_trial(
    problem_set: ProblemSet, problem: Problem, source: str | None, *, name: str, limit_s: float
) -> tuple[Step, ...]:
    """Plan a wrong answer in the middle of a notebook's run, just before its solution cell.

    Args:
        problem_set: The set.
        problem: Whose solution is replaced.
        source: The wrong answer; None runs the grading cells with no solution cell at all.
        name: Name of the trial, unique in the run.
        limit_s: Wall seconds for the whole trial.
    """
    cells = problem_set.cells_of(problem)
    texts = [] if source is None else [(problem.cell_idx, source)]
    texts += [(idx, cells[idx].source) for idx in problem.grading_idxs]
    steps = (_own_step(problem, idx, text, limit_s, group=name) for idx, text in texts)
    return tuple(replace(step, goes_on=True) for step in steps)


def restage(
    replies: Sequence[CellReply], problem: Problem, limits: Limits
) -> tuple[CellReply, ...]:
    """Read the replies of a whole notebook's run as the run of one problem's reference."""
    own: list[CellReply] = []
    left_s = limits.timeout_s
    for reply in replies:
        if reply.cell_idx > max(problem.grading_idxs):
            continue
        stage = _stage_of(problem, reply.cell_idx)
        if stage is not Stage.CONTEXT:
            left_s -= reply.wall_s
            if left_s < 0 and reply.status in {CellStatus.OK, CellStatus.ERROR}:
                reply = replace(reply, status=CellStatus.TIMEOUT)
        own.append(replace(reply, stage=stage))
    return tuple(own)


def _own_step(problem: Problem, idx: int, source: str, limit_s: float, *, group: str) -> Step:
    return Step(
        cell_idx=idx,
        source=source,
        stage=_stage_of(problem, idx),
        limit_s=limit_s,
        group=group,
        goes_on=idx not in problem.grading_idxs,
    )


def _stage_of(problem: Problem, idx: int) -> Stage:
    if idx < problem.cell_idx:
        return Stage.CONTEXT
    if idx == problem.cell_idx:
        return Stage.SOLUTION
    return Stage.GRADING if idx in problem.grading_idxs else Stage.BETWEEN
