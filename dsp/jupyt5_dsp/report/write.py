"""From the files of a run to its page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jupyt5.errors import ProblemSetError
from jupyt5.files import write_atomic
from jupyt5.pages import render_page
from jupyt5_dsp.prompts import PromptSize, read_prompts
from jupyt5_dsp.report.blocks import Packed, deflate, pack_samples
from jupyt5_dsp.report.charts import RatePoint
from jupyt5_dsp.report.references import Reference, read_references
from jupyt5_dsp.report.store import RunStore
from jupyt5_dsp.report.view import make_view
from jupyt5_dsp.report.words import VERDICT_MEANINGS, choose_words
from jupyt5_dsp.similarity import Answers, Similarity, score_similarity

__all__ = ["read_results", "write_report"]

_SIMILARITY_FILE = "codebleu.jsonl"


def write_report(run_path: Path) -> Path:
    """Write ``report.html`` from the files of a run.

    An interrupted run whose ``results.json`` says ``"partial": true`` gets a page that says so.
    CodeBLEU is kept in ``codebleu.jsonl`` beside it and not computed again.

    Raises:
        ProblemSetError: If the run has no results yet or its files are damaged.
    """
    results = read_results(run_path)
    try:
        page = _make_page(run_path, results)
    except (KeyError, TypeError, AttributeError) as exc:
        message = (
            f"{run_path / 'results.json'} is damaged ({exc!r}). Repeat the dsp-eval run command."
        )
        raise ProblemSetError(message) from exc
    report_path = run_path / "report.html"
    write_atomic(report_path, page)
    return report_path


def read_results(run_path: Path) -> dict[str, Any]:
    """Return ``results.json`` of a run.

    Raises:
        ProblemSetError: If it is missing or no JSON object.
    """
    results_path = run_path / "results.json"
    if not results_path.is_file():
        message = (
            f"{run_path} has no results.json: no finished run is there. "
            "Repeat its dsp-eval run command to finish it."
        )
        raise ProblemSetError(message)
    try:
        results: object = json.loads(results_path.read_text(encoding="utf-8"))
    except ValueError as exc:
        message = f"{results_path} is damaged ({exc}). Repeat the dsp-eval run command."
        raise ProblemSetError(message) from exc
    if not isinstance(results, dict):
        message = f"{results_path} is damaged (no JSON object). Repeat the dsp-eval run command."
        raise ProblemSetError(message)
    return cast("dict[str, Any]", results)


def _make_page(run_path: Path, results: Mapping[str, Any]) -> bytes:
    problems: Sequence[Mapping[str, Any]] = results["problems"]
    references, words = read_references(run_path), choose_words(problems)
    with RunStore(run_path) as store:
        answers = _iter_answers(store, problems, references)
        cache_path, partial = run_path / _SIMILARITY_FILE, bool(results.get("partial"))
        similarity = score_similarity(answers, cache_path, only_known=partial)
        task_ids = [problem["task_id"] for problem in problems]
        packed = pack_samples(store, task_ids, references, words)
        num_given = store.num_samples
    points = [
        RatePoint(
            problem["task_id"],
            problem["num_correct"] / problem["num_samples"],
            _codebleu(similarity, problem["task_id"]),
        )
        for problem in problems
        if problem["usable"] == "yes" and problem["num_samples"]
    ]
    view = make_view(results, packed, points, num_given=num_given)
    prompts = read_prompts(run_path)
    index = deflate(_make_index(problems, packed, similarity, references, prompts))
    values = {**view.values, "index": index, "blocks": packed.blocks}
    return render_page("jupyt5_dsp.report", values, style="report.css", script="report.js")


def _iter_answers(
    store: RunStore,
    problems: Sequence[Mapping[str, Any]],
    references: Mapping[str, Reference],
) -> Iterator[Answers]:
    for problem in problems:
        reference = references.get(problem["task_id"])
        if reference is not None and problem["usable"] == "yes":
            completions = list(store.iter_completions(problem["task_id"]))
            yield Answers(problem["task_id"], reference.reference, completions)


def _describe_prompt(size: PromptSize | None) -> Mapping[str, object] | None:
    names = ("num_tokens", "num_left_out", "is_estimate")
    return {name: getattr(size, name) for name in names} if size else None


def _codebleu(similarity: Mapping[str, Similarity], task_id: str) -> float | None:
    return similarity[task_id].codebleu if task_id in similarity else None


def _make_index(
    problems: Sequence[Mapping[str, Any]],
    packed: Packed,
    similarity: Mapping[str, Similarity],
    references: Mapping[str, Reference],
    prompts: Mapping[str, PromptSize],
) -> list[dict[str, object]]:
    """Return the rows of the table; report.js names their fields."""
    words, rows = choose_words(problems), list[dict[str, object]]()
    for problem in problems:
        parts, reference = packed.problems[problem["task_id"]], references.get(problem["task_id"])
        order = [*VERDICT_MEANINGS, *sorted(parts.verdicts.keys() - VERDICT_MEANINGS)]
        row: dict[str, object] = {
            "id": problem["task_id"],
            "notebook": "" if words.programs else problem["notebook"],
            "function": reference.function if reference else "",
            "n": problem["num_samples"],
            "c": problem["num_correct"],
            "usable": problem["usable"],
            "reference": problem["reference"],
            "reason": words.say(problem["reason"]),
            "prompt": _describe_prompt(prompts.get(problem["task_id"])),
            "codebleu": _codebleu(similarity, problem["task_id"]),
            "flagged": parts.num_flagged,
            "verdicts": [[kind, n] for kind in order if (n := parts.verdicts[kind])],
            "places": parts.places,
        }
        rows.append(row)
    return rows
