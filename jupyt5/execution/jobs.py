"""What a worker is asked to do with one notebook. Plain data, sent as one line of JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Attempt", "Isolation", "Job", "Limits", "Task"]

Isolation = Literal["fork", "kernel"]
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sample may use.

    Attributes:
        timeout_s: Processor seconds for solution and grading cells together; three times as much
            on the wall clock.
        context_timeout_s: Wall seconds for any other cell.
        memory_bytes: Address space beyond what the context cells took.
        disk_bytes: All files that it writes.
        file_bytes: One file.
        num_processes: Processes and threads; not enforced for the superuser.
        output_bytes: Kept of what it prints.
    """

    timeout_s: float = 10.0
    context_timeout_s: float = 600.0
    memory_bytes: int = 4096 * _MIB
    disk_bytes: int = 1024 * _MIB
    file_bytes: int = 512 * _MIB
    num_processes: int = 256
    output_bytes: int = 4000

    def to_record(self) -> dict[str, object]:
        """Return the limits as the worker reads them."""
        return {
            "cpu_s": self.timeout_s,
            "context_s": self.context_timeout_s,
            "memory_bytes": self.memory_bytes,
            "file_bytes": self.file_bytes,
            "num_processes": self.num_processes,
            "output_bytes": self.output_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One text for a solution cell.

    Attributes:
        key: Unique within its task.
        source: The solution cell, run as it is.
        seed: Starts the random generators afresh; None goes on with the context cells' state.
    """

    key: str
    source: str
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem with the attempts to judge.

    Attributes:
        name: Unique within the job.
        cell_idx: The solution cell.
        grading_idxs: The cells that judge it, all after it.
        attempts: What to put into the solution cell, one after another.
        own_names: Names that the reference solution binds; an attempt may, too.
        forgives_context: Whether an exception in an earlier cell is known to do no harm.
        forced: Fork even where that is not sound.
    """

    name: str
    cell_idx: int
    grading_idxs: tuple[int, ...]
    attempts: tuple[Attempt, ...] = field(repr=False)
    own_names: frozenset[str] = frozenset()
    forgives_context: bool = False
    forced: bool = False

    def to_record(self, attempts: Sequence[Attempt]) -> dict[str, object]:
        """Return the task, with some of its attempts, as the worker reads it."""
        return {
            "name": self.name,
            "cell_idx": self.cell_idx,
            "grading": list(self.grading_idxs),
            "own_names": sorted(self.own_names),
            "forgives": self.forgives_context,
            "forced": self.forced,
            "samples": [
                {"key": one.key, "source": one.source, "seed": one.seed} for one in attempts
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One notebook: its code cells with the reference solutions in place, and its tasks.

    Attributes:
        cells: Index and source of each code cell that may be run, in order.
        tasks: In the order of their cells.
        folder: Where in the work folder the notebook lives.
        seed: Of hash seeds and random generators.
        runs_all: Whether to run the cells to the end of the last task even if that has no
            attempts, so that their replies tell how the references do.
        records_files: Whether to say which files the notebook's own cells open.
    """

    cells: tuple[tuple[int, str], ...] = field(repr=False)
    tasks: tuple[Task, ...]
    folder: str = "."
    seed: int = 0
    runs_all: bool = False
    records_files: bool = False
