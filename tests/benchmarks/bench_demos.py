"""How many cells of the demo notebooks a provider fills so that the cell below passes.

The cells above the one that is filled hold their reference solutions, as in DSP. Prints one JSON
object: for each cell how many of n candidates pass, and whether the one that would be shown first
does, without and with a try.

    python tests/benchmarks/bench_demos.py [--provider jupyt5:nano] [-n 10] [--seed 0]
"""

import argparse
import json
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from jupyt5.execution.jobs import Limits
from jupyt5.execution.trials import Trial, rank, try_fresh
from jupyt5.notebook import Cell, read_notebook
from jupyt5.providers import FillRequest, Provider, Sampling, load_provider, stream_drafts

ROOT = Path(__file__).parents[2]
SOLUTIONS = json.loads((ROOT / "tests" / "demos" / "solutions.json").read_text())
STUB = "# YOUR CODE HERE"


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--provider", default="jupyt5:nano")
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    provider = load_provider(options.provider)
    rows = []
    for name, solutions in SOLUTIONS.items():
        cells = read_notebook(ROOT / "notebooks" / name).cells
        for idx, cell in enumerate(cells):
            if cell.id in solutions and cell.kind == "code" and "assert" in next_source(cells, idx):
                solved = [
                    replace(each, source=solutions[each.id]) if each.id in solutions else each
                    for each in cells[:idx]
                ]
                row = measure(provider, (*solved, *cells[idx:]), idx, options)
                rows.append({"notebook": name, "cell": cell.id, **row})
                sys.stderr.write(json.dumps(rows[-1]) + "\n")
    total = {key: sum(row[key] for row in rows) for key in ("num_passed", "likeliest", "tried")}
    summary = {"provider": options.provider, "n": options.n, "cells": len(rows), **total}
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0


def next_source(cells: tuple[Cell, ...], idx: int) -> str:
    """The source of the next cell; empty at the end."""
    return cells[idx + 1].source if idx + 1 < len(cells) else ""


def measure(
    provider: Provider, cells: tuple[Cell, ...], idx: int, options: argparse.Namespace
) -> dict[str, int]:
    """Draw n candidates for a cell, try them against the next."""
    prefix = cells[idx].source.partition(STUB)[0]
    request = FillRequest(cells=cells, target_idx=idx, prefix=prefix)
    sampling = Sampling(temperature=0.8, top_k=50, max_tokens=128)
    drafts = stream_drafts(
        provider,
        request,
        n=options.n,
        sampling=sampling,
        seed=options.seed,
        cancel=threading.Event(),
    )
    done = {draft.hypothesis_idx: draft for draft in drafts if draft.finished}
    trial = Trial(
        cells=tuple((each, cell.source) for each, cell in enumerate(cells) if cell.kind == "code"),
        target_idx=idx,
        grading_idx=idx + 1,
    )
    texts = {str(each): prefix + draft.text for each, draft in done.items()}
    with tempfile.TemporaryDirectory() as folder:
        found = try_fresh(trial, texts, Path(folder), limits=Limits(timeout_s=5))
        verdicts = {int(one.key): one.verdict for one in found}
    logprobs = {each: draft.mean_logprob for each, draft in done.items()}
    return {
        "num_passed": sum(verdict.passed for verdict in verdicts.values()),
        "likeliest": int(verdicts[rank(logprobs, {})[0]].passed),
        "tried": int(verdicts[rank(logprobs, verdicts)[0]].passed),
    }


if __name__ == "__main__":
    sys.exit(main())
