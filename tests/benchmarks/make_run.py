"""Make the folder of a run up from a seed, as large as asked for: nothing is executed.

The report's size, its memory and the time that a browser needs to open it are measured on this.

    python tests/benchmarks/make_run.py runs/large --problems 1000 --samples 100
    dsp-eval report runs/large
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyt5.notebook import Cell, Notebook
from jupyt5_dsp.jsonl import append_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet
from jupyt5_dsp.report import write_references
from jupyt5_dsp.report.references import read_references
from jupyt5_dsp.report.store import RunStore
from jupyt5_dsp.results import make_results
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.similarity import NUM_SCORED, Answers, make_key
from jupyt5_dsp.validation import Validation

_PROBLEMS_A_NOTEBOOK = 4
_NAMES = ("total", "frame", "values", "rows", "columns", "mean", "scale", "item", "label", "index")
_CALLS = ("sum", "len", "sorted", "max", "np.mean", "np.sqrt", "df.groupby", "pd.concat", "round")
_FAILURES = ("wrong", "error", "syntax", "timeout", "died", "exit", "oom", "limit")
_SHARES = (46, 36, 6, 6, 2, 1.5, 1, 1.5)
_REASONS = ("2 threads are running", "data.csv is open for reading", "a process pool is in use")
_HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


@dataclass(frozen=True, slots=True)
class Judged:
    """What results need of a verdict."""

    task_id: str
    sample_idx: int
    verdict: str
    flags: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=100, help="a problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skill", type=float, default=0.0, help="added to every pass rate")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--similarity", action="store_true", help="make CodeBLEU up, too")
    args = parser.parse_args(argv)
    make_run(args.out, args)
    return 0


def make_run(out_path: Path, args: argparse.Namespace) -> None:
    """Write samples, verdicts, references and results."""
    out_path.mkdir(parents=True, exist_ok=True)
    problem_set = make_problem_set(args.problems)
    validations = {
        problem.task_id: _validate(problem.task_id, idx)
        for idx, problem in enumerate(problem_set.problems)
    }
    samples: list[Sample] = []
    graded: list[Judged] = []
    verdict_lines: list[str] = []
    with (out_path / "samples.jsonl").open("w", encoding="utf-8") as stream:
        for sample, record in _iter_samples(problem_set, validations, args):
            stream.write(json.dumps(sample.to_record()) + "\n")
            verdict_lines.append(json.dumps(record) + "\n")
            samples.append(replace(sample, completion=""))
            flags = tuple(str(flag) for flag in record["flags"])
            graded.append(Judged(sample.task_id, sample.sample_idx, str(record["verdict"]), flags))
    random.Random(0).shuffle(verdict_lines)  # Several workers write them as they come.
    (out_path / "verdicts.jsonl").write_text("".join(verdict_lines))
    write_references(out_path, problem_set)
    identity = {
        "suite": "dsp",
        "suite_version": "dsp-v1",
        "provider": f"jupyt5:made-up-{args.seed}",
        "settings": {"problem_set": problem_set.digest(), "seed": 0, "timeout_s": 10.0},
        "environment": {"python": "3.11", "sandbox": "namespaces", "packages": {"numpy": "2.4.6"}},
    }
    ks = [k for k in (1, 10, 100) if k <= max(args.samples, 10)]
    options = {"seed": 0, "samples": samples, "strict": args.strict}
    results = make_results(identity, problem_set, graded, validations, ks, **options)
    (out_path / "results.json").write_text(json.dumps(results, indent=2))
    if args.similarity:
        _make_similarity(out_path, random.Random(args.seed))


def _make_similarity(out_path: Path, generator: random.Random) -> None:
    """Write scores where the report looks for those that it has computed before."""
    records: list[dict[str, object]] = []
    with RunStore(out_path) as store:
        for task_id, reference in read_references(out_path).items():
            completions = list(store.iter_completions(task_id))
            answers = Answers(task_id, reference.reference, completions)
            records.append(
                {
                    "task_id": task_id,
                    "key": make_key(answers),
                    "codebleu": round(generator.random(), 6),
                    "num_scored": min(NUM_SCORED, len(completions)),
                }
            )
    append_jsonl(out_path / "codebleu.jsonl", records)


def _iter_samples(
    problem_set: ProblemSet, validations: dict[str, Validation], args: argparse.Namespace
) -> Iterator[tuple[Sample, dict[str, Any]]]:
    generator = random.Random(f"{args.seed}")
    for problem in problem_set.problems:
        rate = min(max(generator.betavariate(0.5, 1.1) + args.skill, 0), 1)
        reason = generator.choice(_REASONS) if generator.random() < 0.1 else ""
        reference = problem_set.reference_of(problem)
        valid = validations[problem.task_id].valid
        for sample_idx in range(args.samples):
            verdict = _draw_verdict(generator, rate) if valid else "invalid"
            record = _make_verdict(generator, verdict, reason)
            logprob = generator.gauss(-0.5 if verdict == "passed" else -0.65, 0.2)
            sample = Sample(
                task_id=problem.task_id,
                sample_idx=sample_idx,
                completion=_vary(generator, reference, verdict == "passed"),
                mean_logprob=round(logprob, 5),
            )
            yield sample, {"task_id": problem.task_id, "sample_idx": sample_idx, **record}


def make_problem_set(num_problems: int) -> ProblemSet:
    """Return notebooks of four problems each; every fifth problem shares the test before it."""
    generator = random.Random(num_problems)
    problems: list[Problem] = []
    notebooks: dict[str, Notebook] = {}
    for start in range(0, num_problems, _PROBLEMS_A_NOTEBOOK):
        path = f"course-{start // 40}/homework/week{start // _PROBLEMS_A_NOTEBOOK:03}.ipynb"
        cells: list[Cell] = []
        for idx in range(start, min(start + _PROBLEMS_A_NOTEBOOK, num_problems)):
            problem = Problem(
                task_id=f"DSP/{idx}",
                notebook_path=path,
                cell_idx=len(cells),
                grading_idxs=(len(cells) + 1,),
            )
            test = idx - 1 if idx % 5 == 4 else idx
            source = f"# your code here\n{_write_function(generator, idx)}"
            cells.append(_code(source, len(cells)))
            cells.append(_code(f"assert solve_{test}([3, 1, 2]) is not None\n", len(cells)))
            problems.append(problem)
        notebooks[path] = _notebook(cells)
    return ProblemSet(Path(), tuple(problems), notebooks)


def _validate(task_id: str, idx: int) -> Validation:
    if idx % 11 == 5:
        reason = "solve passes in every cell above"
        return Validation(
            task_id=task_id, reference="passed", usable="vacuous", reason=reason, key="k"
        )
    return Validation(task_id=task_id, reference="passed", usable="yes", key="k")


def _draw_verdict(generator: random.Random, rate: float) -> str:
    if generator.random() < rate:
        return "passed"
    return generator.choices(_FAILURES, _SHARES)[0]


def _make_verdict(generator: random.Random, verdict: str, reason: str) -> dict[str, object]:
    flags: list[str] = []
    message = output = traceback = ""
    if verdict == "passed":
        draw = generator.random()
        if draw < 0.01:
            flags.append("solution cell raised")
        elif draw < 0.014:
            flags.append("suspect: comparison overridden")
    elif verdict == "invalid":
        message = "Not run, the problem is not usable (vacuous): it tests nothing"
    else:
        number = generator.randrange(10_000)
        kind = "AssertionError" if verdict == "wrong" else "TypeError"
        message = f"{kind}: {_pick(generator)} is {number}, not {number + 1}"
        traceback = "".join(_frame(generator) for _ in range(generator.randrange(2, 7))) + message
    if generator.random() < 0.3:
        output = "\n".join(_pick(generator) for _ in range(generator.randrange(1, 30)))
    if generator.random() < 0.002:
        output += _HOSTILE
    return {
        "verdict": verdict,
        "flags": flags,
        "message": message,
        "output_head": output,
        "traceback": traceback,
        "isolation": "kernel" if reason else "fork",
        "isolation_reason": reason,
        "cold_rerun": verdict == "timeout",
        "wall_s": round(generator.expovariate(20), 3),
        "cpu_s": None,
    }


def _frame(generator: random.Random) -> str:
    line = generator.randrange(1, 40)
    return f"Cell In[{line}], line {line}\n----> {line} {_expression(generator)}\n\n"


def _vary(generator: random.Random, reference: str, passed: bool) -> str:
    """Return the reference with other lines in it, so that most completions are distinct."""
    if passed and generator.random() < 0.1:
        return reference
    lines = reference.splitlines()
    for _ in range(generator.randrange(1, 4)):
        at = generator.randrange(1, len(lines))
        if generator.random() < 0.5:
            lines[at] = f"    {_pick(generator)} = {_expression(generator)}"
        else:
            lines.insert(at, f"    # {_pick(generator)} of the {_pick(generator)}")
    return "\n".join(lines)


def _code(source: str, idx: int) -> Cell:
    return Cell(f"cell-{idx}", "code", source)


def _notebook(cells: Sequence[Cell]) -> Notebook:
    return Notebook(tuple(cells), 4, 5)


def _write_function(generator: random.Random, idx: int) -> str:
    body = "".join(
        f"    {_pick(generator)} = {_expression(generator)}\n"
        for _ in range(generator.randrange(2, 7))
    )
    return f"def solve_{idx}(values):\n{body}    return {_pick(generator)}\n"


def _expression(generator: random.Random) -> str:
    call, number = generator.choice(_CALLS), generator.randrange(1000)
    return f"{call}({_pick(generator)}, {number})"


def _pick(generator: random.Random) -> str:
    return f"{generator.choice(_NAMES)}_{generator.choice(_NAMES)}"


if __name__ == "__main__":
    sys.exit(main())
