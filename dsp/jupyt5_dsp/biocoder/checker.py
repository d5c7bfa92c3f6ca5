"""Judges solutions by what their test programs print.

The reference runs first, in a worker of its own, on all inputs; its output is kept here, in the
evaluator's process. Then the samples run in another worker: no process of theirs, and none that
they were forked from, ever held the reference or what it printed. Outputs are compared here.
"""

import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyt5.execution.engine import Judged
from jupyt5.execution.jobs import Attempt
from jupyt5.execution.verdicts import Verdict, VerdictKind, shorten
from jupyt5_dsp.biocoder.comparison import compare, describe_difference, put_zeros
from jupyt5_dsp.biocoder.corrections import assemble, correct
from jupyt5_dsp.biocoder.insertion import Slot
from jupyt5_dsp.biocoder.records import BioProblem
from jupyt5_dsp.checker import Execute
from jupyt5_dsp.grader import derive_seed
from jupyt5_dsp.problems import Problem, digest

__all__ = ["OUTPUT_BYTES", "OutputChecker", "OutputTest"]

OUTPUT_BYTES = 2 << 20  # Rosalind's longest answer is 1 MB
_RULES_VERSION = "output-v2"
_GOLDEN = "golden"
# So many runs are made at once; more are made only of solutions that got the first input right.
_FEW_RUNS = 100
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
        self, problem: Problem, attempts: Sequence[Attempt], execute: Execute
    ) -> Iterator[Judged]:
        """Judge solutions; see ``Checker.judge``."""
        test = self._tests[problem.task_id]
        golden = self._expect(test, execute)
        if golden.fault:
            verdict = Verdict(kind=VerdictKind.INVALID, message=shorten(golden.fault))
            for attempt in attempts:
                yield Judged(
                    task=problem.task_id, key=attempt.key, verdict=verdict, isolation="fork"
                )
            return
        repairs = {attempt.key: self._repair(test, attempt) for attempt in attempts}
        solved = [
            replace(attempt, source=test.slot.insert(repairs[attempt.key][0]))
            for attempt in attempts
        ]
        for judged in _judge_runs(test, golden, solved, execute):
            flags = tuple(f"corrected: {name}" for name in repairs[judged.key][1])
            verdict = replace(judged.verdict, flags=(*judged.verdict.flags, *flags))
            yield replace(judged, verdict=verdict)

    def _repair(self, test: OutputTest, attempt: Attempt) -> tuple[str, tuple[str, ...]]:
        if not attempt.source.strip():
            return "", ()  # the program without any solution
        is_member = test.slot.is_member
        if not self._corrects:
            return assemble(test.problem, attempt.source, is_member=is_member), ()
        corrected = correct(test.problem, attempt.source, is_member=is_member)
        return corrected.solution, corrected.repairs

    def _expect(self, test: OutputTest, execute: Execute) -> _Golden:
        task_id = test.problem.task_id
        with self._lock:
            known = self._goldens.get(task_id)
        if known is None:
            known = _run_golden(test, execute)
            with self._lock:
                self._goldens[task_id] = known
        return known

    def show_test(self, problem: Problem) -> tuple[str, str]:
        """Return the test program's text around a solution; see ``Checker.show_test``."""
        test = self._tests.get(problem.task_id)
        return (test.slot.before, test.slot.after) if test else ("", "")


def _run_golden(test: OutputTest, execute: Execute) -> _Golden:
    source = test.slot.insert(test.problem.golden)
    num_inputs = len(test.inputs)
    # Under other seeds each time: what an unseeded generator decides shows, in a few runs or in
    # some more where it may be a toss of a coin.
    num_repeats = math.ceil(_CHANCE_RUNS / num_inputs) if _CHANCE.search(source) else 0
    num_repeats = max(2, num_repeats)
    programs = [Attempt(key=_GOLDEN, source=source, seed=idx) for idx in range(num_repeats)]
    runs = [
        replace(_make_run(test, program, idx), key=f"{repeat_idx}#{idx}")
        for repeat_idx, program in enumerate(programs)
        for idx in range(num_inputs)
    ]
    found = {_split_key(one.key): one for one in execute(runs)}
    for (_, idx), run in sorted(found.items(), key=lambda item: item[0][1]):
        fault = _find_golden_fault(test, run, found["0", idx], idx)
        if fault:
            return _Golden(fault=fault)
    outputs = tuple(found["0", idx].output for idx in range(num_inputs))
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


def _judge_runs(
    test: OutputTest, golden: _Golden, attempts: Sequence[Attempt], execute: Execute
) -> Iterator[Judged]:
    """Run on all inputs, in two rounds where there is much to run."""
    indices = range(len(test.inputs))
    rounds = [list(indices)]
    if len(attempts) * len(indices) > _FEW_RUNS and len(indices) > 1:
        rounds = [[0], list(indices[1:])]
    left = {attempt.key: attempt for attempt in attempts}
    done: dict[str, list[Judged]] = {attempt.key: [] for attempt in attempts}
    for wanted in rounds:
        runs = [_make_run(test, one, idx) for one in left.values() for idx in wanted]
        found: dict[str, dict[int, Judged]] = {}
        for run in execute(runs) if runs else ():
            key, idx = _split_key(run.key)
            found.setdefault(key, {})[idx] = _compare_run(test, golden, run, idx)
            if len(found[key]) == len(wanted):
                done[key] += [found[key][one] for one in wanted]
                judged = _sum_up(key, done[key])
                if not judged.verdict.passed or wanted is rounds[-1]:
                    del left[key]
                    yield judged


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
        return replace(run, verdict=replace(verdict, message=f"{verdict.message}{where}"))
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
    """Return one verdict: that of the first run that did not pass, else of the first."""
    decisive = next((run for run in runs if not run.verdict.passed), runs[0])
    flags = dict.fromkeys(flag for run in runs for flag in run.verdict.flags)
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
