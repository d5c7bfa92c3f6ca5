"""Are verdicts the same whether samples are forked or run in fresh processes? Sample by sample.

Reference solutions of the whole set; mutants, an empty one and hostile ones on a share of the
notebooks and on every notebook in which a fork was found unsound. What is done is kept in FILE
(task ids, kinds, verdicts and hashes, nothing of the cells), and a broken run goes on from there.

    python tests/benchmarks/differential.py SET --python PYTHON --out differential.jsonl
    python tests/benchmarks/differential.py SET --notebooks 20 --out few.jsonl

Prints a summary as JSON; exits with 1 if verdicts differ.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from differential_samples import Trial, list_others, list_references

from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.parallel import run_streams
from jupyt5_dsp.problems import Problem, ProblemSet, digest, load_problem_set
from jupyt5_dsp.validation import make_key

ISOLATIONS: tuple[Isolation, ...] = ("fork", "kernel")
SHARE = 0.2
KEY_LENGTH = 24


@dataclass(frozen=True, slots=True)
class Job:
    """Trials of one notebook in one isolation."""

    isolation: Isolation
    trials: Mapping[str, Trial]


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, compare, print."""
    args = parse(argv)
    problem_set = choose_notebooks(load_problem_set(args.problems), args.notebooks, args.seed)
    if args.per_notebook:
        problem_set = keep_first(problem_set, args.per_notebook)
    repair_jsonl(args.out)
    interpreter = find_interpreter(args.python)
    execution = Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox("auto", interpreter, hidden_paths=[args.problems]),
        limits=Limits(timeout_s=args.timeout_s, context_timeout_s=args.context_timeout_s),
        seed=args.seed,
    )
    started_s = time.monotonic()
    with Grader(problem_set, execution) as grader:
        runner = Runner(grader, args.out, args.workers)
        references = list_references(problem_set)
        trials: list[Trial] = []
        if args.kinds != "others":
            runner.run(references)
            trials += references
        if args.kinds != "reference":
            share = 1.0 if args.notebooks else SHARE
            chosen = choose_share(problem_set, runner.find_flagged(references), share, args.seed)
            others = list_others(problem_set, chosen, each=args.each, seed=args.seed)
            runner.run(others)
            trials += others
        summary = runner.compare(trials)
    summary |= {
        "python": interpreter.version,
        "sandbox": execution.sandbox.name,
        "timeout_s": args.timeout_s,
        "seed": args.seed,
        "wall_s_of_this_start": round(time.monotonic() - started_s, 1),
    }
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    return 1 if summary["num_differing"] or summary["num_missing"] else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("problems", type=Path, metavar="SET", help="folder with problems.jsonl")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="what is done")
    parser.add_argument("--python", type=Path, help="interpreter that executes the notebooks")
    parser.add_argument("--workers", type=int, default=1, help="notebooks at a time")
    parser.add_argument("--seed", type=int, default=0, help="draws notebooks, mutants and attacks")
    parser.add_argument("--kinds", choices=("reference", "others", "all"), default="all")
    parser.add_argument("--notebooks", type=int, metavar="N", help="only N drawn notebooks")
    parser.add_argument("--per-notebook", type=int, metavar="N", help="only N problems of each")
    parser.add_argument("--each", type=int, default=2, help="mutants, and attacks, a problem")
    parser.add_argument("--timeout-s", type=float, default=10.0)
    parser.add_argument("--context-timeout-s", type=float, default=600.0)
    return parser.parse_args(argv)


def choose_notebooks(problem_set: ProblemSet, number: int | None, seed: int) -> ProblemSet:
    """Return the set's problems that live in ``number`` notebooks, drawn by ``seed``."""
    if number is None:
        return problem_set
    paths = sorted({problem.notebook_path for problem in problem_set.problems})
    drawn = set(random.Random(seed).sample(paths, min(number, len(paths))))
    kept = tuple(one for one in problem_set.problems if one.notebook_path in drawn)
    notebooks = {path: problem_set.notebooks[path] for path in drawn}
    return ProblemSet(problem_set.root_path, kept, notebooks)


def keep_first(problem_set: ProblemSet, number: int) -> ProblemSet:
    """Return the first ``number`` problems of each notebook: they need the fewest cells."""
    counts: Counter[str] = Counter()
    kept: list[Problem] = []
    for problem in problem_set.problems:
        counts[problem.notebook_path] += 1
        if counts[problem.notebook_path] <= number:
            kept.append(problem)
    return ProblemSet(problem_set.root_path, tuple(kept), problem_set.notebooks)


def choose_share(
    problem_set: ProblemSet, flagged: frozenset[str], share: float, seed: int
) -> list[Problem]:
    """Return the problems of a share of the notebooks, and of all notebooks in ``flagged``."""
    paths = sorted({problem.notebook_path for problem in problem_set.problems})
    drawn = set(random.Random(seed).sample(paths, round(share * len(paths))))
    return [one for one in problem_set.problems if one.notebook_path in drawn | flagged]


class Runner:
    """Runs trials in both isolations and keeps what came of them.

    Args:
        grader: Runs the cells.
        path: Grows by a line for each trial and isolation.
        num_workers: Notebooks at a time.
    """

    def __init__(self, grader: Grader, path: Path, num_workers: int) -> None:
        self._grader = grader
        self._path = path
        self._num_workers = num_workers
        problem_set = grader.problem_set
        environment = describe_environment(problem_set, grader.execution)
        self._problems = {problem.task_id: problem for problem in problem_set.problems}
        self._keys = {
            task_id: make_key(grader, problem, environment)
            for task_id, problem in self._problems.items()
        }
        self._done = {str(record["key"]): record for record in read_jsonl(path)}

    def run(self, trials: Sequence[Trial]) -> None:
        """Run what has not been run before."""
        jobs = list(self._plan(trials))
        num_left = sum(len(job.trials) for job in jobs)
        for job, judged in run_streams(self._run_job, jobs, num_workers=self._num_workers):
            record = self._describe(job.trials[judged.key], judged)
            append_jsonl(self._path, [record])
            self._done[judged.key] = record
            num_left -= 1
            if num_left % 20 == 0:
                sys.stderr.write(f"{num_left} runs left\n")

    def find_flagged(self, trials: Sequence[Trial]) -> frozenset[str]:
        """Return the notebooks in which a fork was found unsound."""
        records = (self._done.get(self._key_of(trial, "fork"), {}) for trial in trials)
        task_ids = {str(one["task_id"]) for one in records if one.get("isolation_reason")}
        return frozenset(self._problems[task_id].notebook_path for task_id in task_ids)

    def compare(self, trials: Sequence[Trial]) -> dict[str, object]:
        """Return counts, and every trial with two verdicts."""
        by_kind: Counter[str] = Counter()
        differing: list[dict[str, object]] = []
        flags_differ: list[dict[str, object]] = []
        num_missing = num_unsound = 0
        for trial in trials:
            fork, kernel = (self._done.get(self._key_of(trial, one)) for one in ISOLATIONS)
            if fork is None or kernel is None:
                num_missing += 1
                continue
            by_kind[trial.kind] += 1
            num_unsound += bool(fork["isolation_reason"])
            shown: dict[str, object] = {
                "task_id": trial.task_id,
                "kind": trial.kind,
                "name": trial.name,
            }
            if fork["verdict"] != kernel["verdict"]:
                differing.append({**shown, "fork": fork["verdict"], "kernel": kernel["verdict"]})
            elif fork["flags"] != kernel["flags"]:
                flags_differ.append({**shown, "fork": fork["flags"], "kernel": kernel["flags"]})
        return {
            "num_compared": sum(by_kind.values()),
            "num_by_kind": dict(sorted(by_kind.items())),
            "num_notebooks": len({self._problems[one.task_id].notebook_path for one in trials}),
            "num_not_forked": num_unsound,
            "num_missing": num_missing,
            "num_differing": len(differing),
            "differing": differing,
            "num_only_flags_differ": len(flags_differ),
            "only_flags_differ": flags_differ,
        }

    def _plan(self, trials: Sequence[Trial]) -> Iterator[Job]:
        """Group what is left by notebook; both ways of one notebook follow each other."""
        groups: dict[str, list[Trial]] = {}
        for trial in trials:
            groups.setdefault(self._problems[trial.task_id].notebook_path, []).append(trial)
        for group in groups.values():
            for isolation in ISOLATIONS:
                keyed = {self._key_of(trial, isolation): trial for trial in group}
                left = {key: trial for key, trial in keyed.items() if key not in self._done}
                if left:
                    yield Job(isolation, left)

    def _run_job(self, job: Job, cancel: threading.Event) -> Iterator[Judged]:
        attempts: dict[str, list[Attempt]] = {}
        for key, trial in job.trials.items():
            attempts.setdefault(trial.task_id, []).append(Attempt(key=key, source=trial.source))
        for found in self._grader.run(attempts, isolation=job.isolation, cancel=cancel):
            if isinstance(found, Judged):
                yield found

    def _key_of(self, trial: Trial, isolation: Isolation) -> str:
        parts = [self._keys[trial.task_id], trial.kind, trial.name, trial.source, isolation]
        return digest(parts)[:KEY_LENGTH]

    def _describe(self, trial: Trial, judged: Judged) -> dict[str, object]:
        verdict = judged.verdict
        return {
            "key": judged.key,
            "task_id": trial.task_id,
            "kind": trial.kind,
            "name": trial.name,
            "verdict": str(verdict.kind),
            "flags": list(verdict.flags),
            "signal": verdict.signal,
            "message_sha256": digest([verdict.message])[:KEY_LENGTH],
            "isolation": judged.isolation,
            "isolation_reason": "" if judged.cold_rerun else judged.isolation_reason,
            "cold_rerun": judged.cold_rerun,
            "wall_s": round(judged.wall_s, 3),
        }


if __name__ == "__main__":
    sys.exit(main())
