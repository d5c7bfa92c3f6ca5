"""From the folders of several runs to one page and its tables."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic
from jupyt5.pages import render_page
from jupyt5_dsp.overview.charts import draw_classes, draw_rates, draw_scatter
from jupyt5_dsp.overview.rows import CLASSES, RunRow, read_run
from jupyt5_dsp.overview.tables import list_ks, word_number, word_rate, write_tables

__all__ = ["write_overview"]

_LONGEST_NAME = 46


def write_overview(run_paths: Sequence[Path], out_path: Path) -> Path:
    """Write ``report.html``, ``report.md``, and ``runs`` and ``problems`` as CSV and Parquet.

    Args:
        run_paths: Folders of runs, finished or partial. One that is given twice counts once.
        out_path: A folder of its own; made if it is missing.

    Returns:
        Path of the page.

    Raises:
        UsageError: If ``out_path`` is the folder of a run.
        ProblemSetError: If a run has no results, or its files are damaged.
        OSError: If something cannot be written.
    """
    if (out_path / "results.json").exists():
        message = f"{out_path} is the folder of a run. Choose another --out."
        raise UsageError(message)
    runs = [read_run(path, name) for path, name in _name_folders(run_paths).items()]
    runs.sort(key=lambda run: (run.suite, run.options, run.provider))
    out_path.mkdir(parents=True, exist_ok=True)
    write_tables(out_path, runs)
    page_path = out_path / "report.html"
    values = _make_values(runs)
    write_atomic(
        page_path,
        render_page("jupyt5_dsp.overview", values, style="overview.css", script=""),
    )
    return page_path


def _make_values(runs: Sequence[RunRow]) -> dict[str, object]:
    from markupsafe import Markup

    names = _name_all(runs)
    ks = list_ks(runs)
    return {
        "num_runs": len(runs),
        "providers": sorted({run.provider for run in runs}),
        "suites": sorted({run.suite_version for run in runs}),
        "ks": ks,
        "rows": list(_iter_rows(runs, ks)),
        "names": names,
        "classes": list(CLASSES),
        # Drawn from numbers and escaped names.
        "rates": Markup(draw_rates(runs, names, ks[0])) if ks else "",
        "verdicts": Markup(draw_classes(runs, names)),
        "scatter": Markup(draw_scatter(runs)),
        "has_estimates": any(p.prompt_tokens_estimated for run in runs for p in run.problems),
    }


def _iter_rows(runs: Sequence[RunRow], ks: Sequence[int]) -> Iterator[Mapping[str, object]]:
    for idx, run in enumerate(runs):
        yield {
            "colour": f"s{idx % 8}",
            "suite": run.suite_version,
            "options": run.options,
            "provider": run.provider,
            "marks": [name for name in ("partial", "strict") if getattr(run, name)],
            "valid": f"{run.num_valid:,}/{run.num_problems:,}",
            "samples": f"{run.num_samples:,}",
            "rates": [word_rate(run, k) for k in ks],
            "classes": [f"{run.classes[kind]:,}" for kind in CLASSES],
            "prompt_tokens": word_number(run.prompt_tokens, 0),
            "prompts_cut": f"{run.num_prompts_cut:,}",
            "completion_tokens": word_number(run.completion_tokens, 0),
            "generation_s": word_number(run.generation_s, 2),
            "wall_s": word_number(run.wall_s, 3),
        }


def _name_folders(run_paths: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each folder, given twice or not: as much of its path's end as it takes."""
    paths = list(dict.fromkeys(path.resolve() for path in run_paths))
    names: dict[Path, str] = {}
    for path in paths:
        others = [other.parts for other in paths if other != path]
        length = 1
        while any(parts[-length:] == path.parts[-length:] for parts in others):
            length += 1
        names[path] = "/".join(path.parts[-length:])
    return names


def _name_all(runs: Sequence[RunRow]) -> list[str]:
    """Return a name for each run; those that would be the same get their folders' names."""
    names = [_name(run) for run in runs]
    return [
        f"{name} ({run.run})" if names.count(name) > 1 else name
        for run, name in zip(runs, names, strict=True)
    ]


def _name(run: RunRow) -> str:
    provider = run.provider
    scheme, sign, rest = provider.partition(":")
    if "/" in rest:
        provider = f"{scheme}{sign}…/{rest.rsplit('/', 1)[-1]}"
    name = f"{run.suite}, {provider}"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
