"""CodeBLEU of hypotheses against the reference solution, problem by problem, kept on disk.

Computed by the ``codebleu`` package in processes of their own (see ``similarity_worker``): they
parse hostile text in C, and may be ended.
"""

import hashlib
import importlib.util
import json
import logging
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.parallel import run_parallel

__all__ = ["NUM_SCORED", "Answers", "Similarity", "explain_missing", "make_key", "score_similarity"]

NUM_SCORED = 10
"""Hypotheses scored a problem. One costs 5 to 10 ms; the mean of 10 is good to a few points."""

_METRIC = "codebleu-0.7.0/1"
_MAX_CHARS = 4000
_PROBLEMS_A_BATCH = 40
_BATCH_TIMEOUT_S = 1800

logger = logging.getLogger(__name__)


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


def explain_missing() -> str:
    """Return how to get CodeBLEU if it is not installed; "" if it is."""
    missing = [
        name
        for name in ("codebleu", "tree_sitter_python")
        if importlib.util.find_spec(name) is None
    ]
    if not missing:
        return ""
    if sys.version_info >= (3, 13):
        return "The codebleu package has no wheels for Python 3.13 and later."
    return "Install it with: pip install 'jupyt5[dsp]'"


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
    # The metric's cost grows faster than the text: very long ones say little and are left out.
    counts = Counter(text for text in completions if len(text) <= _MAX_CHARS)
    parts = [_METRIC, answers.task_id, answers.reference, *sorted(counts.elements())]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    short_enough = len(answers.reference) <= _MAX_CHARS and bool(answers.reference.strip())
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
    lines = [
        json.dumps({"reference": job.reference, "completions": list(job.counts)}) for job in batch
    ]
    # The package numbers variables in the order of a set: a fixed hash seed makes it repeatable.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "jupyt5_dsp.similarity_worker"]
    try:
        done = subprocess.run(
            command,
            input="\n".join(lines),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_BATCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        logger.warning("CodeBLEU of %d problems is left out: it took too long.", len(batch))
        return []
    answers = done.stdout.splitlines()
    records = [
        _to_record(job, cast("list[float | None]", json.loads(line)))
        for job, line in zip(batch, answers, strict=False)
    ]
    left = batch[len(answers) + 1 :]
    if len(answers) < len(batch):
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        logger.warning("CodeBLEU of %s is left out: %s", batch[len(answers)].task_id, reason[0])
    return [*records, *_score(left)] if left else records


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
