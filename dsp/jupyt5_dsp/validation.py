"""Is a problem fit to judge anything here? Its reference must pass, and wrong answers must not.

One run of a notebook judges all its problems: at each, the reference and two wrong answers are
forked, and the notebook goes on with the reference. Verdicts that differ between runs make a
problem unstable; a reference that differs only in a fork gets fresh processes for its samples.
"""

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, cast

from jupyt5.errors import ProblemSetError
from jupyt5.execution.jobs import Isolation
from jupyt5.execution.verdicts import SUSPECT, VerdictKind
from jupyt5_dsp.evidence import Evidence, gather_evidence
from jupyt5_dsp.fanout import Fanout, LocalFanout
from jupyt5_dsp.grader import Grader
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet, digest

__all__ = [
    "Usable",
    "Validation",
    "make_key",
    "read_validations",
    "validate_notebook",
    "validate_set",
]

Usable = Literal["yes", "no", "vacuous", "unstable", "solved before"]

_JOBS_PER_WORKER = 3
_MIN_JOB = 4
_KEY_PARTS = ("cells", "data files", "time limits", "seed", "environment")
_KEY_PART_LENGTH = 24
# All that is written begins so; a cut last line that does not is somebody else's.
_LINE_START = b'{"task_id": '

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What validation found out about one problem.

    Attributes:
        task_id: The problem.
        reference: Verdict on the reference solution.
        usable: ``no`` if the reference does not pass; then the reason says why.
        reason: Why the problem is not usable; "" if it is.
        message: What the interpreter said about the reference.
        context_errors: Earlier cells that raised, with no harm to the reference.
        isolation: How its samples are to be run.
        isolation_reason: Why they are not forked; "" if they are.
        flags: What the reference itself would be flagged for; not held against samples.
        refused: Commands in earlier cells that would have installed something.
        key: Digest of all that this depends on.
    """

    task_id: str
    reference: str
    usable: Usable
    reason: str = ""
    message: str = ""
    context_errors: tuple[int, ...] = ()
    isolation: Isolation = "fork"
    isolation_reason: str = ""
    flags: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    key: str = ""

    @property
    def valid(self) -> bool:
        """Whether samples of the problem can be judged."""
        return self.usable == "yes"


def make_key(grader: Grader, problem: Problem, environment: Mapping[str, object]) -> str:
    """Return digests of all that a finding depends on, one for each of ``_KEY_PARTS``."""
    cells = grader.problem_set.cells_of(problem)
    sources = [f"{cell.kind}:{cell.source}" for cell in cells[: _end_of(problem)]]
    checker = grader.problem_set.checker
    rules = [grader.problem_set.runs_as] if grader.problem_set.has_programs else []
    rules += [checker.version] if checker else []
    parts = (
        [*problem.describe(), *sources, *rules],
        [grader.digest_data(problem)],
        [repr(grader.execution.limits)],
        [str(grader.execution.seed)],
        [repr(sorted(environment.items()))],
    )
    return ".".join(digest(part)[:_KEY_PART_LENGTH] for part in parts)


def validate_set(
    grader: Grader,
    environment: Mapping[str, object],
    *,
    num_workers: int = 1,
    fanout: Fanout | None = None,
    log_path: Path | None = None,
    watch: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Validation]:
    """Validate all problems, in their order.

    Args:
        grader: Runs the cells.
        environment: From ``describe_environment``; part of each problem's key.
        num_workers: Notebooks judged at a time, on threads of this process. The findings do not
            depend on it.
        fanout: Runs them somewhere else instead.
        log_path: Findings are appended here as they come, and taken from here where their key
            still fits.
        watch: Called with the numbers of problems done and of all problems.

    Raises:
        ExecutionError: If no kernel starts.
        ProblemSetError: If ``log_path`` is damaged.
    """
    problems = grader.problem_set.problems
    keys = {one.task_id: make_key(grader, one, environment) for one in problems}
    found = _take_known(log_path, keys) if log_path else {}
    watch(len(found), len(problems))

    fanout = fanout or LocalFanout(grader, num_workers)
    todo = [problem for problem in problems if problem.task_id not in found]
    jobs = [_Job(part, keys) for part in _split(grader.problem_set, todo, fanout.num_workers)]
    for _, findings in fanout.run(_run_job, jobs):
        found.update((finding.task_id, finding) for finding in findings)
        if log_path:
            append_jsonl(log_path, [asdict(finding) for finding in findings])
        watch(len(found), len(problems))
    return [found[problem.task_id] for problem in problems]


@dataclass(frozen=True, slots=True)
class _Job:
    """Problems of one notebook or batch, with their keys."""

    problems: tuple[Problem, ...]
    keys: Mapping[str, str]


def _split(
    problem_set: ProblemSet, problems: Sequence[Problem], num_workers: int
) -> list[tuple[Problem, ...]]:
    """Divide problems by what one worker runs; more finely where workers would be idle."""
    groups: dict[str, list[Problem]] = {}
    names = problem_set.group_problems()
    for problem in problems:
        groups.setdefault(names[problem.task_id], []).append(problem)
    # With a checker, no finding depends on which problems are beside one's own.
    num_run = sum(not problem.invalid_reason for problem in problems)
    share = max(math.ceil(num_run / (num_workers * _JOBS_PER_WORKER)), _MIN_JOB)
    parts: list[tuple[Problem, ...]] = []
    for group in groups.values():
        is_cut = problem_set.checker is not None and not group[0].invalid_reason
        num_parts = math.ceil(len(group) / share) if is_cut else 1
        parts += [tuple(group[part::num_parts]) for part in range(num_parts)]
    # Long ones first, so that no worker ends with one alone.
    return sorted(parts, key=len, reverse=True)


def _run_job(grader: Grader, job: _Job, cancel: threading.Event) -> Iterator[list[Validation]]:
    yield validate_notebook(grader, job.problems, job.keys, cancel)


def _take_known(log_path: Path, keys: Mapping[str, str]) -> dict[str, Validation]:
    if log_path.is_file():
        _refuse_foreign(log_path)
    repair_jsonl(log_path)
    known = read_validations(log_path)
    fitting = {one.task_id: one for one in known if keys.get(one.task_id) == one.key}
    stale = {one.task_id: one for one in known if one.task_id in keys.keys() - fitting.keys()}
    if stale:
        reasons = {
            part for one in stale.values() for part in _differing(one.key, keys[one.task_id])
        }
        logger.warning(
            "%s: %d of %d findings do not hold here (made with other %s): made again.",
            log_path,
            len(stale),
            len(stale) + len(fitting),
            ", ".join(part for part in _KEY_PARTS if part in reasons),
        )
    return fitting


def _differing(old_key: str, new_key: str) -> list[str]:
    old, new = old_key.split("."), new_key.split(".")
    if len(old) != len(new):
        return list(_KEY_PARTS)
    return [name for name, *pair in zip(_KEY_PARTS, old, new, strict=True) if pair[0] != pair[1]]


def _refuse_foreign(path: Path) -> None:
    """Refuse a file with anything but findings in it, before a byte of it is changed."""
    *lines, rest = path.read_bytes().split(b"\n")
    length = min(len(rest), len(_LINE_START))
    is_ours = rest[:length] == _LINE_START[:length]
    try:
        for line in lines:
            if is_ours and line.strip():
                is_ours = bool(_from_record(json.loads(line), path))
    except (ValueError, TypeError, ProblemSetError):
        is_ours = False
    if not is_ours:
        message = (
            f"{path} exists and holds something else than findings of dsp-eval validate; "
            "it was left as it is. Choose another --out."
        )
        raise ProblemSetError(message)


def validate_notebook(
    grader: Grader, problems: Sequence[Problem], keys: Mapping[str, str], cancel: threading.Event
) -> list[Validation]:
    """Validate problems of one notebook or batch."""
    problem_set = grader.problem_set
    faults = {p.task_id: problem_set.explain_invalid(p) for p in problems}
    sound = [p for p in problems if not faults[p.task_id]]
    evidence = gather_evidence(grader, sound, cancel) if sound else {}
    findings: list[Validation] = []
    for problem in problems:
        seen = evidence.get(problem.task_id)
        usable, reason = _conclude(seen) if seen else ("no", faults[problem.task_id])
        findings.append(
            Validation(
                task_id=problem.task_id,
                reference=str(seen.reference.kind if seen else VerdictKind.INVALID),
                usable=usable,
                reason=reason,
                message=seen.reference.message if seen else "",
                context_errors=seen.context_errors if seen else (),
                isolation=seen.isolation if seen else "fork",
                isolation_reason=seen.isolation_reason if seen else "",
                flags=_find_suspect(seen.reference.flags) if seen else (),
                refused=seen.refused if seen else (),
                key=keys.get(problem.task_id, ""),
            )
        )
    return findings


def read_validations(path: Path) -> list[Validation]:
    """Read findings that were written before.

    Raises:
        ProblemSetError: If the file is missing or damaged.
    """
    return [_from_record(record, path) for record in read_jsonl(path)]


def _conclude(seen: Evidence) -> tuple[Usable, str]:
    if 0 < seen.num_passed < seen.num_runs:
        return "unstable", f"the reference passed in {seen.num_passed} of {seen.num_runs} runs"
    if not seen.reference.passed:
        return "no", f"the reference does not pass here: {seen.reference.message}"
    if "deleted" in seen.accepted:
        if seen.test_reads_solution:
            return "solved before", "the test passes without the solution cell"
        return "vacuous", "the test passes without the solution cell, of which it uses no name"
    if "none" in seen.accepted:
        return "vacuous", "the test passes although everything in the solution is None"
    return "yes", ""


def _find_suspect(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag.startswith(SUSPECT))


def _from_record(record: Mapping[str, object], path: Path) -> Validation:
    try:
        values = dict(record)
        for name in ("context_errors", "flags", "refused"):
            values[name] = tuple(cast("list[object]", values.get(name, [])))
        return Validation(**values)  # pyright: ignore[reportArgumentType]
    except TypeError as exc:
        unknown = sorted(set(record) - {one.name for one in fields(Validation)})
        what = f"field {unknown[0]!r} is none of a finding's" if unknown else "a field is missing"
        message = f"{path} is not a validation file ({what}). Make it again with dsp-eval validate."
        raise ProblemSetError(message) from exc


def _end_of(problem: Problem) -> int:
    return max((problem.cell_idx, *problem.grading_idxs)) + 1
