"""How a suite judges by what programs print instead of by grading cells."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from jupyt5.execution.engine import Judged
from jupyt5.execution.jobs import Attempt

__all__ = ["Checker", "Execute"]

Execute = Callable[[Mapping[str, Sequence[Attempt]]], Iterator[Judged]]
"""Runs attempts at some problems, by task id, each in a process of its own.

Yields how each of them ended, in any order. Every call has a worker of its own, so no attempt's
memory ever held another call's texts.
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
        self, attempts: Mapping[str, Sequence[Attempt]], execute: Execute
    ) -> Iterator[Judged]:
        """Judge attempts at the problems of one batch.

        What a call of ``execute`` runs is told apart by task id and key only, and may be found in
        memory by the samples of the same call: references belong into calls of their own.

        Args:
            attempts: Whole programs, by task id.
            execute: Runs programs: the attempts on one input after another, the references too.

        Yields:
            One verdict for each attempt, under the attempt's own task id and key.
        """
        ...
