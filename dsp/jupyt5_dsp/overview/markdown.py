"""The overview's tables in Markdown."""

from collections.abc import Sequence

from jupyt5_dsp.overview.names import list_notes, word_run_settings
from jupyt5_dsp.overview.rows import CLASSES, RunRow
from jupyt5_dsp.overview.tables import list_ks
from jupyt5_dsp.overview.words import (
    COST_CAPTION,
    NOT_REPORTED,
    RESULTS_CAPTION,
    word_attempted,
    word_interval,
    word_number,
    word_rate,
    word_valid,
)

__all__ = ["render_markdown"]


def render_markdown(runs: Sequence[RunRow]) -> str:
    """Return title, notes, and two tables with their captions."""
    title = f"# {len(runs)} run{'s' if len(runs) != 1 else ''} side by side\n"
    notes = "".join(f"- {_escape(note)}\n" for note in list_notes(runs))
    parts = [
        title,
        notes,
        "## Results\n",
        _render_table(_list_results(runs)),
        f"{RESULTS_CAPTION}\n",
        "## Verdicts, tokens and times\n",
        _render_table(_list_costs(runs)),
        f"{COST_CAPTION}\n",
    ]
    return "\n".join(part for part in parts if part)


def _list_results(runs: Sequence[RunRow]) -> list[list[str]]:
    ks = list_ks(runs)
    has_gaps = any(map(word_attempted, runs))
    header = ["run", "suite", "provider", "settings", "valid"]
    header += ["attempted"] if has_gaps else []
    header += [f"pass@{k} [95 %]" for k in ks]
    header += [f"pass@{k} over attempted" for k in ks] if has_gaps else []
    rows = [header]
    for run in runs:
        settings = word_run_settings(run, runs) + (", **partial**" if run.partial else "")
        row = [run.run, run.suite_version, f"`{run.provider}`", settings, word_valid(run)]
        attempted = word_attempted(run)
        row += [f"**{attempted}**" if attempted else "all"] if has_gaps else []
        row += [_word_rate(run, k, "valid") for k in ks]
        if has_gaps:
            row += [_word_rate(run, k, "attempted") if attempted else "" for k in ks]
        rows.append(row)
    return rows


def _list_costs(runs: Sequence[RunRow]) -> list[list[str]]:
    header = ["run", "samples", *CLASSES, "prompt tokens", "prompts cut", "answer tokens"]
    rows = [[*header, "s a problem", "s a sample"]]
    for run in runs:
        row = [
            run.run,
            f"{run.num_samples:,}",
            *(f"{run.classes[kind]:,}" for kind in CLASSES),
            word_number(run.prompt_tokens, 0),
            word_number(run.num_prompts_cut, 0),
            word_number(run.completion_tokens, 0),
            word_number(run.generation_s, 2),
            word_number(run.wall_s, 3),
        ]
        rows.append(row)
    return rows


def _word_rate(run: RunRow, k: int, scope: str) -> str:
    rate = word_rate(run, k, scope)
    return rate if rate == NOT_REPORTED else f"{rate} {word_interval(run, k, scope)}".strip()


def _render_table(rows: Sequence[Sequence[str]]) -> str:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "".join("| " + " | ".join(_escape(cell) for cell in line) + " |\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
