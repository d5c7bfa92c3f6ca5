"""Every sample to a verdict, appended as it comes: the file of verdicts is the resume point."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5.execution.verdicts import Verdict, VerdictKind, shorten
from jupyt5_dsp.grader import Grader
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.parallel import run_parallel
from jupyt5_dsp.problems import Problem, digest
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.validation import Validation

__all__ = ["GradedSample", "grade_samples", "read_verdicts"]


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
class _Job:
    problem: Problem
    sample: Sample
    input_key: str


def grade_samples(
    grader: Grader,
    samples: Sequence[Sample],
    validations: Mapping[str, Validation],
    path: Path,
    *,
    num_workers: int,
    watch: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Judge all samples that ``path`` has no fitting verdict for, and append the verdicts.

    Args:
        grader: Runs the cells.
        samples: What to judge.
        validations: By task id. Samples of a problem that is not usable are not run.
        path: ``verdicts.jsonl``.
        num_workers: Kernels at a time. The verdicts do not depend on it.
        watch: Called with the numbers of samples done and of all samples.

    Raises:
        ExecutionError: If no kernel starts.
    """
    repair_jsonl(path)
    todo = _find_undone(grader, samples, validations, path)
    unusable = [job for job in todo if not validations[job.sample.task_id].valid]
    append_jsonl(path, [_refuse(job, validations[job.sample.task_id]) for job in unusable])
    usable = [job for job in todo if validations[job.sample.task_id].valid]
    num_done = len(samples) - len(usable)
    watch(num_done, len(samples))

    def run(job: _Job, cancel: threading.Event) -> dict[str, object]:
        source = grader.problem_set.fill(job.problem, job.sample.completion)
        verdict, wall_s = grader.grade(job.problem, source, cancel=cancel)
        return _to_record(job, verdict, wall_s)

    for _, record in run_parallel(run, usable, num_workers=num_workers):
        append_jsonl(path, [record])
        num_done += 1
        watch(num_done, len(samples))


def _find_undone(
    grader: Grader, samples: Sequence[Sample], validations: Mapping[str, Validation], path: Path
) -> list[_Job]:
    problems = {problem.task_id: problem for problem in grader.problem_set.problems}
    done = {str(record.get("input_key")) for record in read_jsonl(path)}
    jobs = (
        _Job(problems[sample.task_id], sample, _make_input_key(sample, validations))
        for sample in samples
    )
    return [job for job in jobs if job.input_key not in done]


def read_verdicts(
    path: Path, samples: Sequence[Sample], validations: Mapping[str, Validation]
) -> list[GradedSample]:
    """Return the verdicts that belong to ``samples``, in the order of the samples."""
    by_key = {str(record.get("input_key")): record for record in read_jsonl(path)}
    graded: list[GradedSample] = []
    for sample in samples:
        record = by_key[_make_input_key(sample, validations)]
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


def _make_input_key(sample: Sample, validations: Mapping[str, Validation]) -> str:
    # The validation's key covers the problem's cells, the limits and the environment.
    found = validations[sample.task_id]
    parts = [found.key, found.usable, sample.task_id, str(sample.sample_idx), sample.completion]
    return digest(parts)


def _refuse(job: _Job, found: Validation) -> dict[str, object]:
    is_context = found.reference == VerdictKind.CONTEXT
    kind = VerdictKind.CONTEXT if is_context else VerdictKind.INVALID
    text = f"Not run, the problem is not usable ({found.usable}): {found.reason}"
    return _to_record(job, Verdict(kind=kind, message=shorten(text)), 0.0)


def _to_record(job: _Job, verdict: Verdict, wall_s: float) -> dict[str, object]:
    return {
        "task_id": job.sample.task_id,
        "sample_idx": job.sample.sample_idx,
        "verdict": str(verdict.kind),
        "flags": list(verdict.flags),
        "message": verdict.message,
        "output_head": verdict.output_head,
        "traceback": verdict.traceback,
        "input_key": job.input_key,
        "isolation": "kernel",
        "cold_rerun": False,
        "wall_s": round(wall_s, 3),
        "cpu_s": None,
    }
