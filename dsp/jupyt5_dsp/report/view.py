"""What the page's template is given: every number worded, every chart drawn."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyt5.hypotheses.codebleu import explain_missing
from jupyt5_dsp.clusters import FEW_CLUSTERS
from jupyt5_dsp.reasons import count_reasons
from jupyt5_dsp.report.blocks import Heads, Packed, Tally
from jupyt5_dsp.report.charts import MIN_CORRELATED, RatePoint, correlate, draw_curve, draw_rates
from jupyt5_dsp.report.settings import read_settings, word_settings
from jupyt5_dsp.report.words import Words, choose_words
from jupyt5_dsp.similarity import NUM_SCORED

__all__ = ["View", "make_view"]

_SCOPES = {
    "valid": ("valid", "The headline: problems whose test can judge here."),
    "distinct": ("distinct", "Averaged first within problems that share an identical test."),
    "all": ("all", "Every problem of the set; unusable ones count 0."),
    "attempted": ("attempted", "Valid problems that have samples."),
}
_RAISED = "solution cell raised"
_NUM_REASONS = 12
_NUM_NAMED = 6


@dataclass(frozen=True, slots=True)
class View:
    """Values of the template by name; all of them are escaped there, except the two charts."""

    values: Mapping[str, object]


def make_view(
    results: Mapping[str, Any], packed: Packed, points: Sequence[RatePoint], *, num_given: int
) -> View:
    """Word what ``results.json`` says, and draw its charts.

    Args:
        results: The run's results.
        packed: Its samples.
        points: Valid problems with samples.
        num_given: Samples of the run, graded or not.

    Raises:
        KeyError: If the results lack something.
    """
    results = {"partial": False, "strict": False, "num_suspect_passes": 0, **results}
    words = choose_words(results["problems"])
    ks = sorted({int(k) for scope in results["pass_at_k"].values() for k in scope})
    return View(
        {
            "results": results,
            "title": f"{results['suite_version']} · {results['provider']}",
            "num_given": num_given,
            "words": words,
            "chips": list(_iter_chips(results)),
            "cards": list(_iter_cards(results, ks)),
            "ks": ks,
            "few_clusters": _word_few_clusters(results),
            "pass_rows": list(_iter_pass_rows(results, ks)),
            "blocked": list(_iter_blocked(results)),
            "invalid": count_reasons(results["problems"]),
            **_make_charts(results, points),
            "verdicts": list(_iter_verdicts(results, words)),
            "flags": list(_iter_flags(results, packed.tally, words)),
            "isolation": list(_iter_isolation(packed.tally, words)),
            "heads_note": _word_heads(packed.heads),
            "settings": list(_iter_settings(results)),
        }
    )


def _make_charts(results: Mapping[str, Any], points: Sequence[RatePoint]) -> dict[str, object]:
    best: Mapping[str, Any] | None = results.get("best_of_n")
    return {
        "curve": _mark(draw_curve(results["curve"], best["curve"] if best else [])),
        "best_note": _word_best(best),
        "rates": _mark(draw_rates(points)),
        "codebleu_note": _word_codebleu(points),
    }


def _mark(chart: str) -> str:
    """Let the template take a chart as it is: it holds numbers only, no text of a run."""
    from markupsafe import Markup

    return Markup(chart)


def _iter_chips(results: Mapping[str, Any]) -> Iterator[str]:
    yield str(results["suite_version"])
    settings = read_settings(results)
    yield from word_settings(settings, [settings])
    yield f"{results['num_samples']:,} samples"
    yield f"{results['num_problems']:,} problems"
    for label, group, name in (
        ("seed", "settings", "seed"),
        ("time limit, s:", "settings", "timeout_s"),
        ("sandbox", "environment", "sandbox"),
        ("Python", "environment", "python"),
    ):
        if name in results[group]:
            yield f"{label} {results[group][name]}"


def _iter_cards(results: Mapping[str, Any], ks: Sequence[int]) -> Iterator[Mapping[str, str]]:
    first, *others = map(str, ks or [1])
    for name, (label, note) in _SCOPES.items():
        values = results["pass_at_k"][name]
        interval = results["ci95"][name].get(first)
        yield {
            "label": f"pass@{first}, {label}",
            "value": f"{values[first]:.1%}" if first in values else "not reported",
            "interval": _word_interval(interval) if first in values else "",
            "more": " · ".join(f"pass@{k} {values[k]:.1%}" for k in others if k in values),
            "note": note,
        }


def _word_interval(interval: Sequence[float] | None) -> str:
    if interval is None:
        return "no interval: made by an older version"
    return f"95 %: {interval[0]:.1%} to {interval[1]:.1%}"


def _iter_pass_rows(results: Mapping[str, Any], ks: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    for name, (label, _) in _SCOPES.items():
        cells: list[Mapping[str, str]] = []
        for k in map(str, ks):
            value = results["pass_at_k"][name].get(k)
            interval = results["ci95"][name].get(k)
            cell = {
                "value": "not reported" if value is None else f"{value:.4f}",
                "interval": f"[{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "",
            }
            cells.append(cell)
        yield {"label": label, "cells": cells}


def _word_few_clusters(results: Mapping[str, Any]) -> str:
    valid = [problem for problem in results["problems"] if problem["usable"] == "yes"]
    count = len({problem["cluster"] for problem in valid})
    if not 0 < count < FEW_CLUSTERS:
        return ""
    return f"Few independent clusters of valid problems ({count}): rough intervals."


def _iter_blocked(results: Mapping[str, Any]) -> Iterator[str]:
    told: set[str] = set()
    for name, by_k in results["blocked_k"].items():
        for k, blocked in by_k.items():
            if k in told:
                continue  # over another set, because of the same problems
            told.add(k)
            shown = blocked["task_ids"][:_NUM_NAMED]
            named = ", ".join(shown)
            more = blocked["num_blocking"] - len(shown)
            tail = f" and {more} more" if more > 0 else ""
            where = f": {named}{tail}" if named else ""
            yield f"pass@{k} over “{_SCOPES[name][0]}”: {blocked['reason']}{where}."


def _word_best(best: Mapping[str, Any] | None) -> str:
    if not best:
        return ""
    n, mean, low, high = best["curve"][-1]
    text = (
        f"pass rate when only the hypothesis with the highest mean log-likelihood of n is run: "
        f"{mean:.1%} [{low:.1%}, {high:.1%}] for n = {n:.0f}, {best['curve'][0][1]:.1%} for n = 1, "
        f"over {best['num_problems']} valid problems"
    )
    left_out = best["num_left_out"]
    return text + (f" ({left_out} without all log-likelihoods left out)" if left_out else "")


def _word_codebleu(points: Sequence[RatePoint]) -> str:
    num_known = sum(point.codebleu is not None for point in points)
    if not num_known:
        missing = explain_missing()
        why = missing or "The run kept no references, or no problem has samples."
        return f"CodeBLEU is not shown. {why}"
    text = (
        f"mean CodeBLEU against the reference (up to {NUM_SCORED} hypotheses a problem, drawn by "
        f"a fixed seed; {num_known:,} problem{'' if num_known == 1 else 's'})"
    )
    if num_known < MIN_CORRELATED:
        return f"{text}; too few for a rank correlation, which takes {MIN_CORRELATED}"
    rho = correlate(points)
    return text + (
        "" if rho is None else f"; Spearman's rank correlation with the pass rate {rho:.2f}"
    )


def _iter_verdicts(results: Mapping[str, Any], words: Words) -> Iterator[Mapping[str, object]]:
    counts: Mapping[str, int] = results["verdict_counts"]
    meanings, total = words.meanings, sum(counts.values())
    order = [
        *(kind for kind in meanings if kind in counts),
        *sorted(counts.keys() - meanings),
    ]
    for kind in order:
        known = kind if kind in meanings else ""
        row = _verdict_row(kind, counts[kind], total, meanings.get(kind, ""))
        yield {**row, "kind": known}
        if kind != "passed":
            continue
        raised = results["passed_with_flag"].get(_RAISED, 0)
        if raised or not words.programs:
            yield _verdict_row(f"of these, {words.raised}", raised, total, words.raised_meaning)
        suspect: int = results["num_suspect_passes"]
        meaning = "counted as failed: the run is strict" if results["strict"] else "see the flags"
        yield _verdict_row("of these, suspect", suspect, total, meaning)


def _verdict_row(label: str, count: int, total: int, meaning: str) -> Mapping[str, object]:
    return {
        "kind": "",
        "label": label,
        "count": f"{count:,}",
        "share": f"{count / total:.1%}" if total else "",
        "meaning": meaning,
        "sub": label.startswith("of these"),
    }


def _iter_flags(
    results: Mapping[str, Any], tally: Tally, words: Words
) -> Iterator[Mapping[str, str]]:
    passes: Mapping[str, int] = results["passed_with_flag"]
    for flag in sorted(passes.keys() | tally.flags.keys()):
        yield {
            "label": words.name_flag(flag),
            "passes": f"{passes.get(flag, 0):,}",
            "all": f"{tally.flags[flag]:,}",
        }


def _iter_isolation(tally: Tally, words: Words) -> Iterator[Mapping[str, object]]:
    labels = {
        "fork": words.forked,
        "kernel": "in a fresh interpreter",
        "": "not recorded",
    }
    for name in [*labels, *sorted(tally.isolations.keys() - labels.keys())]:
        if name not in tally.isolations:
            continue
        yield _count_row(labels.get(name, name), tally.isolations[name])
        if name == "kernel":
            named = tally.reasons.most_common(_NUM_REASONS)
            for reason, count in named:
                yield _count_row(reason, count, sub=True)
            num_left = len(tally.reasons) - len(named)
            if num_left:
                rest = tally.reasons.total() - sum(count for _, count in named)
                yield _count_row(f"{num_left} other reasons", rest, sub=True)
    yield _count_row("timeouts run again cold", tally.num_cold_reruns)


def _count_row(label: str, count: int, *, sub: bool = False) -> Mapping[str, object]:
    return {"label": label, "count": f"{count:,}", "sub": sub}


def _word_heads(heads: Heads) -> str:
    return (
        f"This page holds at most {heads.source:,} characters of a source, the first "
        f"{heads.output:,} of an output and the last {heads.traceback:,} of a traceback. "
        "samples.jsonl and verdicts.jsonl beside it have more."
    )


def _iter_settings(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for group in ("settings", "environment"):
        for name, value in results[group].items():
            if isinstance(value, dict | list):
                yield name, json.dumps(value)
            else:
                yield name, str(value)
