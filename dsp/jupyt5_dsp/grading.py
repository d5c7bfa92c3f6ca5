"""Every sample to a verdict, appended as it comes: the file of verdicts is the resume point."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5.execution.engine import Judged
from jupyt5.execution.jobs import Attempt, Isolation
from jupyt5.execution.suspicion import find_suspicions
from jupyt5.execution.verdicts import SUSPECT, Verdict, VerdictKind, shorten
from jupyt5_dsp.fanout import Fanout, LocalFanout
from jupyt5_dsp.grader import Grader
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet, digest
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.validation import Validation

__all__ = ["Chunk", "GradedSample", "grade_chunk", "grade_samples", "read_verdicts"]

_CHUNKS_PER_WORKER = 3
_MIN_CHUNK = 8


@dataclass(frozen=True, slots=True)
class GradedSample:
    """A line of ``verdicts.jsonl``, as far as results need it."""

    task_id: str
    sample_idx: int
    verdict: str
    flags: tuple[str, ...]
    message: str
    output_head: str
    traceback: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """A sample to judge; ``own_flags`` are those that its reference earns, too."""

    problem: Problem
    sample: Sample
    input_key: str
    own_flags: tuple[str, ...]
    isolation_reason: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Samples of one notebook, or of some programs, that one worker runs.

    Attributes:
        isolation: How to run them; a problem's validation may ask for fresh processes.
        attempts: By task id; their keys are the samples' input keys.
    """

    isolation: Isolation
    attempts: Mapping[str, tuple[Attempt, ...]]


def grade_samples(
    grader: Grader,
    samples: Sequence[Sample],
    validations: Mapping[str, Validation],
    path: Path,
    *,
    num_workers: int = 1,
    fanout: Fanout | None = None,
    watch: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Judge all samples that ``path`` has no fitting verdict for, and append the verdicts.

    Args:
        grader: Runs the cells.
        samples: What to judge.
        validations: By task id. Samples of a problem that is not usable are not run.
        path: ``verdicts.jsonl``.
        num_workers: Notebooks at a time, on threads of this process. The verdicts do not depend
            on it.
        fanout: Runs them somewhere else instead.
        watch: Called with the numbers of samples done and of all samples.

    Raises:
        ExecutionError: If no worker starts.
    """
    repair_jsonl(path)
    todo = _find_undone(grader, samples, validations, path)
    unusable = [one for one in todo if not validations[one.sample.task_id].valid]
    append_jsonl(path, [_refuse(one, validations[one.sample.task_id]) for one in unusable])
    usable = {one.input_key: one for one in todo if validations[one.sample.task_id].valid}
    num_done = len(samples) - len(usable)
    watch(num_done, len(samples))
    fanout = fanout or LocalFanout(grader, num_workers)
    entries = list(usable.values())
    chunks = list(_split(grader.problem_set, entries, validations, fanout.num_workers))
    for _, judged in fanout.run(grade_chunk, chunks):
        entry = usable[judged.key]
        append_jsonl(path, [_to_record(entry, judged, grader.problem_set)])
        num_done += 1
        watch(num_done, len(samples))


def grade_chunk(grader: Grader, chunk: Chunk, cancel: threading.Event) -> Iterator[Judged]:
    """Run one chunk; yields a verdict for each of its samples."""
    isolation = None if chunk.isolation == "fork" else chunk.isolation
    for found in grader.run(chunk.attempts, isolation=isolation, cancel=cancel):
        if isinstance(found, Judged):
            yield found


def read_verdicts(
    path: Path, samples: Sequence[Sample], validations: Mapping[str, Validation]
) -> list[GradedSample]:
    """Return the verdicts that belong to ``samples``, in the order of the samples.

    Samples without a verdict, in a run that was broken off, are left out.
    """
    by_key = {str(record.get("input_key")): record for record in read_jsonl(path)}
    graded: list[GradedSample] = []
    for sample in samples:
        record = by_key.get(_make_input_key(sample, validations[sample.task_id]))
        if record is None:
            continue
        flags = cast("list[object]", record.get("flags") or [])
        graded.append(
            GradedSample(
                task_id=sample.task_id,
                sample_idx=sample.sample_idx,
                verdict=str(record.get("verdict")),
                flags=tuple(str(flag) for flag in flags),
                message=str(record.get("message") or ""),
                output_head=str(record.get("output_head") or ""),
                traceback=str(record.get("traceback") or ""),
            )
        )
    return graded


def _find_undone(
    grader: Grader, samples: Sequence[Sample], validations: Mapping[str, Validation], path: Path
) -> list[_Entry]:
    problems = {problem.task_id: problem for problem in grader.problem_set.problems}
    done = {str(record.get("input_key")) for record in read_jsonl(path)}
    entries = (
        _Entry(
            problems[sample.task_id],
            sample,
            _make_input_key(sample, validations[sample.task_id]),
            validations[sample.task_id].flags,
            validations[sample.task_id].isolation_reason,
        )
        for sample in samples
    )
    return [entry for entry in entries if entry.input_key not in done]


def _split(
    problem_set: ProblemSet,
    entries: Sequence[_Entry],
    validations: Mapping[str, Validation],
    num_workers: int,
) -> Iterator[Chunk]:
    """Divide the samples into chunks: one a group, more where workers would be idle."""
    groups: dict[tuple[str, Isolation], list[_Entry]] = {}
    names = problem_set.group_problems()
    for entry in entries:
        found = validations[entry.sample.task_id]
        groups.setdefault((names[entry.problem.task_id], found.isolation), []).append(entry)
    share = max(math.ceil(len(entries) / (num_workers * _CHUNKS_PER_WORKER)), _MIN_CHUNK)
    # Long ones first, so that no worker ends with one alone.
    for (_, isolation), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        for part in _cut(group, math.ceil(len(group) / share), problem_set):
            yield _make_chunk(problem_set, part, isolation)


def _cut(
    entries: Sequence[_Entry], num_parts: int, problem_set: ProblemSet
) -> Iterator[Sequence[_Entry]]:
    if problem_set.checker is None:
        yield from (entries[part::num_parts] for part in range(num_parts))
        return
    # A problem's samples together: each chunk may have to run its references anew.
    by_problem = sorted(entries, key=lambda entry: entry.sample.task_id)
    size = math.ceil(len(entries) / num_parts)
    for start in range(0, len(entries), size):
        yield by_problem[start : start + size]


def _make_chunk(problem_set: ProblemSet, entries: Sequence[_Entry], isolation: Isolation) -> Chunk:
    attempts: dict[str, list[Attempt]] = {}
    for entry in entries:
        source = problem_set.fill(entry.problem, entry.sample.completion)
        own = attempts.setdefault(entry.sample.task_id, [])
        own.append(Attempt(key=entry.input_key, source=source))
    return Chunk(isolation, {name: tuple(own) for name, own in attempts.items()})


def _make_input_key(sample: Sample, found: Validation) -> str:
    # The validation's key covers the problem's cells, the limits and the environment.
    parts = [found.key, found.usable, sample.task_id, str(sample.sample_idx), sample.completion]
    return digest(parts)


def _refuse(entry: _Entry, found: Validation) -> dict[str, object]:
    is_context = found.reference == VerdictKind.CONTEXT
    kind = VerdictKind.CONTEXT if is_context else VerdictKind.INVALID
    text = f"Not run, the problem is not usable ({found.usable}): {found.reason}"
    return _render(entry, Verdict(kind=kind, message=shorten(text)))


def _to_record(entry: _Entry, judged: Judged, problem_set: ProblemSet) -> dict[str, object]:
    verdict = judged.verdict
    flags = list(verdict.flags)
    if verdict.passed:
        flags += _find_static_flags(entry, problem_set)
    # What the reference itself is flagged for says nothing about a sample.
    kept = [flag for flag in dict.fromkeys(flags) if flag not in entry.own_flags]
    record = _render(entry, verdict)
    record |= {
        "flags": kept,
        "isolation": judged.isolation,
        "isolation_reason": judged.isolation_reason or entry.isolation_reason,
        "cold_rerun": judged.cold_rerun,
        "wall_s": round(judged.wall_s, 4),
        "cpu_s": round(judged.cpu_s, 4),
    }
    return record


def _find_static_flags(entry: _Entry, problem_set: ProblemSet) -> tuple[str, ...]:
    problem = entry.problem
    cells = problem_set.cells_of(problem)
    return find_suspicions(
        problem_set.fill(problem, entry.sample.completion),
        cells[problem.cell_idx].source,
        [cells[idx].source for idx in problem.grading_idxs],
        [cell.source for cell in cells[: problem.cell_idx] if cell.kind == "code"],
        is_program=problem_set.has_programs,
    )


def _render(entry: _Entry, verdict: Verdict) -> dict[str, object]:
    return {
        "task_id": entry.sample.task_id,
        "sample_idx": entry.sample.sample_idx,
        "verdict": str(verdict.kind),
        "flags": [flag for flag in verdict.flags if not flag.startswith(SUSPECT)],
        "message": verdict.message,
        "output_head": verdict.output_head,
        "traceback": verdict.traceback,
        "input_key": entry.input_key,
        "isolation": None,
        "isolation_reason": "",
        "cold_rerun": False,
        "wall_s": 0.0,
        "cpu_s": 0.0,
    }
