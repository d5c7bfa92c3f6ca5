"""Problem sets of programs: each problem is a notebook in memory, of two cells.

The solution cell is one program text with the completion in it, the grading cell its tests.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyt5.errors import ProblemSetError
from jupyt5.execution.jobs import RunsAs
from jupyt5.notebook import Cell, CellKind, Notebook
from jupyt5_dsp.checker import Checker
from jupyt5_dsp.jsonl import read_jsonl
from jupyt5_dsp.problems import Form, Problem, ProblemSet, Shown

__all__ = ["Program", "find_file", "make_cell", "make_program_set", "read_rows"]

_SOLUTION_IDX, _GRADING_IDX = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One problem of a suite of programs.

    Attributes:
        task_id: Unique in its suite.
        form: The program's text around a completion, and the reference.
        grading: The tests, run after it in the same namespace.
        shown: What a provider sees.
        invalid_reason: Why it cannot be judged; "" if it can.
    """

    task_id: str
    form: Form = field(repr=False)
    grading: str = field(repr=False)
    shown: Shown = field(repr=False)
    invalid_reason: str = ""


def make_program_set(
    programs: Iterable[Program],
    *,
    runs_as: RunsAs = "program",
    stops: Sequence[str] = (),
    checker: Checker | None = None,
) -> ProblemSet:
    """Return programs as a problem set.

    Raises:
        ProblemSetError: If there is none, or two have the same task id.
    """
    problems: dict[str, Problem] = {}
    notebooks: dict[str, Notebook] = {}
    for program in programs:
        if program.task_id in problems:
            message = f"Problem {program.task_id} is there twice. Keep one of them."
            raise ProblemSetError(message)
        problems[program.task_id] = Problem(
            task_id=program.task_id,
            notebook_path=program.task_id,
            cell_idx=_SOLUTION_IDX,
            grading_idxs=(_GRADING_IDX,),
            form=program.form,
            shown=program.shown,
            invalid_reason=program.invalid_reason,
        )
        solution = make_cell("code", program.form.fill(program.form.reference))
        cells = (solution, make_cell("code", program.grading))
        notebooks[program.task_id] = Notebook(cells, 4, 5)
    if not problems:
        message = "There are no problems. Check the file, and the options that select from it."
        raise ProblemSetError(message)
    return ProblemSet(
        None, tuple(problems.values()), notebooks, runs_as, tuple(stops), checker=checker
    )


def make_cell(kind: CellKind, source: str) -> Cell:
    """Return a cell that lives in memory only."""
    return Cell(None, kind, source)


def find_file(path: Path, names: Sequence[str]) -> Path:
    """Return ``path`` if it is a file, else the first of ``names`` in that folder.

    Raises:
        ProblemSetError: If there is none.
    """
    if path.is_file():
        return path
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        message = (
            f"{path} is no file, and no folder with {' or '.join(names)} in it. Give such a file "
            "or folder; dsp-eval suites says where each suite's file comes from."
        )
        raise ProblemSetError(message)
    return found


def read_rows(path: Path, fields: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (line number, record) of a JSON Lines file, plain or gzip, with all of ``fields``.

    Raises:
        ProblemSetError: If the file is damaged, or a record lacks a field; names line and field.
    """
    for line_number, record in enumerate(read_jsonl(path), start=1):
        missing = [name for name in fields if name not in record]
        if missing:
            message = (
                f"{path}, record {line_number}: field {missing[0]} is missing. Is this the "
                "suite's own file? Fetch it again with dsp-eval fetch."
            )
            raise ProblemSetError(message)
        yield line_number, record
