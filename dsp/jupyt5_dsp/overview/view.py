"""What the overview's template is given: every number worded, every chart drawn."""

from collections.abc import Iterator, Mapping, Sequence

from jupyt5_dsp.overview.charts import draw_classes, draw_rates
from jupyt5_dsp.overview.marks import Mark, choose_marks
from jupyt5_dsp.overview.names import (
    group_runs,
    list_notes,
    name_providers,
    word_run_settings,
)
from jupyt5_dsp.overview.panels import draw_curves, draw_scatter
from jupyt5_dsp.overview.rows import CLASSES, RunRow
from jupyt5_dsp.overview.tables import list_ks
from jupyt5_dsp.overview.words import (
    COST_CAPTION,
    RESULTS_CAPTION,
    word_attempted,
    word_interval,
    word_number,
    word_rate,
    word_valid,
)

__all__ = ["make_view"]

Values = Mapping[str, object]


def make_view(runs: Sequence[RunRow]) -> dict[str, object]:
    """Return the template's values by name; texts of runs are escaped there or in a chart."""
    from markupsafe import Markup

    marks, ks, groups = choose_marks(runs), list_ks(runs), group_runs(runs)
    return {
        "num_runs": len(runs),
        "num_providers": len({run.provider for run in runs}),
        "num_suites": len({run.suite for run in runs}),
        "notes": list_notes(runs),
        "ks": ks,
        "versions": list(groups),
        "matrix": list(_iter_matrix(runs, ks[0])) if ks and len(groups) > 1 else [],
        "groups": [
            {"version": version, "rows": [_make_row(run, runs, ks, marks) for run in group]}
            for version, group in groups.items()
        ],
        "classes": list(CLASSES),
        "results_caption": RESULTS_CAPTION,
        "cost_caption": COST_CAPTION,
        # Drawn from numbers and escaped names.
        "rates": [Markup(one) for one in draw_rates(runs, marks, ks[0])] if ks else [],
        "verdicts": [Markup(one) for one in draw_classes(runs)],
        "curves": list(_iter_panels(groups, marks, "curves")),
        "scatters": list(_iter_panels(groups, marks, "scatter")),
        "has_estimates": any(p.prompt_tokens_estimated for run in runs for p in run.problems),
    }


def _make_row(
    run: RunRow, runs: Sequence[RunRow], ks: Sequence[int], marks: Mapping[str, Mark]
) -> Values:
    attempted = word_attempted(run)
    return {
        "run": run.run,
        "mark": marks[run.run],
        "provider": run.provider,
        "short_provider": name_providers(runs)[run.provider],
        "settings": word_run_settings(run, runs),
        "partial": run.partial,
        "valid": word_valid(run),
        "attempted": attempted,
        "rates": [_make_rate(run, k, attempted) for k in ks],
        "samples": f"{run.num_samples:,}",
        "classes": [f"{run.classes[kind]:,}" for kind in CLASSES],
        "costs": [
            word_number(run.prompt_tokens, 0),
            word_number(run.num_prompts_cut, 0),
            word_number(run.completion_tokens, 0),
            word_number(run.generation_s, 2),
            word_number(run.wall_s, 3),
        ],
    }


def _make_rate(run: RunRow, k: int, attempted: str) -> Values:
    has_other = attempted and k in run.pass_at_k["attempted"]
    return {
        "value": word_rate(run, k),
        "interval": word_interval(run, k),
        "attempted": word_rate(run, k, "attempted") if has_other else "",
        "attempted_interval": word_interval(run, k, "attempted") if has_other else "",
    }


def _iter_matrix(runs: Sequence[RunRow], k: int) -> Iterator[Values]:
    """Yield, for each provider, its runs over each suite."""
    groups, names = group_runs(runs), name_providers(runs)
    for provider in sorted(names):
        cells: list[list[Values]] = []
        for group in groups.values():
            own = [run for run in group if run.provider == provider]
            cell: list[Values] = [
                {
                    "value": word_rate(run, k),
                    "interval": word_interval(run, k),
                    "about": run.run if len(own) > 1 else "",
                    "attempted": word_attempted(run),
                }
                for run in own
            ]
            cells.append(cell)
        yield {"provider": provider, "short_provider": names[provider], "cells": cells}


def _iter_panels(
    groups: Mapping[str, Sequence[RunRow]], marks: Mapping[str, Mark], kind: str
) -> Iterator[Values]:
    from markupsafe import Markup

    draw = draw_curves if kind == "curves" else draw_scatter
    for version, group in groups.items():
        chart = draw(version, group, marks)
        if not chart:
            continue
        names = name_providers(group)
        legend = [
            {
                "mark": marks[run.run],
                "label": f"{names[run.provider]} · {run.run}",
                "cut": f"{run.num_prompts_cut:,} of {run.num_valid:,} prompts cut"
                if run.num_prompts_cut and kind == "scatter"
                else "",
            }
            for run in group
        ]
        yield {"version": version, "chart": Markup(chart), "legend": legend}
