"""Judges solutions by what their test programs print.

The references of a batch run first, in a worker of their own, on all inputs; what they print is
kept here, in the evaluator's process. Then the samples run in another worker: no process of theirs,
and none that they were forked from, ever held a reference or what it printed. Outputs are compared
here.
"""

import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyt5.execution.engine import Judged
from jupyt5.execution.jobs import Attempt
from jupyt5.execution.verdicts import SUSPECT, Verdict, VerdictKind, shorten
from jupyt5_dsp.biocoder.comparison import compare, describe_difference, put_zeros
from jupyt5_dsp.biocoder.corrections import assemble, correct
from jupyt5_dsp.biocoder.insertion import Slot
from jupyt5_dsp.biocoder.markers import find_reads
from jupyt5_dsp.biocoder.records import BioProblem
from jupyt5_dsp.checker import Execute
from jupyt5_dsp.grader import derive_seed
from jupyt5_dsp.problems import digest

__all__ = ["OUTPUT_BYTES", "OutputChecker", "OutputTest"]

OUTPUT_BYTES = 2 << 20  # Rosalind's longest answer is 1 MB
_RULES_VERSION = "output-v4"
_READS_INPUTS = f"{SUSPECT}reads the test's inputs"
_GOLDEN = "golden"
# So many runs are made at once; more are made only of solutions that got the first input right.
_FEW_RUNS = 100
_NUM_ROUNDS = 2
# Characters of programs and of their files that one worker gets.
_MOST_TEXT = 32 << 20
_CHANCE_RUNS = 10
_CHANCE = re.compile(r"random|secrets|uuid|time|hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTest:
    """A problem's test program and its inputs.

    Attributes:
        problem: Has the reference.
        slot: The program around a solution; it reads its inputs from the environment.
        inputs: Variables of each run; one empty mapping for a program without inputs.
        files: Texts that every run finds in its folder, by name.
        rule: How outputs are compared, see ``comparison``.
        accepted: Right answers besides the reference's output.
    """

    problem: BioProblem
    slot: Slot = field(repr=False)
    inputs: tuple[Mapping[str, str], ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    rule: str = "exact"
    accepted: tuple[str, ...] = field(default=(), repr=False)

    def describe(self) -> list[str]:
        """Return all that a verdict depends on."""
        inputs = [repr(sorted(one.items())) for one in self.inputs]
        files = [repr(sorted(self.files.items()))]
        program = [self.slot.before, self.slot.after, str(self.slot.is_member)]
        return [self.problem.golden, self.rule, *program, *inputs, *files, *self.accepted]

    def reads_inputs(self, solution: str) -> bool:
        """Whether a solution gets at the inputs themselves in a way that the reference does not.

        What they are for the reference, messages tell: a table of answers could have them as keys.
        """
        return any(self.inputs) and not find_reads(solution) <= find_reads(self.problem.golden)

    def is_right(self, expected: str, found: str) -> bool:
        """Whether an output is an answer."""
        return any(compare(one, found, self.rule) for one in (expected, *self.accepted))


@dataclass(frozen=True, slots=True)
class _Golden:
    """What the reference printed on each input; ``fault`` says why that is no yardstick."""

    outputs: tuple[str, ...] = ()
    fault: str = ""


class OutputChecker:
    """Compares output with the reference's; see ``jupyt5_dsp.checker.Checker``.

    Args:
        tests: By task id.
        corrects: Whether completions are repaired first.
    """

    output_bytes = OUTPUT_BYTES

    def __init__(self, tests: Mapping[str, OutputTest], *, corrects: bool = False) -> None:
        self._tests = tests
        self._corrects = corrects
        parts = [part for test in tests.values() for part in test.describe()]
        kept = f"{_RULES_VERSION} {digest(parts)[:16]}"
        self.version = f"{kept} corrected" if corrects else kept
        self._goldens: dict[str, _Golden] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        kept = {"_tests": self._tests, "_corrects": self._corrects, "version": self.version}
        return {**kept, "_goldens": dict(self._goldens)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def judge(
        self, attempts: Mapping[str, Sequence[Attempt]], execute: Execute
    ) -> Iterator[Judged]:
        """Judge solutions; see ``Checker.judge``."""
        goldens = self._expect([self._tests[task_id] for task_id in attempts], execute)
        plans: list[_Plan] = []
        repairs: dict[tuple[str, str], tuple[str, ...]] = {}
        readers: set[tuple[str, str]] = set()
        for task_id, wanted in attempts.items():
            test, golden = self._tests[task_id], goldens[task_id]
            if golden.fault:
                yield from _refuse(task_id, golden.fault, wanted)
                continue
            solved: list[Attempt] = []
            for attempt in wanted:
                solution, repairs[task_id, attempt.key] = self._repair(test, attempt)
                if test.reads_inputs(solution):
                    readers.add((task_id, attempt.key))
                solved.append(replace(attempt, source=test.slot.insert(solution)))
            plans.append(_Plan(test, golden, solved))
        for judged in _judge_runs(plans, execute):
            key = (judged.task, judged.key)
            flags = tuple(f"corrected: {name}" for name in repairs[key])
            if judged.verdict.passed and key in readers:
                flags += (_READS_INPUTS,)
            verdict = replace(judged.verdict, flags=(*judged.verdict.flags, *flags))
            yield replace(judged, verdict=verdict)

    def _repair(self, test: OutputTest, attempt: Attempt) -> tuple[str, tuple[str, ...]]:
        if not attempt.source.strip():
            return "", ()  # the program without any solution
        class_name = test.slot.class_name
        if not self._corrects:
            return assemble(test.problem, attempt.source, class_name=class_name), ()
        corrected = correct(test.problem, attempt.source, class_name=class_name)
        return corrected.solution, corrected.repairs

    def _expect(self, tests: Sequence[OutputTest], execute: Execute) -> dict[str, _Golden]:
        """Return what the references print; those that did not run yet run in one worker."""
        by_id = {test.problem.task_id: test for test in tests}
        with self._lock:
            found = {name: self._goldens[name] for name in by_id if name in self._goldens}
        todo = [test for name, test in by_id.items() if name not in found]
        for task_id, golden in _run_goldens(todo, execute):
            found[task_id] = golden
            with self._lock:
                self._goldens[task_id] = golden
        return found

    def show_test(self, task_id: str) -> tuple[str, str]:
        """Return the test program's text around a solution; see ``Checker.show_test``."""
        test = self._tests.get(task_id)
        return (test.slot.before, test.slot.after) if test else ("", "")


def _refuse(task_id: str, fault: str, attempts: Sequence[Attempt]) -> Iterator[Judged]:
    verdict = Verdict(kind=VerdictKind.INVALID, message=shorten(fault))
    for attempt in attempts:
        yield Judged(task=task_id, key=attempt.key, verdict=verdict, isolation="fork")


def _run_goldens(tests: Sequence[OutputTest], execute: Execute) -> Iterator[tuple[str, _Golden]]:
    by_id = {test.problem.task_id: test for test in tests}
    runs = {task_id: _list_golden_runs(test) for task_id, test in by_id.items()}
    found: dict[str, list[Judged]] = {task_id: [] for task_id in by_id}
    for run in _execute_parts(runs, execute):
        found[run.task].append(run)
        if len(found[run.task]) == len(runs[run.task]):
            # Outputs are long: those of one problem at a time.
            yield run.task, _read_golden(by_id[run.task], found.pop(run.task))


def _list_golden_runs(test: OutputTest) -> list[Attempt]:
    source = test.slot.insert(test.problem.golden)
    num_inputs = len(test.inputs)
    # Under other seeds each time: what an unseeded generator decides shows, in a few runs or in
    # some more where it may be a toss of a coin.
    num_repeats = math.ceil(_CHANCE_RUNS / num_inputs) if _CHANCE.search(source) else 0
    num_repeats = max(2, num_repeats)
    programs = [Attempt(key=_GOLDEN, source=source, seed=idx) for idx in range(num_repeats)]
    return [
        replace(_make_run(test, program, idx), key=f"{repeat_idx}#{idx}")
        for repeat_idx, program in enumerate(programs)
        for idx in range(num_inputs)
    ]


def _read_golden(test: OutputTest, runs: Sequence[Judged]) -> _Golden:
    found = {_split_key(one.key): one for one in runs}
    for (_, idx), run in sorted(found.items(), key=lambda item: (item[0][1], int(item[0][0]))):
        fault = _find_golden_fault(test, run, found["0", idx], idx)
        if fault:
            return _Golden(fault=fault)
    outputs = tuple(found["0", idx].output for idx in range(len(test.inputs)))
    if not any(output.strip() for output in outputs):
        return _Golden(fault="The reference prints nothing.")
    if all(_accepts_zeros(test, output) for output in outputs):
        return _Golden(fault="0.0 for every decimal number would be accepted, too.")
    return _Golden(outputs)


def _accepts_zeros(test: OutputTest, output: str) -> bool:
    zeros = put_zeros(output)
    return test.rule == "numbers" and "0.0" in zeros.split() and test.is_right(output, zeros)


def _find_golden_fault(test: OutputTest, run: Judged, first: Judged, idx: int) -> str:
    where = _name_input(test, idx)
    if not run.verdict.passed:
        return f"The reference fails{where}: {_say_failure(run)}"
    if run.num_output_bytes > OUTPUT_BYTES:
        return f"The reference prints over {OUTPUT_BYTES} bytes{where}."
    if not compare(first.output, run.output, test.rule):
        return f"The reference prints now this, now that{where}: its result depends on chance."
    return ""


class _Plan:
    """What of one problem's solutions is still to run, in two rounds where there is much."""

    def __init__(self, test: OutputTest, golden: _Golden, attempts: Sequence[Attempt]) -> None:
        self.test = test
        self._golden = golden
        self._left = {attempt.key: attempt for attempt in attempts}
        self._found: dict[str, dict[int, Judged]] = {attempt.key: {} for attempt in attempts}
        indices = range(len(test.inputs))
        is_much = len(attempts) * len(indices) > _FEW_RUNS and len(indices) > 1
        self._rounds = [indices[:1], indices[1:]] if is_much else [indices, indices[:0]]

    def list_runs(self, round_idx: int) -> list[Attempt]:
        """Return the runs of a round, after all those of the round before have been taken."""
        wanted = self._rounds[round_idx]
        return [_make_run(self.test, one, idx) for one in self._left.values() for idx in wanted]

    def take(self, run: Judged) -> Judged | None:
        """Note how a run ended; returns the verdict where it is the solution's last."""
        key, idx = _split_key(run.key)
        found = self._found[key]
        found[idx] = replace(_compare_run(self.test, self._golden, run, idx), output="")
        num_inputs = len(self.test.inputs)
        if len(found) not in {len(self._rounds[0]), num_inputs}:
            return None
        judged = _sum_up(key, [found[one] for one in sorted(found)])
        if judged.verdict.passed and len(found) < num_inputs:
            return None
        del self._left[key]
        return judged


def _judge_runs(plans: Sequence[_Plan], execute: Execute) -> Iterator[Judged]:
    by_id = {plan.test.problem.task_id: plan for plan in plans}
    for round_idx in range(_NUM_ROUNDS):
        runs = {task_id: plan.list_runs(round_idx) for task_id, plan in by_id.items()}
        for run in _execute_parts(runs, execute):
            judged = by_id[run.task].take(run)
            if judged is not None:
                yield judged


def _execute_parts(runs: Mapping[str, Sequence[Attempt]], execute: Execute) -> Iterator[Judged]:
    """Execute in one worker, or in some where one would have to hold very much text."""
    part: dict[str, list[Attempt]] = {}
    size = 0
    for task_id, own in runs.items():
        for run in own:
            own_size = len(run.source) + sum(map(len, run.files.values()))
            if part and size + own_size > _MOST_TEXT:
                yield from execute(part)
                part, size = {}, 0
            part.setdefault(task_id, []).append(run)
            size += own_size
    if part:
        yield from execute(part)


def _make_run(test: OutputTest, attempt: Attempt, idx: int) -> Attempt:
    name = f"{test.problem.task_id} {attempt.key == _GOLDEN} {idx}"
    return replace(
        attempt,
        key=f"{attempt.key}#{idx}",
        environment=test.inputs[idx],
        files=test.files,
        # A reference that draws from an unseeded generator is found out: its own runs differ.
        seed=derive_seed(attempt.seed or 0, name),
    )


def _split_key(key: str) -> tuple[str, int]:
    own, _, idx = key.rpartition("#")
    return own, int(idx)


def _compare_run(test: OutputTest, golden: _Golden, run: Judged, idx: int) -> Judged:
    verdict = run.verdict
    where = _name_input(test, idx)
    if not verdict.passed:
        text = f"{verdict.message.removesuffix('.')}{where}." if where else verdict.message
        return replace(run, verdict=replace(verdict, message=text))
    if run.num_output_bytes > OUTPUT_BYTES:
        text = f"It printed {run.num_output_bytes} bytes{where}; {OUTPUT_BYTES} are looked at."
        return replace(run, verdict=replace(verdict, kind=VerdictKind.LIMIT, message=text))
    expected = golden.outputs[idx]
    if test.is_right(expected, run.output):
        return run
    differs = describe_difference(expected, run.output)
    text = f"The output differs{where}."
    if differs:
        text = (
            f"The output differs{where}, line {differs.line_number}: expected "
            f"{differs.expected!r}, printed {differs.found!r}."
        )
    return replace(run, verdict=replace(verdict, kind=VerdictKind.WRONG, message=shorten(text)))


def _name_input(test: OutputTest, idx: int) -> str:
    return f" on input {idx + 1} of {len(test.inputs)}" if len(test.inputs) > 1 else ""


def _say_failure(run: Judged) -> str:
    return run.verdict.message.removeprefix("Solution cell 0 ")


def _sum_up(key: str, runs: Sequence[Judged]) -> Judged:
    """Return one verdict: that of the first run that did not pass, else of the first.

    Flags of later runs do not count: whether there are any depends on what runs beside it.
    """
    failed_idx = next((idx for idx, run in enumerate(runs) if not run.verdict.passed), None)
    decisive = runs[failed_idx or 0]
    counted = runs if failed_idx is None else runs[: failed_idx + 1]
    flags = dict.fromkeys(flag for run in counted for flag in run.verdict.flags)
    return replace(
        decisive,
        key=key,
        verdict=replace(decisive.verdict, flags=tuple(flags)),
        isolation="kernel" if any(run.isolation == "kernel" for run in runs) else "fork",
        cold_rerun=any(run.cold_rerun for run in runs),
        wall_s=sum(run.wall_s for run in runs),
        cpu_s=sum(run.cpu_s for run in runs),
        output="",
    )
