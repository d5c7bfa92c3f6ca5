"""Candidates for one cell, tried against a cell below it: the assistant's use of the executor.

In a fork of the user's live kernel the server does it (``jupyt5.server.trying``) with the pieces
here; ``try_fresh`` runs the cells above once more, in a sandboxed interpreter of its own.
"""

import ast
import builtins
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jupyt5.execution.engine import Judged, run_job
from jupyt5.execution.evidence import read_sample
from jupyt5.execution.interpreters import Interpreter, find_interpreter
from jupyt5.execution.jobs import Attempt, Job, Limits, Task
from jupyt5.execution.sandbox import Sandbox, choose_sandbox
from jupyt5.execution.scratch import remove_folder
from jupyt5.execution.setting import Setting
from jupyt5.execution.suspicion import find_suspicions
from jupyt5.execution.suspicion_source import parse_source
from jupyt5.execution.verdicts import SUSPECT, Verdict, VerdictKind, judge
from jupyt5.execution.views import make_view

__all__ = ["Trial", "Tried", "find_walls", "judge_live", "rank", "try_fresh"]

_TASK = "candidates"
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What candidates are tried against.

    Attributes:
        cells: Index and source of each code cell of the notebook, in order.
        target_idx: The cell that a candidate goes into.
        grading_idx: The cell below it that decides.
    """

    cells: tuple[tuple[int, str], ...] = field(repr=False)
    target_idx: int
    grading_idx: int

    @property
    def above(self) -> tuple[tuple[int, str], ...]:
        """The code cells before the target."""
        return tuple(cell for cell in self.cells if cell[0] < self.target_idx)

    @property
    def below(self) -> tuple[tuple[int, str], ...]:
        """The code cells after the target, up to the one that decides."""
        return tuple(c for c in self.cells if self.target_idx < c[0] <= self.grading_idx)

    @property
    def grading(self) -> str:
        """The source of the cell that decides."""
        return dict(self.cells)[self.grading_idx]

    @property
    def wanted(self) -> frozenset[str]:
        """Names that the deciding cell uses and no cell above binds: a candidate is to bind them.

        There is no reference solution that would say so.
        """
        bound = {name for _, source in self.above for name in _iter_bound(source)}
        tree = parse_source(self.grading).tree
        nodes = ast.walk(tree) if tree else ()
        used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        return frozenset(used - bound - _BUILTINS)

    def make_task(self, attempts: Sequence[Attempt] = ()) -> Task:
        """Return the executor's task for these attempts."""
        return Task(
            name=_TASK,
            cell_idx=self.target_idx,
            grading_idxs=(self.grading_idx,),
            attempts=tuple(attempts),
            own_names=self.wanted,
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """A verdict on the candidate ``key``."""

    key: str
    verdict: Verdict
    wall_s: float

    @property
    def is_suspect(self) -> bool:
        """Whether what it did calls for a second look."""
        return any(flag.startswith(SUSPECT) for flag in self.verdict.flags)


def judge_live(trial: Trial, source: str, content: Mapping[str, Any]) -> Tried:
    """Judge one candidate from what a fork of a live kernel reports.

    Args:
        trial: What it was tried against.
        source: The whole cell that was run.
        content: The report's message.
    """
    evidence = read_sample(content, trial.make_task())
    key = str(content.get("key"))
    if evidence.fault:
        verdict = Verdict(
            kind=VerdictKind.INVALID, message=f"It could not be run: {evidence.fault}"
        )
        return Tried(key, verdict, evidence.wall_s)
    flags = (*evidence.flags, *_find_flags(trial, source))
    verdict = replace(judge(evidence.replies, flags=flags), signal=evidence.signal)
    return Tried(key, verdict, evidence.wall_s)


def rank(logprobs: Mapping[int, float | None], verdicts: Mapping[int, Verdict]) -> tuple[int, ...]:
    """Return candidates best first: those that passed, then by likelihood.

    A pass with any flag counts less than one without: people see it marked as doubtful. Where
    likelihoods are unknown, the order in which the candidates were drawn decides.

    Args:
        logprobs: Mean log-probability of each candidate, in nats a token.
        verdicts: Of those that were tried.
    """

    def key(idx: int) -> tuple[int, float, int]:
        verdict = verdicts.get(idx)
        standing = 2 if verdict is None or not verdict.passed else int(bool(verdict.flags))
        return standing, -(logprobs[idx] or 0.0), idx

    return tuple(sorted(logprobs, key=key))


@lru_cache(maxsize=8)
def find_walls(python: Path | None) -> tuple[Interpreter, Sandbox]:
    """Return an interpreter and a sandbox around it, tried once.

    Args:
        python: The executable; None for the one that runs this.

    Raises:
        ExecutionError: If there is none on this machine.
    """
    interpreter = find_interpreter(python)
    return interpreter, choose_sandbox("auto", interpreter)


def try_fresh(
    trial: Trial,
    candidates: Mapping[str, str],
    folder: Path,
    *,
    limits: Limits,
    python: Path | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[Tried]:
    """Run the cells above in a sandboxed interpreter, then each candidate in a copy of it.

    Args:
        trial: What they are tried against.
        candidates: The whole cell, by key.
        folder: The notebook's; files written there vanish.
        limits: Of each candidate and each cell above.
        python: The executable; None for the one that runs this.
        cancel: When set, everything is ended and ``KeyboardInterrupt`` raised.

    Yields:
        A verdict for each candidate.

    Raises:
        ExecutionError: If there is no sandbox, or no interpreter.
    """
    interpreter, sandbox = find_walls(python)
    view_path = make_view(None)
    setting = Setting(
        interpreter=interpreter,
        sandbox=sandbox,
        limits=limits,
        view_path=view_path,
        folder_path=folder.resolve(),
    )
    try:
        yield from _run_fresh(trial, candidates, setting, cancel)
    finally:
        remove_folder(view_path)


def _run_fresh(
    trial: Trial, candidates: Mapping[str, str], setting: Setting, cancel: threading.Event | None
) -> Iterator[Tried]:
    attempts = [Attempt(key=key, source=source) for key, source in candidates.items()]
    # No candidate is in the cell when the worker itself comes to it.
    cells = (*trial.above, (trial.target_idx, ""), *trial.below)
    job = Job(cells=cells, tasks=(trial.make_task(attempts),))
    num_left = len(attempts)
    for one in run_job(job, setting, cancel=cancel):
        if isinstance(one, Judged):
            yield _tell(trial, candidates[one.key], one)
            num_left -= 1
            if not num_left:
                return  # what the cell below does without a candidate is of no interest


def _tell(trial: Trial, source: str, judged: Judged) -> Tried:
    flags = (*judged.verdict.flags, *_find_flags(trial, source))
    verdict = replace(judged.verdict, flags=tuple(dict.fromkeys(flags)))
    return Tried(judged.key, verdict, judged.wall_s)


def _find_flags(trial: Trial, source: str) -> tuple[str, ...]:
    above = [text for _, text in trial.above]
    reference = "\n".join(f"{name} = None" for name in sorted(trial.wanted))
    return find_suspicions(source, reference, [trial.grading], above)


def _iter_bound(source: str) -> Iterator[str]:
    """Yield the names that a cell gives a meaning to, at any depth."""
    tree = parse_source(source).tree
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
            case _:
                pass
