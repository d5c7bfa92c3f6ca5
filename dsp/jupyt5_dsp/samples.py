"""Samples: completions by task id, from a file, from the references, or from a provider.

Text from a file is taken as it is; what a provider generates is cleaned and cut at the suite's
stops, with the model's own text beside it as ``raw``.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jupyt5.errors import ContextError, ProblemSetError, ProviderError
from jupyt5.files import write_atomic
from jupyt5.providers import Draft, FillRequest, Provider, Sampling, stream_drafts
from jupyt5_dsp.answers import take_answer
from jupyt5_dsp.grader import derive_seed
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, render_jsonl, repair_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = [
    "Generation",
    "Sample",
    "generate_samples",
    "make_gold",
    "make_request",
    "read_samples",
    "write_samples",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completion: the text after the solution cell's initial comment lines.

    ``raw`` is the model's own text before cleaning, ``mean_logprob`` in nats a token.
    """

    task_id: str
    sample_idx: int
    completion: str
    mean_logprob: float | None = None
    raw: str | None = None

    def to_record(self) -> dict[str, object]:
        """Return the line of ``samples.jsonl``; unknown values are left out."""
        record: dict[str, object] = {
            "task_id": self.task_id,
            "sample_idx": self.sample_idx,
            "completion": self.completion,
        }
        if self.mean_logprob is not None:
            record["mean_logprob"] = self.mean_logprob
        if self.raw is not None:
            record["raw"] = self.raw
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How a provider is asked: n hypotheses a problem, and what it sees around the cell.

    ``prompt_tokens`` is the most that its cells may have; a model's own limit holds, too.
    """

    num_samples: int
    num_context_cells: int
    num_following_cells: int
    sampling: Sampling
    seed: int
    prompt_tokens: int


def read_samples(
    path: Path, problem_set: ProblemSet, *, max_samples: int | None = None
) -> list[Sample]:
    """Read ``{"task_id", "completion"}`` lines, plain or gzip, in the order of the problems.

    Args:
        path: The file. Samples of a problem are numbered in file order.
        problem_set: Samples of other problems are left out, with one warning.
        max_samples: Keep at most so many a problem.

    Raises:
        ProblemSetError: If the file is missing, damaged, or fits no problem.
    """
    wanted = {problem.task_id: list[Sample]() for problem in problem_set.problems}
    num_foreign = 0
    for line_number, record in enumerate(read_jsonl(path), start=1):
        task_id, completion = record.get("task_id"), record.get("completion")
        if not isinstance(task_id, str) or not isinstance(completion, str):
            message = (
                f"{path}, record {line_number}: task_id and completion must both be texts. "
                "Mend or remove the line."
            )
            raise ProblemSetError(message)
        if task_id not in wanted:
            num_foreign += 1
            continue
        own = wanted[task_id]
        if max_samples is None or len(own) < max_samples:
            own.append(_read_sample(record, task_id, len(own), completion))
    if num_foreign:
        logger.warning("%s: %d samples are of other problems: left out.", path, num_foreign)
    samples = [sample for own in wanted.values() for sample in own]
    if not samples:
        message = f"{path} has no sample of any of the {len(wanted)} problems. Check the task ids."
        raise ProblemSetError(message)
    return samples


def make_gold(problem_set: ProblemSet) -> list[Sample]:
    """Return the reference solutions as samples, one a problem."""
    return [
        Sample(
            task_id=problem.task_id,
            sample_idx=0,
            completion=problem_set.reference_of(problem),
        )
        for problem in problem_set.problems
        if problem.cell_idx < len(problem_set.cells_of(problem))
    ]


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write ``samples.jsonl`` in one step."""
    write_atomic(path, render_jsonl(sample.to_record() for sample in samples))


def generate_samples(
    provider: Provider,
    problem_set: ProblemSet,
    generation: Generation,
    path: Path,
) -> Iterator[tuple[Problem, float | None]]:
    """Fill ``path`` with the provider's samples, problem by problem.

    Problems that the file already has in full are kept, so a broken run goes on where it was.

    Yields:
        Each problem that is done, with the wall seconds that its answers took; None if it was
        done before.

    Raises:
        ProviderError: If the model fails, or answers with too few hypotheses.
    """
    done = _keep_complete(path, problem_set, generation.num_samples)
    cancel = threading.Event()
    try:
        for problem in problem_set.problems:
            if problem.task_id in done:
                yield problem, None
                continue
            started_s = time.monotonic()
            samples = _ask(provider, problem_set, problem, generation, cancel)
            append_jsonl(path, [sample.to_record() for sample in samples])
            yield problem, time.monotonic() - started_s
    finally:
        cancel.set()


def make_request(problem_set: ProblemSet, problem: Problem, generation: Generation) -> FillRequest:
    """Return what a provider sees: the notebook with references, but not this problem's own.

    Where the suite shows something else, it sees all of that, and nothing of the tests.
    """
    shown = problem.shown
    if shown:
        return FillRequest(
            cells=shown.cells,
            target_idx=shown.target_idx,
            prefix=shown.prefix,
            suffix=shown.suffix,
            num_context_cells=shown.target_idx,
            num_following_cells=len(shown.cells) - shown.target_idx - 1,
            skip_blank=False,
            prompt_tokens=generation.prompt_tokens,
        )
    cells = list(problem_set.cells_of(problem))
    prefix = problem_set.prefix_of(problem)
    cells[problem.cell_idx] = replace(cells[problem.cell_idx], source=prefix)
    return FillRequest(
        cells=tuple(cells),
        target_idx=problem.cell_idx,
        prefix=prefix,
        num_context_cells=generation.num_context_cells,
        num_following_cells=generation.num_following_cells,
        skip_blank=False,
        prompt_tokens=generation.prompt_tokens,
    )


def _ask(
    provider: Provider,
    problem_set: ProblemSet,
    problem: Problem,
    generation: Generation,
    cancel: threading.Event,
) -> Sequence[Sample]:
    if problem_set.explain_invalid(problem):
        return ()
    request = make_request(problem_set, problem, generation)
    drafts: dict[int, Draft] = {}
    try:
        for draft in stream_drafts(
            provider,
            request,
            n=generation.num_samples,
            sampling=generation.sampling,
            seed=derive_seed(generation.seed, problem.task_id),
            cancel=cancel,
        ):
            drafts[draft.hypothesis_idx] = draft
    except ContextError as exc:
        logger.warning("%s is left out: %s", problem.task_id, exc)
        return ()
    num_finished = sum(draft.finished for draft in drafts.values())
    if num_finished != generation.num_samples:
        message = (
            f"{provider.uri} gave {num_finished} of {generation.num_samples} hypotheses for "
            f"{problem.task_id}. Run the command again to go on from here."
        )
        raise ProviderError(message)
    return [_take_draft(problem_set, problem, request, drafts[idx]) for idx in sorted(drafts)]


def _take_draft(
    problem_set: ProblemSet, problem: Problem, request: FillRequest, draft: Draft
) -> Sample:
    function = problem.shown.function if problem.shown else ""
    return Sample(
        task_id=problem.task_id,
        sample_idx=draft.hypothesis_idx,
        completion=take_answer(draft.raw, request, problem_set.stops, function),
        mean_logprob=draft.mean_logprob,
        raw=draft.raw,
    )


def _keep_complete(path: Path, problem_set: ProblemSet, num_samples: int) -> frozenset[str]:
    repair_jsonl(path)
    if not path.stat().st_size:
        return frozenset()
    kept: dict[str, list[Mapping[str, object]]] = {}
    for record in read_jsonl(path):
        kept.setdefault(str(record.get("task_id")), []).append(record)
    known = {problem.task_id for problem in problem_set.problems}
    done = frozenset(t for t, lines in kept.items() if len(lines) == num_samples and t in known)
    if done != kept.keys():
        lines = (record for task_id in kept if task_id in done for record in kept[task_id])
        write_atomic(path, render_jsonl(lines))
    return done


def _read_sample(
    record: Mapping[str, object], task_id: str, sample_idx: int, completion: str
) -> Sample:
    mean_logprob, raw = record.get("mean_logprob"), record.get("raw")
    return Sample(
        task_id=task_id,
        sample_idx=sample_idx,
        completion=completion,
        mean_logprob=float(mean_logprob) if isinstance(mean_logprob, int | float) else None,
        raw=raw if isinstance(raw, str) else None,
    )
