"""Files of samples: JSON Lines with a problem's id and a completion, or what a model wrote."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from jupyt5.errors import ProblemSetError
from jupyt5.files import write_atomic
from jupyt5.providers import Sampling
from jupyt5_dsp.jsonl import read_jsonl, render_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet
from jupyt5_dsp.samples import Generation, Sample, make_request, take_completion

__all__ = ["read_samples", "write_samples"]

_CHECK = "Check the task ids, --limit and the suite's options"
# How much a model saw, and how it was sampled, is nothing to how its answer is taken.
_ANY_GENERATION = Generation(
    num_samples=1,
    num_context_cells=0,
    num_following_cells=1,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=1,
)

logger = logging.getLogger(__name__)


def read_samples(
    path: Path, problem_set: ProblemSet, *, max_samples: int | None = None
) -> list[Sample]:
    """Read lines of ``task_id`` and ``completion``, plain or gzip, in the order of the problems.

    A completion is taken as it is. A line with ``raw`` instead holds all that a model wrote, and
    the completion is taken from it as from a provider's answer.

    Args:
        path: The file. Samples of a problem are numbered in file order.
        problem_set: Samples of other problems are left out, with one warning.
        max_samples: Keep at most so many a problem.

    Raises:
        ProblemSetError: If the file is missing, damaged, a pipe, or fits no problem.
    """
    _refuse_pipe(path)
    problems = {problem.task_id: problem for problem in problem_set.problems}
    wanted, foreign = {task_id: list[Sample]() for task_id in problems}, list[str]()
    example = next(iter(wanted))
    for line_number, record in enumerate(read_jsonl(path), start=1):
        if fault := _explain_fault(record, example):
            message = f"{path}, record {line_number}: {fault}. Mend or remove the line."
            raise ProblemSetError(message)
        task_id = str(record["task_id"])
        if task_id not in wanted:
            foreign.append(task_id)
            continue
        own = wanted[task_id]
        if max_samples is None or len(own) < max_samples:
            own.append(_read_sample(problem_set, problems[task_id], record, len(own)))
    samples = [sample for own in wanted.values() for sample in own]
    if not samples:
        given = f": the file has {foreign[0]!r}, the problems {example!r}" if foreign else ""
        message = f"{path} has no sample of any of the {len(wanted)} problems. {_CHECK}{given}."
        raise ProblemSetError(message)
    if foreign:
        text = "%s: %d samples are of other problems, such as %s: left out."
        logger.warning(text, path, len(foreign), foreign[0])
    return samples


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write ``samples.jsonl`` in one step."""
    write_atomic(path, render_jsonl(sample.to_record() for sample in samples))


def _refuse_pipe(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        message = (
            f"{path} is a pipe or a device, and samples are read more than once. Write them to a "
            "file, and give its path."
        )
        raise ProblemSetError(message)


def _explain_fault(record: Mapping[str, object], example: str) -> str:
    """Return what is wrong with a line; "" if nothing is."""
    task_id = record.get("task_id")
    text_name = "raw" if "raw" in record and "completion" not in record else "completion"
    for name in ("task_id", text_name):
        if name not in record:
            return f"field {name} is missing, there are {', '.join(record) or 'none'}"
    if not isinstance(task_id, str):
        return f"task_id {task_id!r} is no text; here they look like {example!r}"
    if not isinstance(record[text_name], str):
        return f"{text_name} is {record[text_name]!r}, and must be a text"
    return ""


def _read_sample(
    problem_set: ProblemSet, problem: Problem, record: Mapping[str, object], sample_idx: int
) -> Sample:
    completion, raw = record.get("completion"), record.get("raw")
    mean_logprob = record.get("mean_logprob")
    if not isinstance(completion, str):
        completion = _take_from(problem_set, problem, str(raw))
    return Sample(
        task_id=problem.task_id,
        sample_idx=sample_idx,
        completion=completion,
        mean_logprob=float(mean_logprob) if isinstance(mean_logprob, int | float) else None,
        raw=raw if isinstance(raw, str) else None,
    )


def _take_from(problem_set: ProblemSet, problem: Problem, raw: str) -> str:
    if problem.shown is None and problem_set.explain_invalid(problem):
        return raw  # no request can be made, and nothing is judged
    request = make_request(problem_set, problem, _ANY_GENERATION)
    return take_completion(problem_set, problem, request, raw)
