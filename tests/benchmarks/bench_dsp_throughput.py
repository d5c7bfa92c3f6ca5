"""Samples per second: forks of one run, against a fresh process and a fresh kernel for each sample.

Problems are drawn from those that a validation found usable. Each gets samples in turn from its
reference and from mutants of it, and three ways of judging them follow each other on each problem,
one worker each:

- ``fork``: the context cells once, a forked child a sample. All samples are run; what n of them
  cost is read off when the n-th verdict is there.
- ``fresh``: our own fresh process a sample. One sample is run; the rest is multiplied.
- ``nbclient``: a fresh kernel and the whole notebook a sample, with no wall around it: take only
  notebooks that you trust, and an environment that they may change (one of the shared set calls
  pip). One is run; the rest is multiplied.

A fourth run forks a bare IPython beside each sample, from the same process and state: the floor.
Samples that ran out of time are counted apart, on no side. Rows are kept in FILE, a broken run
goes on from there. Prints a summary as JSON.

    python tests/benchmarks/bench_dsp_throughput.py SET --python PYTHON \\
        --validation validation.jsonl --out rows.jsonl
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from throughput_summary import summarise

from jupyt5.errors import ExecutionError
from jupyt5.execution.evidence import read_sample
from jupyt5.execution.interpreters import Interpreter, find_interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Job, Limits
from jupyt5.execution.sandbox import WORKER_PATH, Sandbox, choose_sandbox
from jupyt5.execution.setting import Setting
from jupyt5.execution.verdicts import VerdictKind, judge
from jupyt5.execution.worker_process import Message, WorkerProcess
from jupyt5_dsp.grader import Execution, Grader, derive_seed
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.mutants import make_mutants
from jupyt5_dsp.plans import folder_of, make_job
from jupyt5_dsp.problems import Problem, load_problem_set
from jupyt5_dsp.validation import read_validations

NUM_SAMPLES = 100
NUM_FLOOR_SAMPLES = 20
NBCLIENT_TIMEOUT_S = 120
HERE = Path(__file__).parent


class ClockedSandbox(Sandbox):
    """Starts the worker through ``dsp_worker.py``."""

    mode = "timed"

    def wrap(self, command: Sequence[str]) -> list[str]:
        script = str(HERE / "dsp_worker.py")
        # Not `super()`: a class with slots is made twice.
        return Sandbox.wrap(self, [command[0], script, str(WORKER_PATH), self.mode])


class FloorSandbox(ClockedSandbox):
    """The same, with a bare fork beside every sample."""

    mode = "floor"


@dataclass(frozen=True, slots=True)
class Taken:
    """One sample as the tool saw it, all in seconds.

    Attributes:
        wall_s: From the end of the sample before.
        judged_s: Run time of solution and grading cells.
        floor_s: A bare fork with the same cells; None where there was none.
    """

    wall_s: float
    judged_s: float
    verdict: str
    floor_s: float | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """One worker from its start to its end.

    Attributes:
        around_s: All but the samples: start, context cells of a forking worker, end.
        context_s: Run time of context cells: once if forked, else in each sample.
        samples: In order, without those that ran out of time.
    """

    around_s: float
    context_s: float
    samples: tuple[Taken, ...]
    num_timeouts: int = 0
    stack: tuple[str, ...] = ()
    unsafe: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, print the summary."""
    args = parse(argv)
    problem_set = load_problem_set(args.problems)
    valid = {one.task_id for one in read_validations(args.validation) if one.valid}
    problems = [one for one in problem_set.problems if one.task_id in valid]
    drawn = random.Random(args.seed).sample(problems, min(args.number, len(problems)))
    interpreter = find_interpreter(args.python)
    execution = Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox("auto", interpreter, hidden_paths=[args.problems]),
        limits=Limits(),
        seed=args.seed,
    )
    repair_jsonl(args.out)
    rows = {str(row["task_id"]): row for row in read_jsonl(args.out)}
    todo = [problem for problem in drawn if problem.task_id not in rows]
    if todo:
        with Grader(problem_set, execution) as grader, NbclientLoop(grader) as loop:
            bench = Bench(grader, loop, args.seed)
            for problem in todo:
                row = bench.measure(problem)
                append_jsonl(args.out, [row])
                rows[problem.task_id] = row
                sys.stderr.write(f"{len(rows)} of {len(drawn)}: {problem.task_id}\n")
    summary = summarise([rows[problem.task_id] for problem in drawn])
    summary |= {
        "seed": args.seed,
        "num_drawn": len(drawn),
        "num_valid": len(problems),
        "python": interpreter.version,
        "sandbox": execution.sandbox.name,
        "load_1_min": round(os.getloadavg()[0], 1),
    }
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("problems", type=Path, metavar="SET", help="folder with problems.jsonl")
    parser.add_argument("--validation", type=Path, required=True, help="from dsp-eval validate")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="rows")
    parser.add_argument("--python", type=Path, help="interpreter that executes; has nbclient")
    parser.add_argument("--number", type=int, default=60, help="of problems to draw")
    parser.add_argument("--seed", type=int, default=0, help="draws problems and mutants")
    return parser.parse_args(argv)


class Bench:
    """Measures one problem after another.

    Args:
        grader: Entered; knows the set and where its files are.
        loop: The peer.
        seed: Draws the mutants.
    """

    def __init__(self, grader: Grader, loop: "NbclientLoop", seed: int) -> None:
        self._grader = grader
        self._loop = loop
        self._seed = seed

    def measure(self, problem: Problem) -> dict[str, object]:
        """Return one row: what each way took on this problem."""
        source = self._grader.problem_set.cells_of(problem)[problem.cell_idx].source
        sources = self._make_samples(problem, source)
        # One sample each: the reference on half of the problems, a mutant on the others.
        single = sources[derive_seed(self._seed, problem.task_id) % 2]
        peer = self._loop.run(problem, single)
        fresh = self._run(problem, [single], "kernel", "timed")
        fork = self._run(problem, sources, "fork", "timed")
        floor = self._run(problem, sources[:NUM_FLOOR_SAMPLES], "fork", "floor")
        return {
            "task_id": problem.task_id,
            "stack": list(fork.stack),
            "unsafe": fork.unsafe,
            "num_timeouts": fork.num_timeouts,
            "nbclient": peer,
            "fresh": render(fresh),
            "fork": render(fork),
            "floor": render(floor),
            "load_1_min": round(os.getloadavg()[0], 1),
        }

    def _make_samples(self, problem: Problem, source: str) -> list[str]:
        seed = derive_seed(self._seed, problem.task_id)
        half = NUM_SAMPLES // 2
        mutants = [one.source for one in make_mutants(source, number=half, seed=seed)] or [source]
        # A short solution has fewer places for a mistake: its mutants come again.
        return [
            source if idx % 2 == 0 else mutants[idx // 2 % len(mutants)]
            for idx in range(NUM_SAMPLES)
        ]

    def _run(
        self, problem: Problem, sources: Sequence[str], isolation: Isolation, mode: str
    ) -> Course:
        grader, execution = self._grader, self._grader.execution
        attempts = [Attempt(key=str(idx), source=text) for idx, text in enumerate(sources)]
        job = make_job(
            grader.problem_set, {problem.task_id: attempts}, seed=grader.seed_of(problem)
        )
        kind = FloorSandbox if mode == "floor" else ClockedSandbox
        inner = execution.sandbox
        setting = Setting(
            interpreter=execution.interpreter,
            sandbox=kind(inner.name, inner.bwrap_path, inner.hidden_paths),
            limits=execution.limits,
            view_path=grader._view_of(problem),
            isolation=isolation,
        )
        return follow(job, setting, isolation)


def follow(job: Job, setting: Setting, isolation: Isolation) -> Course:
    """Run a worker to its end and take the time of all that it does."""
    task = job.tasks[0]
    started_s = time.perf_counter()
    samples: list[Taken] = []
    course = Course(0.0, 0.0, ())
    context_s = samples_s = last_s = 0.0
    worker = WorkerProcess(job, setting, [(task, task.attempts)], isolation, threading.Event())
    with worker:
        for message in worker.read():
            content = message.content
            if message.kind == "cell":
                context_s += float(content["wall_s"])
            elif message.kind == "unsafe":
                course = replace(course, unsafe="; ".join(message.reasons))
            elif message.kind == "sample":
                now_s = time.perf_counter()
                # What came before the first sample, or a floor after one, is not the sample's.
                is_apart = not last_s or "floor_s" in content
                wall_s = float(content["whole_s"]) if is_apart else now_s - last_s
                last_s = now_s
                samples_s += wall_s
                context_s += sum_context(content)
                samples.append(take(message, job, wall_s))
                course = replace(course, stack=tuple(content["stack"]))
    if not worker.is_done:
        message = f"The worker ended in the middle of {task.name}."
        raise ExecutionError(message)
    around_s = time.perf_counter() - started_s - samples_s
    kept = tuple(one for one in samples if one.verdict != VerdictKind.TIMEOUT)
    return replace(
        course,
        around_s=around_s,
        context_s=context_s,
        samples=kept,
        num_timeouts=len(samples) - len(kept),
    )


def take(message: Message, job: Job, wall_s: float) -> Taken:
    """Judge one sample as the engine does, and read its clocks."""
    task, content = job.tasks[0], message.content
    evidence = read_sample(content, task, has_context=message.isolation == "kernel")
    verdict = judge(evidence.replies, forgive_context=task.forgives_context, flags=evidence.flags)
    judged_s = 0.0
    for detail in content["details"]:
        if detail["kind"] == "solution":
            judged_s += float(detail["wall_s"])
        judged_s += float(detail.get("grading_s", 0.0))
    return Taken(wall_s, judged_s, str(verdict.kind), content.get("floor_s"))


def sum_context(content: Mapping[str, Any]) -> float:
    return sum(float(one["wall_s"]) for one in content["details"] if one["kind"] == "cell")


def render(course: Course) -> dict[str, object]:
    return {
        "around_s": round(course.around_s, 4),
        "context_s": round(course.context_s, 4),
        "wall_s": [round(one.wall_s, 5) for one in course.samples],
        "judged_s": [round(one.judged_s, 5) for one in course.samples],
        "floor_s": [round(one.floor_s, 5) if one.floor_s else None for one in course.samples],
        "verdicts": [one.verdict for one in course.samples],
    }


class NbclientLoop:
    """The plain loop, in a process of the interpreter that executes; a context manager."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader
        self._process: subprocess.Popen[str] | None = None
        self._home = tempfile.TemporaryDirectory(prefix="j5-peer-")

    def __enter__(self) -> "NbclientLoop":
        interpreter: Interpreter = self._grader.execution.interpreter
        home_path = Path(self._home.name) / "home"
        assert self._grader._home_path is not None
        shutil.copytree(self._grader._home_path, home_path)
        environment = {
            "HOME": str(home_path),
            "PATH": f"{interpreter.path.parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
            environment[f"{name}_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(
            [str(interpreter.path), str(HERE / "nbclient_loop.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._home.cleanup()

    def run(self, problem: Problem, source: str) -> dict[str, object]:
        """Execute the problem's notebook with ``source`` in its solution cell."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        cells = [(cell.kind, cell.source) for cell in self._grader.problem_set.cells_of(problem)]
        cells[problem.cell_idx] = ("code", source)
        view_path = self._grader._view_of(problem)
        with tempfile.TemporaryDirectory(prefix="j5-peer-") as folder:
            work_path = Path(folder) / "work"
            shutil.copytree(view_path / "jupyt5/work", work_path)
            job = {
                "cells": cells,
                "graded": max(problem.grading_idxs),
                "folder": str(work_path / folder_of(problem)),
                "timeout_s": NBCLIENT_TIMEOUT_S,
            }
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if answer.get("timed_out"):
            return answer
        judged = {problem.cell_idx, *problem.grading_idxs}
        seconds: list[float] = answer.pop("cells_s")
        answer["wall_s"] = round(answer["wall_s"], 4)
        answer["judged_s"] = round(sum(seconds[idx] for idx in judged), 4)
        answer["other_cells_s"] = round(sum(seconds) - answer["judged_s"], 4)
        return answer


if __name__ == "__main__":
    sys.exit(main())
