"""What a worker is asked to do with one notebook. Plain data, sent as one line of JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Attempt", "Isolation", "Job", "Limits", "RunsAs", "Task"]

Isolation = Literal["fork", "kernel"]
RunsAs = Literal["notebook", "program", "script"]
"""``notebook``: cells of IPython. ``program`` and ``script``: plain Python that ends at its first
exception, in a namespace that is no module, or as the main module."""
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
        environment: Variables that only this run finds.
        files: Texts by the names under which only this run finds them in its folder.
    """

    key: str
    source: str
    seed: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    files: Mapping[str, str] = field(default_factory=dict[str, str], hash=False, repr=False)

    def to_record(self) -> dict[str, object]:
        """Return the attempt as the worker reads it."""
        record: dict[str, object] = {"key": self.key, "source": self.source, "seed": self.seed}
        if self.environment:
            record["environment"] = dict(self.environment)
        if self.files:
            record["files"] = dict(self.files)
        return record


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
        cells: Its own cells, for programs; the job has none then.
    """

    name: str
    cell_idx: int
    grading_idxs: tuple[int, ...]
    attempts: tuple[Attempt, ...] = field(repr=False)
    own_names: frozenset[str] = frozenset()
    forgives_context: bool = False
    forced: bool = False
    cells: tuple[tuple[int, str], ...] = field(default=(), repr=False)

    def to_record(self, attempts: Sequence[Attempt]) -> dict[str, object]:
        """Return the task, with some of its attempts, as the worker reads it."""
        record: dict[str, object] = {
            "name": self.name,
            "cell_idx": self.cell_idx,
            "grading": list(self.grading_idxs),
            "own_names": sorted(self.own_names),
            "forgives": self.forgives_context,
            "forced": self.forced,
            "samples": [one.to_record() for one in attempts],
        }
        if self.cells:
            record["cells"] = [list(cell) for cell in self.cells]
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One notebook: its code cells with the reference solutions in place, and its tasks.

    Or many programs: then the cells are the tasks' own.

    Attributes:
        cells: Index and source of each code cell that may be run, in order.
        tasks: In the order of their cells.
        folder: Where in the work folder the notebook lives.
        seed: Of hash seeds and random generators.
        runs_all: Whether to run the cells to the end of the last task even if that has no
            attempts, so that their replies tell how the references do.
        records_files: Whether to say which files the notebook's own cells open.
        runs_as: What the cells are.
        preload: Modules that are imported before anything is forked.
    """

    cells: tuple[tuple[int, str], ...] = field(repr=False)
    tasks: tuple[Task, ...]
    folder: str = "."
    seed: int = 0
    runs_all: bool = False
    records_files: bool = False
    runs_as: RunsAs = "notebook"
    preload: tuple[str, ...] = ()
