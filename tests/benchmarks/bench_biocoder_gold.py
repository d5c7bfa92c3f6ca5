"""BioCoder, reference against reference: which problems can judge here, and do those agree?

    python tests/benchmarks/bench_biocoder_gold.py ../shared/data/biocoder --python ENV/bin/python

For each seed (inputs, hash seed, generators) two workers serve all problems: one runs the
references, the other, with another hash seed, the references again and the programs without any
solution. ``dsp-eval validate`` does more, and starts workers for each problem. Prints JSON.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.biocoder.checker import OUTPUT_BYTES, OutputTest
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.programs import make_set, make_test
from jupyt5_dsp.grader import Execution, Grader

CHANCE_RUNS = 10
Runs = Mapping[tuple[str, str], Judged]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--python", type=Path)
    parser.add_argument("--inputs", type=int, default=5, help="of each seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timeout-s", type=float, default=30.0)
    args = parser.parse_args()
    interpreter = find_interpreter(args.python)
    execution = Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox("auto", interpreter, hidden_paths=[args.data]),
        limits=Limits(timeout_s=args.timeout_s, output_bytes=OUTPUT_BYTES),
    )
    report: dict[str, object] = {}
    for seed in range(args.seeds):
        started_s = time.monotonic()
        findings = try_seed(args.data, execution, args.inputs, seed)
        counts = Counter(findings.values())
        report[str(seed)] = {
            "num_problems": len(findings),
            "findings": dict(counts.most_common()),
            "wall_s": round(time.monotonic() - started_s, 1),
        }
        sys.stderr.write(f"seed {seed}: {dict(counts)}\n")
    json.dump(report, sys.stdout, indent=1)
    return 0


def try_seed(data_path: Path, execution: Execution, num_inputs: int, seed: int) -> dict[str, str]:
    """Return what each problem's reference does: ``agrees``, or why it cannot judge."""
    findings: dict[str, str] = {}
    tests: dict[str, OutputTest] = {}
    for problem in load_problems(data_path / "python_public.jsonl"):
        test = make_test(problem, num_inputs=num_inputs, seed=seed)
        if isinstance(test, str):
            findings[problem.task_id] = test
        elif len(test.inputs) == 1:
            # As often as the suite does where chance may play.
            tests[problem.task_id] = replace(test, inputs=test.inputs * CHANCE_RUNS)
        else:
            tests[problem.task_id] = test
    problems = [test.problem for test in tests.values()]
    problem_set = make_set(problems, tests, form="summary-only", budget_tokens=10**6, reasons={})
    with Grader(replace(problem_set, checker=None), execution) as grader:
        first = run_all(grader, tests, ["golden"], 2 * seed)
        again = run_all(grader, tests, ["golden", "empty"], 2 * seed + 1)
    for task_id, test in tests.items():
        findings[task_id] = conclude(test, first, again)
    return findings


def run_all(
    grader: Grader, tests: Mapping[str, OutputTest], kinds: Sequence[str], seed: int
) -> Runs:
    attempts = {
        task_id: [
            Attempt(
                key=f"{kind} {idx}",
                source=test.slot.insert(test.problem.golden if kind == "golden" else ""),
                seed=1000 * seed + idx,
                environment=variables,
            )
            for kind in kinds
            for idx, variables in enumerate(test.inputs)
        ]
        for task_id, test in tests.items()
    }
    found = grader.run(attempts, seed=seed)
    return {(one.task, one.key): one for one in found if isinstance(one, Judged)}


def conclude(test: OutputTest, first: Runs, again: Runs) -> str:
    task_id, indices = test.problem.task_id, range(len(test.inputs))
    golden = [first[task_id, f"golden {idx}"] for idx in indices]
    for run in golden:
        if not run.verdict.passed:
            return f"reference {run.verdict.message.removeprefix('Solution cell 0 ')}"
    if not any(run.output.strip() for run in golden):
        return "reference prints nothing"
    outputs = [run.output for run in golden]

    def is_same(kind: str) -> bool:
        runs = [again[task_id, f"{kind} {idx}"] for idx in indices]
        return all(
            run.verdict.passed and test.is_right(own, run.output)
            for own, run in zip(outputs, runs, strict=True)
        )

    if not is_same("golden"):
        return "reference differs between runs"
    return "passes without a solution" if is_same("empty") else "agrees"


if __name__ == "__main__":
    sys.exit(main())
