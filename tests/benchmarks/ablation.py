"""The paper's ablation: one model with C = 1 and 3 context cells, with and without the cell below.

``python tests/benchmarks/ablation.py RUN RUN RUN RUN --losses losses.json --out DIR`` writes
``ablation.md`` (as the paper's Table 4), ``ablation.png`` (as its Figures 4 and 7) and
``ablation.json``. A RUN is the folder of ``dsp-eval run --provider ... --context C --following F``;
the table.json of ``compare_models.py grade`` may stand for all four. ``losses.json`` is the output
of ``jupyt5-train evaluate MODEL --data DATA --context 1,3 --following 0,1 --json``.
``--pair full=RUN markdown=RUN`` adds two models of equal tokens.

Bands are 95 % intervals: of pass@k over clusters of problems, of losses over notebooks.
Differences are paired, by problem or by notebook.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jupyt5.errors import Jupyt5Error
from jupyt5_dsp.clusters import bootstrap_means
from jupyt5_dsp.curve import choose_ks
from jupyt5_dsp.passk import (
    Outcome,
    mean_by_group,
    summarise,
    summarise_scope,
    tabulate_pass_at_k,
)
from jupyt5_dsp.report.write import read_results
from jupyt5_training.intervals import resample_losses

SETTINGS = ((1, 0), (1, 1), (3, 0), (3, 1))
# (name, the setting that lacks it, the setting that has it)
CONTRASTS = (
    ("following cell, C = 1", (1, 0), (1, 1)),
    ("following cell, C = 3", (3, 0), (3, 1)),
    ("C = 3 for 1, without following cell", (1, 0), (3, 0)),
    ("C = 3 for 1, with following cell", (1, 1), (3, 1)),
)
COLOURS = {(1, 0): "#9aa5b1", (1, 1): "#c2571a", (3, 0): "#1f6feb", (3, 1): "#2c974b"}
PAIR_COLOURS = ("#1f6feb", "#c2571a")
KS = (1, 10, 100)

Setting = tuple[int, int]
GROUPS: dict[str, Callable[[Outcome], str]] = {
    "valid": lambda outcome: outcome.task_id,
    "distinct": lambda outcome: outcome.grading_key,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One model in one setting, problem by problem, and its losses if they are known."""

    label: str
    setting: Setting
    provider: str
    outcomes: Sequence[Outcome]
    losses: Mapping[str, Any] | None = None

    @property
    def ks(self) -> list[int]:
        """The budgets that are reported."""
        return [k for k in KS if k <= self.max_k]

    @property
    def max_k(self) -> int:
        """The fewest hypotheses of a valid problem that has any."""
        counts = [one.num_samples for one in self.outcomes if one.valid and one.num_samples]
        if not counts:
            message = f"{self.label}: no valid problem has hypotheses."
            raise ValueError(message)
        return min(counts)

    @property
    def curve(self) -> list[list[float]]:
        """Rows of k, pass@k over valid problems, and its interval."""
        valid = [outcome for outcome in self.outcomes if outcome.valid]
        scope = summarise_scope(valid, choose_ks(self.max_k), seed=0)
        rows = scope.pass_at_k.items()
        return [[k, value, *scope.ci95[k]] for k, value in rows]


def main(argv: Sequence[str] | None = None) -> int:
    args = make_parser().parse_args(argv)
    try:
        entries = read_settings(args.runs, args.losses)
        pair = read_pair(args.pair, args.pair_losses)
        found = {
            "settings": [describe(entry) for entry in entries.values()],
            "contrasts": [
                {"name": name, **contrast(entries[without], entries[having])}
                for name, without, having in CONTRASTS
            ],
            "pair": [describe(entry) for entry in pair],
            "pair_contrast": contrast(*pair) if pair else None,
        }
    except (Jupyt5Error, OSError, KeyError, TypeError, ValueError) as exc:
        sys.stderr.write(f"error: {exc}\n")
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "ablation.json").write_text(json.dumps(found, indent=2) + "\n")
    table = "\n".join(render_table(found)) + "\n"
    (args.out / "ablation.md").write_text(table)
    draw(entries, pair, args.out / "ablation.png")
    sys.stdout.write(table)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="in any order")
    parser.add_argument("--losses", type=Path, metavar="FILE", help="of jupyt5-train evaluate")
    parser.add_argument("--pair", nargs=2, default=[], metavar="NAME=RUN", help="two models")
    parser.add_argument(
        "--pair-losses", type=Path, nargs=2, default=[], metavar="FILE", help="in the same order"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def read_settings(paths: Sequence[Path], losses_path: Path | None) -> dict[Setting, Entry]:
    """Read one model in the four settings; refuses other settings and a second model."""
    losses = read_losses(losses_path)
    found = [entry for path in paths for entry in read_entries(path)]
    entries = {entry.setting: replace(entry, losses=losses.get(entry.setting)) for entry in found}
    if set(entries) != set(SETTINGS) or len(found) != len(SETTINGS):
        told = sorted(entry.setting for entry in found)
        message = f"The runs have the settings {told}; wanted are {list(SETTINGS)}, once each."
        raise ValueError(message)
    providers = {entry.provider for entry in found}
    if len(providers) > 1:
        message = f"The runs are of different models: {', '.join(sorted(providers))}."
        raise ValueError(message)
    return {setting: entries[setting] for setting in SETTINGS}


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield what a run's folder holds, or each sampled row of a table of compare_models.py."""
    if path.is_file():
        for row in json.loads(path.read_text("utf-8")):
            if not row["greedy"]:
                outcomes = [Outcome(**outcome) for outcome in row["outcomes"]]
                yield make_entry(row, str(row["provider"]), outcomes)
        return
    results = read_results(path)
    outcomes = [
        Outcome(
            valid=problem["usable"] == "yes",
            **{name: problem[name] for name in Outcome.__slots__ if name != "valid"},
        )
        for problem in results["problems"]
    ]
    settings = results["settings"]
    if "num_context_cells" not in settings:
        message = f"{path} does not say what its model saw. Make it with dsp-eval run --provider."
        raise ValueError(message)
    # The name says where the model lay; the hash says which it was.
    yield make_entry(settings, str(settings["model_sha256"]), outcomes)


def make_entry(row: Mapping[str, Any], provider: str, outcomes: Sequence[Outcome]) -> Entry:
    setting = (row["num_context_cells"], row["num_following_cells"])
    label = f"C = {setting[0]}, {'one' if setting[1] else 'no'} following cell"
    return Entry(label, setting, provider, outcomes)


def read_losses(path: Path | None) -> dict[Setting, Mapping[str, Any]]:
    if path is None:
        return {}
    rows = json.loads(path.read_text("utf-8"))["settings"]
    return {(row["num_context_cells"], row["num_following_cells"]): row for row in rows}


def read_pair(specs: Sequence[str], loss_paths: Sequence[Path]) -> list[Entry]:
    entries: list[Entry] = []
    for idx, spec in enumerate(specs):
        label, separator, path = spec.partition("=")
        if not separator:
            message = f"--pair {spec!r} is not NAME=RUN, e.g. full=runs/full."
            raise ValueError(message)
        (entry,) = read_entries(Path(path))
        losses = read_losses(loss_paths[idx]) if loss_paths else {}
        entries.append(replace(entry, label=label, losses=losses.get(entry.setting)))
    return entries


def describe(entry: Entry) -> dict[str, Any]:
    """What the table says of a run."""
    losses = entry.losses or {}
    scopes = summarise(entry.outcomes, entry.ks, seed=0)
    return {
        "label": entry.label,
        "setting": entry.setting,
        "num_valid": sum(outcome.valid for outcome in entry.outcomes),
        "num_problems": len(entry.outcomes),
        "num_samples": sum(outcome.num_samples for outcome in entry.outcomes),
        "pass_at_k": {name: by_k(scopes[name].pass_at_k) for name in GROUPS},
        "ci95": {name: by_k(scopes[name].ci95) for name in GROUPS},
        "curve": entry.curve,
        "losses": {
            name: {"value": losses[name], "ci95": losses["ci95"].get(name)}
            for name in losses
            if name.endswith("_loss")
        },
    }


def by_k(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(k): value for k, value in values.items()}


def contrast(without: Entry, having: Entry) -> dict[str, Any]:
    """What is gained: differences of pass@k and of losses, paired, with their intervals."""
    return {
        "pass_at_k": {name: gained_passes(without, having, name) for name in GROUPS},
        "losses": gained_losses(without, having),
    }


def gained_passes(without: Entry, having: Entry, scope: str) -> dict[str, Any]:
    """Over the problems that are valid in both; a resample draws the same clusters for both."""
    both = {one.task_id for one in without.outcomes if one.valid}
    both &= {one.task_id for one in having.outcomes if one.valid}
    pair = [
        sorted((one for one in entry.outcomes if one.task_id in both), key=lambda one: one.task_id)
        for entry in (without, having)
    ]
    ks = [k for k in without.ks if k in having.ks]
    (first_GK, clusters), (second_GK, _) = (
        mean_by_group(tabulate_pass_at_k(outcomes, ks), outcomes, GROUPS[scope])
        for outcomes in pair
    )
    differences_GK = second_GK - first_GK
    bands = bootstrap_means(differences_GK, clusters, seed=0, lowest=-1.0)
    rows = zip(ks, differences_GK.mean(axis=0), bands, strict=True)
    return {str(k): {"difference": float(mean), "ci95": list(band)} for k, mean, band in rows}


def gained_losses(without: Entry, having: Entry) -> dict[str, Any]:
    gained: dict[str, Any] = {}
    if not without.losses or not having.losses:
        return gained
    for name, rows in without.losses["notebooks"].items():
        first, second = np.array(rows), np.array(having.losses["notebooks"][name])
        if first.shape != second.shape or not np.array_equal(first[:, 1], second[:, 1]):
            message = "The losses are not over the same targets. Evaluate with one --seed."
            raise ValueError(message)
        draws = resample_losses(second) - resample_losses(first)
        (first_nats, num_ids), (second_nats, _) = first.sum(axis=0), second.sum(axis=0)
        gained[name] = {
            "difference": (second_nats - first_nats) / num_ids,
            "ci95": np.nanquantile(draws, [0.025, 0.975]).tolist(),
        }
    return gained


def render_table(found: Mapping[str, Any]) -> list[str]:
    ks = sorted({int(k) for row in found["settings"] for k in row["pass_at_k"]["valid"]})
    heads = ["model", *(f"pass@{k} (%)" for k in ks), *(f"distinct @{k} (%)" for k in ks)]
    heads += ["loss", "code loss"]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(heads) - 1)}|"]
    lines += [render_row(row, ks) for row in [*found["settings"], *found["pair"]]]
    first = found["settings"][0]
    lines += [
        "",
        f"{first['num_valid']} of {first['num_problems']} problems are valid, "
        f"{first['num_samples']} hypotheses in each run. Loss in nats per target id on held-out "
        "cells, the same in each setting. 95 % intervals over clusters of problems, and over "
        "notebooks.",
        "",
        f"| gained by | {' | '.join(f'pass@{k} (points)' for k in ks)} | loss | code loss |",
        f"|---{'|---:' * (len(ks) + 2)}|",
    ]
    contrasts = list(found["contrasts"])
    if found["pair"]:
        name = f"{found['pair'][1]['label']} for {found['pair'][0]['label']}"
        contrasts.append({"name": name, **found["pair_contrast"]})
    return [*lines, *(render_contrast(row, ks) for row in contrasts)]


def render_row(row: Mapping[str, Any], ks: Sequence[int]) -> str:
    cells = [row["label"]]
    for scope in ("valid", "distinct"):
        for k in ks:
            value = row["pass_at_k"][scope].get(str(k))
            cells.append(with_band(value, row["ci95"][scope].get(str(k)), factor=100, digits=1))
    for name in ("validation_loss", "validation_code_loss"):
        loss = row["losses"].get(name, {})
        cells.append(with_band(loss.get("value"), loss.get("ci95"), digits=3))
    return f"| {' | '.join(cells)} |"


def render_contrast(row: Mapping[str, Any], ks: Sequence[int]) -> str:
    cells = [row["name"]]
    for k in ks:
        one = row["pass_at_k"]["valid"].get(str(k), {})
        cells.append(with_band(one.get("difference"), one.get("ci95"), 100, 1, sign="+"))
    for name in ("all", "code"):
        one = row["losses"].get(name, {})
        cells.append(with_band(one.get("difference"), one.get("ci95"), 1, 3, sign="+"))
    return f"| {' | '.join(cells)} |"


def with_band(
    value: float | None,
    band: Sequence[float] | None,
    factor: float = 1,
    digits: int = 3,
    *,
    sign: str = "",
) -> str:
    if value is None:
        return "n/a"
    text = f"{value * factor:{sign}.{digits}f}"
    if not band:
        return text
    low, high = (f"{end * factor:{sign}.{digits}f}" for end in band)
    return f"{text} [{low}, {high}]"


def draw(entries: Mapping[Setting, Entry], pair: Sequence[Entry], path: Path) -> None:
    """Draw pass@k by setting, the pair if there is one, and the losses if they are known."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with_losses = any(entry.losses for entry in entries.values())
    num_panels = 2 + bool(pair) + with_losses
    rows, columns = (2, 2) if num_panels == 4 else (1, num_panels)
    figure, panels = plt.subplots(
        rows, columns, figsize=(4.8 * columns, 3.8 * rows), layout="constrained"
    )
    rest = list(panels.flat)
    for title, shown in (("Following cell", ((3, 0), (3, 1))), ("Context cells", ((1, 1), (3, 1)))):
        draw_curves(rest.pop(0), {setting: entries[setting] for setting in shown}, title)
    if pair:
        colours = dict(zip(PAIR_COLOURS, pair, strict=True))
        draw_curves(rest.pop(0), colours, "Training data, equal tokens")
    if with_losses:
        draw_losses(rest.pop(0), entries)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_curves(axes: Any, entries: Mapping[Any, Entry], title: str) -> None:
    for key, entry in entries.items():
        colour = COLOURS.get(key, key)
        k, mean, low, high = np.array(entry.curve, float).T
        axes.plot(k, 100 * mean, "o-", markersize=3, color=colour, label=entry.label)
        axes.fill_between(k, 100 * low, 100 * high, alpha=0.15, color=colour, linewidth=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="k, number of hypotheses", ylabel="pass@k over valid problems (%)", title=title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def draw_losses(axes: Any, entries: Mapping[Setting, Entry]) -> None:
    shown = {setting: entry for setting, entry in entries.items() if entry.losses}
    for place, (setting, entry) in enumerate(shown.items()):
        assert entry.losses
        for shift, name, shape in ((-0.1, "all", "o"), (0.1, "code", "s")):
            key = "validation_loss" if name == "all" else f"validation_{name}_loss"
            if key not in entry.losses:
                continue
            value, band = entry.losses[key], entry.losses["ci95"].get(key)
            error = [[value - band[0]], [band[1] - value]] if band else None
            axes.errorbar(place + shift, value, yerr=error, fmt=shape, color=COLOURS[setting])
    labels = [f"C = {c}\n{'one' if f else 'none'} below" for c, f in shown]
    axes.set_xticks(range(len(shown)), labels)
    axes.set(ylabel="held-out loss (nats per target id)", title="Loss: all cells ○, code cells □")
    axes.grid(alpha=0.3, axis="y")


if __name__ == "__main__":
    sys.exit(main())
