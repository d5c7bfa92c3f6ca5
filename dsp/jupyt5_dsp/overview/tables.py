"""The overview as plain rows, for CSV, Parquet and Markdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from jupyt5_dsp.overview.rows import CLASSES, RunRow

__all__ = [
    "list_ks",
    "list_problem_records",
    "list_run_records",
    "render_markdown",
    "word_number",
    "word_rate",
    "write_tables",
]

Record = Mapping[str, object]


def list_ks(runs: Sequence[RunRow]) -> list[int]:
    """Return every k that some run reports."""
    return sorted({k for run in runs for k in run.pass_at_k})


def list_run_records(runs: Sequence[RunRow]) -> list[dict[str, object]]:
    """Return one flat record a run, all with the same fields."""
    records: list[dict[str, object]] = []
    for run in runs:
        record: dict[str, object] = {
            name: getattr(run, name)
            for name in (
                "run",
                "suite",
                "suite_version",
                "options",
                "provider",
                "partial",
                "strict",
                "num_problems",
                "num_valid",
                "num_samples",
                "num_prompts_cut",
            )
        }
        for k in list_ks(runs):
            low, high = run.ci95.get(k, (None, None))
            record |= {
                f"pass_at_{k}": run.pass_at_k.get(k),
                f"pass_at_{k}_low": low,
                f"pass_at_{k}_high": high,
                f"pass_at_{k}_all": run.pass_at_k_all.get(k),
            }
        record |= {f"num_{name.replace(' ', '_')}": run.classes[name] for name in CLASSES}
        for name in ("prompt_tokens", "completion_tokens", "generation_s", "wall_s"):
            record[f"mean_{name}"] = getattr(run, name)
        records.append(record)
    return records


def list_problem_records(runs: Sequence[RunRow]) -> list[dict[str, object]]:
    """Return one flat record a problem of each run."""
    return [
        {"suite": run.suite, "provider": run.provider, **asdict(problem)}
        for run in runs
        for problem in run.problems
    ]


def write_tables(out_path: Path, runs: Sequence[RunRow]) -> list[Path]:
    """Write ``runs`` and ``problems`` as CSV and Parquet, and ``report.md``; returns the paths.

    Raises:
        OSError: If a file cannot be written.
    """
    import pandas  # pyright: ignore[reportMissingTypeStubs]

    make_frame = cast("Callable[[Sequence[Record]], Any]", pandas.DataFrame)
    paths: list[Path] = []
    for name, records in (
        ("runs", list_run_records(runs)),
        ("problems", list_problem_records(runs)),
    ):
        frame = make_frame(records)
        paths += [out_path / f"{name}.csv", out_path / f"{name}.parquet"]
        frame.to_csv(paths[-2], index=False)
        frame.to_parquet(paths[-1], index=False)
    paths.append(out_path / "report.md")
    paths[-1].write_text(render_markdown(runs), encoding="utf-8")
    return paths


def render_markdown(runs: Sequence[RunRow]) -> str:
    """Return the table of runs in Markdown."""
    ks = list_ks(runs)
    header = ["suite", "provider", "valid", "samples", *(f"pass@{k} [95 %]" for k in ks)]
    header += [
        *CLASSES,
        "prompt tokens",
        "prompts cut",
        "answer tokens",
        "s a problem",
        "s a sample",
    ]
    lines = [header, ["---"] * len(header)]
    for run in runs:
        name = run.suite_version + (f" ({run.options})" if run.options else "")
        name += " (partial)" if run.partial else ""
        lines.append(
            [
                name,
                f"`{run.provider}`" + (" strict" if run.strict else ""),
                f"{run.num_valid}/{run.num_problems}",
                f"{run.num_samples:,}",
                *(word_rate(run, k) for k in ks),
                *(f"{run.classes[kind]:,}" for kind in CLASSES),
                word_number(run.prompt_tokens, 0),
                f"{run.num_prompts_cut:,}",
                word_number(run.completion_tokens, 0),
                word_number(run.generation_s, 2),
                word_number(run.wall_s, 3),
            ]
        )
    return "".join("| " + " | ".join(_escape(cell) for cell in line) + " |\n" for line in lines)


def word_rate(run: RunRow, k: int) -> str:
    """Return pass@k with its interval in words."""
    value, ends = run.pass_at_k.get(k), run.ci95.get(k)
    if value is None:
        return "not reported"
    return f"{value:.1%}" + (f" [{ends[0]:.1%}, {ends[1]:.1%}]" if ends else "")


def word_number(value: float | None, digits: int) -> str:
    """Return a number, or nothing where none is known."""
    return "" if value is None else f"{value:,.{digits}f}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
