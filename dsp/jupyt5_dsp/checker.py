"""How a suite judges by what programs print instead of by grading cells."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from jupyt5.execution.engine import Judged
from jupyt5.execution.jobs import Attempt

if TYPE_CHECKING:
    from jupyt5_dsp.problems import Problem

__all__ = ["Checker", "Execute"]

Execute = Callable[[Sequence[Attempt]], Iterator[Judged]]
"""Runs attempts, each in a process of its own, and yields how each of them ended, in any order.

Every call has a worker of its own, so no attempt's memory ever held another call's texts.
"""


class Checker(Protocol):
    """Turns runs of programs into verdicts; is sent to other processes, so it must pickle.

    A run that ``passed`` ended as it should; what it printed is in ``Judged.output``.
    """

    @property
    def version(self) -> str:
        """Names the rules: findings that were made under others are made again."""
        ...

    @property
    def output_bytes(self) -> int:
        """How much of what a run prints is kept for it."""
        ...

    def judge(
        self, problem: "Problem", attempts: Sequence[Attempt], execute: Execute
    ) -> Iterator[Judged]:
        """Judge attempts at one problem.

        Args:
            problem: The problem.
            attempts: Whole programs.
            execute: Runs programs: the attempts on one input after another, the reference too.

        Yields:
            One verdict for each attempt, under the attempt's own key.
        """
        ...

    def show_test(self, problem: "Problem") -> tuple[str, str]:
        """Return the text of a problem's test program before and after a solution, to be read.

        Both are "" where it has none.
        """
        ...
