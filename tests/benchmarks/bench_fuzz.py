"""How many generated inputs does BioCoder need? Mutants of the references killed, by inputs.

    python tests/benchmarks/bench_fuzz.py ../shared/data/biocoder --python ENV/bin/python \
        --mutants 8 --minutes 20 > fuzz.json

Each mutant has one mistake. It is killed by the first input on which it prints something else than
the reference, or ends otherwise. Many inputs run in one process here, each in a new namespace, for
mutants are not hostile; the suite itself forks every run. Left out are programs without
markers, those whose reference does not print the same twice, and those that pass without solution.
"""

import argparse
import ast
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.biocoder.checker import OUTPUT_BYTES, OutputTest
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.programs import make_set, make_test
from jupyt5_dsp.checker import Execute
from jupyt5_dsp.grader import Execution, Grader
from jupyt5_dsp.mutants import Mutant, make_mutants
from jupyt5_dsp.problems import ProblemSet

STAGES = (10, 100, 1000)
REPORTED = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
TIMEOUT_S = 10.0
# A stage whose golden would take longer is left out.
LONGEST_STAGE_S = 4.0

LOOP = """
import contextlib, hashlib, io, os
for variables in {inputs!r}:
    os.environ.update(variables)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile({program!r}, "main.py", "exec"), {{"__name__": "__main__"}})
        text = printed.getvalue().strip()
    except SystemExit as exc:
        text = printed.getvalue().strip() if exc.code in (None, 0) else "exit"
    except Exception as exc:
        text = "error"
    print("=>", hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16], flush=True)
"""


class Passing:
    """A checker that hands on what runs print."""

    version = "raw"
    output_bytes = OUTPUT_BYTES

    def judge(
        self, attempts: Mapping[str, Sequence[Attempt]], execute: Execute
    ) -> Iterator[Judged]:
        yield from execute(attempts)


@dataclass
class Found:
    """One problem's mutants: the number of the input that killed each, None for none."""

    task_id: str
    killed_at: dict[str, int | None] = field(default_factory=dict[str, int | None])
    ideas: dict[str, str] = field(default_factory=dict[str, str])
    num_inputs: int = 0
    left_out: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--python", type=Path)
    parser.add_argument("--mutants", type=int, default=8, help="of each reference")
    parser.add_argument("--minutes", type=float, default=20.0, help="then no more is begun")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started_s = time.monotonic()
    interpreter = find_interpreter(args.python)
    tests = list(iter_tests(args.data, args.seed))
    random.Random(args.seed).shuffle(tests)  # what time allows is a sample
    problem_set = make_raw_set(tests)
    execution = Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox("auto", interpreter, hidden_paths=[args.data]),
        limits=Limits(timeout_s=TIMEOUT_S),
    )
    found: list[Found] = []
    with Grader(problem_set, execution) as grader:
        for test in tests:
            if time.monotonic() - started_s > 60 * args.minutes:
                break
            found.append(try_mutants(grader, test, args.mutants, args.seed))
            sys.stderr.write(f"{test.problem.task_id[:8]} {found[-1].left_out}\n")
    json.dump(summarise(found, len(tests), time.monotonic() - started_s), sys.stdout, indent=1)
    return 0


def iter_tests(data_path: Path, seed: int) -> Iterator[OutputTest]:
    for problem in load_problems(data_path / "python_public.jsonl"):
        test = make_test(problem, num_inputs=STAGES[-1], seed=seed)
        if isinstance(test, OutputTest) and len(test.inputs) > 1:
            yield test


def make_raw_set(tests: Sequence[OutputTest]) -> ProblemSet:
    problem_set = make_set(
        [test.problem for test in tests],
        {test.problem.task_id: test for test in tests},
        form="summary-only",
        budget_tokens=10_000,
        reasons={},
    )
    return replace(problem_set, checker=Passing())


def try_mutants(grader: Grader, test: OutputTest, number: int, seed: int) -> Found:
    found = Found(test.problem.task_id)
    mutants = make_mutants(drop_docstrings(test.problem.golden), number=number, seed=seed)
    left = {f"mutant {idx}": mutant for idx, mutant in enumerate(mutants)}
    start, golden_s = 0, 0.0
    for end in STAGES:
        if start and golden_s * (end - start) / start > LONGEST_STAGE_S:
            break
        golden, printed, golden_s = run_stage(grader, test, left, start, end)
        if golden is None:
            found.left_out = found.left_out or ("reference" if not start else "")
            break
        if find_difference(golden, printed.get("empty", [])) is None:
            found.left_out = "vacuous"
            break
        for key, mutant in list(left.items()):
            found.ideas[key] = mutant.idea
            killed_at = find_difference(golden, printed[key])
            found.killed_at[key] = None if killed_at is None else start + killed_at + 1
            if killed_at is not None:
                del left[key]
        start = found.num_inputs = end
        if not left:
            break
    return found


def run_stage(
    grader: Grader, test: OutputTest, mutants: dict[str, Mutant], start: int, end: int
) -> tuple[list[str] | None, dict[str, list[str]], float]:
    """Return the hashes that the reference printed (None if not twice the same), the mutants'."""
    sources = {"golden 1": test.problem.golden}
    if not start:
        sources |= {"golden 2": test.problem.golden, "empty": ""}
    sources |= {key: mutant.source for key, mutant in mutants.items()}
    inputs = [dict(one) for one in test.inputs[start:end]]
    attempts = [
        Attempt(
            key=key,
            source=LOOP.format(inputs=inputs, program=test.slot.insert(source)),
            seed=idx,
        )
        for idx, (key, source) in enumerate(sources.items())
    ]
    printed: dict[str, list[str]] = {}
    seconds = 0.0
    for judged in grader.run({test.problem.task_id: attempts}):
        assert isinstance(judged, Judged)
        printed[judged.key] = read_hashes(judged.output)
        seconds = judged.wall_s if judged.key == "golden 1" else seconds
    golden = printed["golden 1"]
    failed = {hash_of("error"), hash_of("exit"), hash_of("")}
    sound = len(golden) == len(inputs) and golden == printed.get("golden 2", golden)
    if not sound or failed & set(golden):
        return None, printed, seconds
    return golden, printed, seconds


def read_hashes(output: str) -> list[str]:
    return [line[3:] for line in output.splitlines() if line.startswith("=> ")]


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_difference(golden: Sequence[str], printed: Sequence[str]) -> int | None:
    for idx, own in enumerate(golden):
        if idx >= len(printed) or printed[idx] != own:
            return idx
    return None


def drop_docstrings(source: str) -> str:
    """Return the function without texts that do nothing: their mutants would be no mutants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kept = [one for one in node.body if not is_idle(one)]
            node.body = kept or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree))


def is_idle(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def summarise(found: Sequence[Found], num_tests: int, wall_s: float) -> dict[str, object]:
    used = [one for one in found if not one.left_out and one.killed_at]
    killed = [(at, one.num_inputs) for one in used for at in one.killed_at.values()]
    survivors = Counter(
        one.ideas[key] for one in used for key, at in one.killed_at.items() if at is None
    )
    return {
        "num_programs_with_inputs": num_tests,
        "num_tried": len(found),
        "left_out": dict(Counter(one.left_out for one in found if one.left_out)),
        "num_programs": len(used),
        "num_mutants": len(killed),
        "killed": {
            str(number): sum(at is not None and at <= number for at, _ in killed)
            for number in REPORTED
        },
        "num_mutants_with_inputs": {
            str(number): sum(at is not None or tried >= number for at, tried in killed)
            for number in REPORTED
        },
        "survivors_by_idea": dict(survivors.most_common()),
        "late_kills": sorted(at for at, _ in killed if at is not None and at > 1),
        "wall_s": round(wall_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
