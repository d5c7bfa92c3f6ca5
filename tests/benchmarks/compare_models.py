"""Models side by side on the problems of one set: pass rates, seconds a cell, repeated constants.

Drawing and grading are apart. ``generate`` draws from one model with one setting, as ``dsp-eval
run`` does, and times each cell; it goes on where it was broken off. ``grade`` runs the samples of
all files together, so that the context cells of a notebook run once, and writes ``table.json``
and ``table.md`` with a row for each file.

    python tests/benchmarks/compare_models.py generate --problems ../shared/data/dsp \\
        --provider jupyt5:nano -n 10 --out nano-n10.jsonl
    python tests/benchmarks/compare_models.py generate --problems ../shared/data/dsp \\
        --provider gguf:smollm2.gguf --greedy --following 0 --distinct 80 --out smollm2.jsonl
    python tests/benchmarks/compare_models.py grade nano-n10.jsonl smollm2.jsonl \\
        --problems ../shared/data/dsp --out compared -- --python envs/modern/bin/python
"""

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jupyt5 import console
from jupyt5.errors import UsageError
from jupyt5.files import write_atomic
from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp import cli as dsp_cli
from jupyt5_dsp.constants import repeats_constants
from jupyt5_dsp.fingerprint import digest_model
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl
from jupyt5_dsp.passk import summarise
from jupyt5_dsp.problems import Problem, ProblemSet, load_problem_set
from jupyt5_dsp.results import make_outcomes
from jupyt5_dsp.sample_files import read_samples, write_samples
from jupyt5_dsp.samples import Generation, Sample, generate_samples
from jupyt5_dsp.validation import read_validations

KS = (1, 10)


def main(argv: Sequence[str] | None = None) -> int:
    """Draw or grade."""
    given = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` is for `dsp-eval run`.
    split = given.index("--") if "--" in given else len(given)
    args = make_parser().parse_args(given[:split])
    console.setup_logging(verbose=False)
    if args.command == "generate":
        return console.run(lambda: generate(args))
    return console.run(lambda: grade(args, given[split + 1 :]))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("generate", help="draw samples from one model")
    draw.add_argument("--problems", type=Path, required=True, metavar="DIR")
    draw.add_argument("--provider", required=True, metavar="URI")
    draw.add_argument("--label", help="name of the row (default: the URI)")
    draw.add_argument("--context", type=int, default=3, metavar="C")
    draw.add_argument("--following", type=int, default=1, metavar="F")
    draw.add_argument("-n", type=int, default=10, help="hypotheses a problem")
    draw.add_argument("--greedy", action="store_true", help="one hypothesis, the likeliest")
    draw.add_argument("--max-tokens", type=int, default=256)
    draw.add_argument("--distinct", type=int, metavar="N", help="N problems with distinct tests")
    draw.add_argument("--validation", type=Path, help="draw --distinct from usable problems only")
    draw.add_argument("--limit", type=int, metavar="N", help="only the first N problems")
    draw.add_argument("--seed", type=int, default=0)
    draw.add_argument("--out", type=Path, required=True, metavar="SAMPLES.jsonl")
    judge = commands.add_parser("grade", help="grade samples and write the table")
    judge.add_argument("samples", type=Path, nargs="+", metavar="SAMPLES.jsonl")
    judge.add_argument("--problems", type=Path, required=True, metavar="DIR")
    judge.add_argument("--validation", type=Path, metavar="FILE")
    judge.add_argument("--seed", type=int, default=0, help="of the intervals")
    judge.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def generate(args: argparse.Namespace) -> int:
    """Draw samples, and write beside them what was asked and how long each cell took."""
    n, temperature = (1, 0.0) if args.greedy else (args.n, 0.8)
    sampling = Sampling(temperature=temperature, top_k=0, max_tokens=args.max_tokens)
    generation = Generation(
        num_samples=n,
        num_context_cells=args.context,
        num_following_cells=args.following,
        sampling=sampling,
        seed=args.seed,
        prompt_tokens=8192,
    )
    problem_set = choose_problems(args)
    asked = {
        "label": args.label or args.provider,
        "provider": args.provider,
        "model_sha256": digest_model(args.provider),
        "greedy": bool(args.greedy),
        **asdict(generation),
        "task_ids": [problem.task_id for problem in problem_set.problems],
    }
    claim(asked_path(args.out), asked)
    provider = load_provider(args.provider)
    known = {record["task_id"] for record in read_if_there(args.out)}
    steps = generate_samples(provider, problem_set, generation, args.out)
    start_s = time.perf_counter()
    for problem, _ in zip(
        problem_set.problems,
        console.progress(steps, desc="problems answered", total=len(problem_set.problems)),
        strict=True,
    ):
        wall_s, start_s = time.perf_counter() - start_s, time.perf_counter()
        if problem.task_id not in known and not problem_set.explain_invalid(problem):
            record = {"task_id": problem.task_id, "wall_s": round(wall_s, 4)}
            append_jsonl(times_path(args.out), [record])
    return console.EXIT_OK


def choose_problems(args: argparse.Namespace) -> ProblemSet:
    """Return the problems to answer, in the set's order."""
    whole = load_problem_set(args.problems).select(args.limit)
    if args.distinct is None:
        return whole
    usable: set[str] | None = None
    if args.validation:
        usable = {one.task_id for one in read_validations(args.validation) if one.valid}
    members: dict[str, list[Problem]] = defaultdict(list)
    for problem in whole.problems:
        if usable is None or problem.task_id in usable:
            members[whole.grading_key(problem)].append(problem)
    draw = random.Random(args.seed)
    keys = draw.sample(sorted(members), min(args.distinct, len(members)))
    chosen = {draw.choice(members[key]).task_id for key in keys}
    return restrict(whole, chosen)


def restrict(problem_set: ProblemSet, task_ids: set[str]) -> ProblemSet:
    chosen = tuple(problem for problem in problem_set.problems if problem.task_id in task_ids)
    return ProblemSet(problem_set.root_path, chosen, problem_set.notebooks)


def asked_path(samples_path: Path) -> Path:
    return samples_path.with_suffix(".asked.json")


def times_path(samples_path: Path) -> Path:
    return samples_path.with_suffix(".times.jsonl")


def claim(path: Path, asked: Mapping[str, object]) -> None:
    """Write what is asked, or make sure that it is what was asked before."""
    text = json.dumps(asked, indent=2) + "\n"
    if path.is_file() and path.read_text() != text:
        message = f"{path} tells of samples with other settings. Choose another --out."
        raise UsageError(message)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)


def read_if_there(path: Path) -> list[Mapping[str, Any]]:
    return list(read_jsonl(path)) if path.is_file() and path.stat().st_size else []


@dataclass(frozen=True, slots=True)
class Source:
    """The samples of one file, and where each stands among the samples of all files."""

    asked: Mapping[str, Any]
    samples: Sequence[Sample]
    times_s: Sequence[float]
    places: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A sample's verdict under the number that it has in its own file."""

    task_id: str
    sample_idx: int
    verdict: str
    flags: tuple[str, ...]


def grade(args: argparse.Namespace, options: Sequence[str]) -> int:
    """Run all samples once and write a row for each file."""
    problem_set = load_problem_set(args.problems)
    args.out.mkdir(parents=True, exist_ok=True)
    merged: dict[str, dict[str, int]] = defaultdict(dict)
    sources = [read_source(path, problem_set, merged) for path in args.samples]
    # Grouped by problem, so that the numbers of the file's reader are those given here.
    write_samples(
        args.out / "samples.jsonl",
        (
            Sample(task_id=task_id, sample_idx=idx, completion=completion)
            for task_id, completions in merged.items()
            for completion, idx in completions.items()
        ),
    )
    run_path = args.out / "run"
    validation = ["--validation", str(args.validation)] if args.validation else []
    command = ["run", "--problems", str(args.problems), "-k", "1", "--out", str(run_path)]
    command += ["--samples", str(args.out / "samples.jsonl"), *validation, *options]
    status = dsp_cli.main(command)
    if status != console.EXIT_OK:
        return status
    rows = make_rows(sources, problem_set, run_path, seed=args.seed)
    write_atomic(args.out / "table.json", json.dumps(rows, indent=2) + "\n")
    table = "\n".join(render_table(rows)) + "\n"
    write_atomic(args.out / "table.md", table)
    sys.stdout.write(table)
    return console.EXIT_OK


def read_source(path: Path, problem_set: ProblemSet, merged: dict[str, dict[str, int]]) -> Source:
    """Read one file; equal completions of a problem, of whatever file, are run once."""
    asked = json.loads(asked_path(path).read_text())
    samples = read_samples(path, restrict(problem_set, set(asked["task_ids"])))
    places: dict[tuple[str, int], int] = {}
    for sample in samples:
        own = merged[sample.task_id]
        places[sample.task_id, sample.sample_idx] = own.setdefault(sample.completion, len(own))
    times_s = [float(record["wall_s"]) for record in read_if_there(times_path(path))]
    return Source(asked, samples, times_s, places)


def make_rows(
    sources: Sequence[Source], problem_set: ProblemSet, run_path: Path, *, seed: int
) -> list[dict[str, object]]:
    validations = {one.task_id: one for one in read_validations(run_path / "validation.jsonl")}
    verdicts = {
        (str(record["task_id"]), int(record["sample_idx"])): record
        for record in read_if_there(run_path / "verdicts.jsonl")
    }
    rows: list[dict[str, object]] = []
    for source in sources:
        own_set = restrict(problem_set, set(source.asked["task_ids"]))
        judged = list(judge(source, verdicts))
        outcomes = make_outcomes(own_set, judged, validations)
        scopes = summarise(outcomes, KS, seed=seed)
        valid = {outcome.task_id for outcome in outcomes if outcome.valid}
        passed = [one for one in judged if one.verdict == "passed" and one.task_id in valid]
        row: dict[str, object] = {
            key: source.asked[key] for key in ("label", "provider", "greedy", "num_samples")
        }
        row |= {
            "num_context_cells": source.asked["num_context_cells"],
            "num_following_cells": source.asked["num_following_cells"],
            "num_problems": len(outcomes),
            "num_valid": len(valid),
            "num_distinct": scopes["distinct"].num_problems,
            "pass_at_k": {name: scopes[name].pass_at_k for name in ("valid", "distinct")},
            "ci95": {name: scopes[name].ci95 for name in ("valid", "distinct")},
            "num_solved": sum(outcome.valid and outcome.num_correct > 0 for outcome in outcomes),
            "verdict_counts": dict(sorted(Counter(one.verdict for one in judged).items())),
            "seconds_per_cell": describe_times(source.times_s),
            **count_repeats(source, passed, own_set),
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        rows.append(row)
    return rows


def judge(
    source: Source, verdicts: Mapping[tuple[str, int], Mapping[str, Any]]
) -> Iterator[Judgement]:
    """Give each sample of a source the verdict of its completion; some problems have none."""
    for (task_id, sample_idx), place in source.places.items():
        record = verdicts.get((task_id, place))
        if record is not None:
            yield Judgement(task_id, sample_idx, record["verdict"], tuple(record["flags"]))


def count_repeats(
    source: Source, passed: Sequence[Judgement], problem_set: ProblemSet
) -> dict[str, object]:
    """Count passes that only repeat constants of the asserts, and do so where the reference
    does not: some exercises ask for nothing but a constant.
    """
    problems = {problem.task_id: problem for problem in problem_set.problems}
    texts = {(one.task_id, one.sample_idx): one.completion for one in source.samples}
    num_repeating = num_unlike = 0
    for one in passed:
        problem = problems[one.task_id]
        cells = problem_set.cells_of(problem)
        grading = [cells[idx].source for idx in problem.grading_idxs]
        context = [cell.source for cell in cells[: problem.cell_idx] if cell.kind == "code"]
        if not repeats_constants(
            problem_set.fill(problem, texts[one.task_id, one.sample_idx]), grading, context
        ):
            continue
        num_repeating += 1
        num_unlike += not repeats_constants(cells[problem.cell_idx].source, grading, context)
    return {
        "num_passes": len(passed),
        "num_repeating_constants": num_repeating,
        "num_repeating_unlike_reference": num_unlike,
        "share_repeating_constants": num_unlike / len(passed) if passed else None,
    }


def describe_times(times_s: Sequence[float]) -> dict[str, float] | None:
    if not times_s:
        return None
    median, p95 = np.quantile(times_s, (0.5, 0.95))
    return {"median": round(float(median), 3), "p95": round(float(p95), 3)}


def render_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the rows as Markdown; rates are over distinct tests, in per cent."""
    yield (
        "| model | draws | C | F | tests | pass@1 | pass@10 | s a cell, median | p95 "
        "| passes | repeat constants |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        rates = [render_rate(row["pass_at_k"]["distinct"], row["ci95"]["distinct"], k) for k in KS]
        times = row["seconds_per_cell"] or {"median": "–", "p95": "–"}  # noqa: RUF001
        share = row["share_repeating_constants"]
        cells = [
            row["label"],
            "greedy" if row["greedy"] else row["num_samples"],
            row["num_context_cells"],
            row["num_following_cells"],
            row["num_distinct"],
            *rates,
            times["median"],
            times["p95"],
            row["num_passes"],
            "–" if share is None else f"{100 * share:.0f} %",  # noqa: RUF001
        ]
        yield "| " + " | ".join(map(str, cells)) + " |"


def render_rate(means: Mapping[int, float], bands: Mapping[int, Any], k: int) -> str:
    if k not in means:
        return "–"  # noqa: RUF001
    band = bands[k]
    interval = f" [{100 * band[0]:.1f}, {100 * band[1]:.1f}]" if band else ""
    return f"{100 * means[k]:.1f}{interval}"


if __name__ == "__main__":
    sys.exit(main())
