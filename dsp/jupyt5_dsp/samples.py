"""Samples: completions by task id, from the references or from a provider.

What a model wrote is cleaned and cut at the suite's stops, with its own text beside it as ``raw``.
Files of samples: ``sample_files.py``.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    "refuse_unasked",
    "take_completion",
]

_NUM_REASONS = 3

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


def refuse_unasked(problem_set: ProblemSet) -> None:
    """Refuse to ask a model where none of its answers could be judged.

    Raises:
        ProblemSetError: If no problem can be executed, in whatever environment.
    """
    reasons = Counter(problem_set.explain_invalid(one) for one in problem_set.problems)
    if reasons[""]:
        return
    named = "; ".join(reason for reason, _ in reasons.most_common(_NUM_REASONS))
    message = (
        f"None of the {reasons.total()} problems can be executed here ({named}), so none was "
        "asked. dsp-eval prompts writes what a model would see."
    )
    raise ProblemSetError(message)


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


def take_completion(
    problem_set: ProblemSet, problem: Problem, request: FillRequest, raw: str
) -> str:
    """Return the completion in what a model wrote to a request; see ``take_answer``."""
    if problem.shown is None:
        return take_answer(raw, request, problem_set.stops)
    return take_answer(
        raw,
        request,
        problem_set.stops,
        problem.shown.function,
        is_member=problem.shown.is_member,
        keeps_future=problem_set.runs_as == "script",  # then it is moved to the top
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
    return Sample(
        task_id=problem.task_id,
        sample_idx=draft.hypothesis_idx,
        completion=take_completion(problem_set, problem, request, draft.raw),
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
