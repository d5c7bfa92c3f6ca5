"""CodeBLEU of hypotheses against the reference solution, problem by problem, kept on disk."""

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.hypotheses.codebleu import (
    CODEBLEU_VERSION,
    MAX_CHARS,
    Comparison,
    explain_missing,
    score_comparisons,
)
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.parallel import run_parallel

__all__ = ["NUM_SCORED", "Answers", "Similarity", "make_key", "score_similarity"]

NUM_SCORED = 10
"""Hypotheses scored a problem. One costs 5 to 10 ms; the mean of 10 is good to a few points."""

_PROBLEMS_A_BATCH = 40


@dataclass(frozen=True, slots=True)
class Answers:
    """A problem's reference and hypotheses, all without the initial comment lines."""

    task_id: str
    reference: str
    completions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Similarity:
    """Mean CodeBLEU in [0, 1] over the hypotheses scored; None if none of them could be."""

    codebleu: float | None
    num_scored: int


@dataclass(frozen=True, slots=True)
class _Job:
    task_id: str
    key: str
    reference: str
    counts: Mapping[str, int]


def make_key(answers: Answers) -> str:
    """Return the key under which a problem's score is kept: a digest of all it depends on."""
    return _draw(answers).key


def score_similarity(
    problems: Iterable[Answers],
    cache_path: Path,
    *,
    only_known: bool = False,
    num_workers: int = 0,
) -> dict[str, Similarity]:
    """Score up to ``NUM_SCORED`` hypotheses of each problem, drawn by a fixed seed.

    Args:
        problems: Taken one at a time; only the drawn hypotheses are kept in memory.
        cache_path: JSON Lines file in which scores are kept; what fits is not scored again.
        only_known: Take scores from the cache alone, for a run that was just interrupted.
        num_workers: Processes at a time; 0 means one for each processor.

    Returns:
        By task id; empty if the package is not installed.
    """
    if explain_missing():
        return {}
    repair_jsonl(cache_path)
    known = {str(record.get("key")): record for record in read_jsonl(cache_path)}
    found: dict[str, Similarity] = {}
    todo: list[_Job] = []
    for answers in problems:
        job = _draw(answers)
        if job.key in known:
            found[job.task_id] = _read(known[job.key])
        elif job.counts:
            todo.append(job)
    if only_known:
        return found
    for record in _iter_scored(todo, num_workers or os.cpu_count() or 1):
        append_jsonl(cache_path, [record])
        found[str(record["task_id"])] = _read(record)
    return found


def _draw(answers: Answers) -> _Job:
    completions = list(answers.completions)
    if len(completions) > NUM_SCORED:
        seed = int.from_bytes(hashlib.sha256(answers.task_id.encode()).digest()[:8], "big")
        completions = random.Random(seed).sample(completions, NUM_SCORED)
    counts = Counter(text for text in completions if len(text) <= MAX_CHARS)
    parts = [CODEBLEU_VERSION, answers.task_id, answers.reference, *sorted(counts.elements())]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    short_enough = len(answers.reference) <= MAX_CHARS and bool(answers.reference.strip())
    return _Job(answers.task_id, key, answers.reference, counts if short_enough else {})


def _iter_scored(jobs: Sequence[_Job], num_workers: int) -> Iterator[dict[str, object]]:
    batches = [
        jobs[start : start + _PROBLEMS_A_BATCH] for start in range(0, len(jobs), _PROBLEMS_A_BATCH)
    ]
    for _, records in run_parallel(
        lambda batch, _: _score(batch), batches, num_workers=num_workers
    ):
        yield from records


def _score(batch: Sequence[_Job]) -> list[dict[str, object]]:
    """Score a batch in a process; a problem that brings the process down is left out."""
    found = score_comparisons(
        [Comparison(job.task_id, job.reference, list(job.counts)) for job in batch]
    )
    pairs = zip(batch, found, strict=True)
    return [_to_record(job, scores) for job, scores in pairs if scores is not None]


def _to_record(job: _Job, scores: Sequence[float | None]) -> dict[str, object]:
    pairs = zip(scores, job.counts.values(), strict=True)
    known = [(score, count) for score, count in pairs if score is not None]
    num_scored = sum(count for _, count in known)
    total = sum(score * count for score, count in known)
    return {
        "task_id": job.task_id,
        "key": job.key,
        "codebleu": round(total / num_scored, 6) if num_scored else None,
        "num_scored": num_scored,
    }


def _read(record: Mapping[str, object]) -> Similarity:
    value, count = record.get("codebleu"), record.get("num_scored")
    return Similarity(
        float(value) if isinstance(value, int | float) else None,
        count if isinstance(count, int) else 0,
    )
