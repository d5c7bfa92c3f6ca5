"""``references.jsonl``: what a report needs of the problem set, kept with the run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from jupyt5.files import write_atomic
from jupyt5_dsp.jsonl import read_jsonl, render_jsonl
from jupyt5_dsp.problems import ProblemSet

__all__ = ["REFERENCES_FILE", "Reference", "read_references", "write_references"]

REFERENCES_FILE = "references.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A problem's solution cell and what judges it.

    Attributes:
        task_id: The problem.
        cell_idx: Index of the solution cell in its notebook.
        prefix: Initial comment lines of the solution cell.
        reference: The reference completion, which follows them.
        grading: Sources of the grading cells.
        suffix: What of a program's solution cell follows the completion.
        function: The function that is asked for; "" if no one knows.
        before: Text of the test program before a solution; "" where grading cells judge.
        after: Text of the test program after a solution.
    """

    task_id: str
    cell_idx: int
    prefix: str
    reference: str
    grading: tuple[str, ...]
    suffix: str = ""
    function: str = ""
    before: str = ""
    after: str = ""

    @property
    def has_program(self) -> bool:
        """Whether a test program judges, by what it prints."""
        return bool(self.before or self.after)


def write_references(run_path: Path, problem_set: ProblemSet) -> None:
    """Keep the references of all problems in the folder of a run, in one step."""
    write_atomic(
        run_path / REFERENCES_FILE,
        render_jsonl(asdict(reference) for reference in _list_references(problem_set)),
    )


def read_references(run_path: Path) -> dict[str, Reference]:
    """Return the references by task id; empty if the run kept none.

    Raises:
        ProblemSetError: If a line of the file is damaged.
    """
    path = run_path / REFERENCES_FILE
    if not path.is_file():
        return {}
    return {str(record.get("task_id")): _read(record) for record in read_jsonl(path)}


def _list_references(problem_set: ProblemSet) -> list[Reference]:
    found: list[Reference] = []
    checker = problem_set.checker
    for problem in problem_set.problems:
        if problem_set.explain_invalid(problem):
            continue
        cells = problem_set.cells_of(problem)
        before, after = checker.show_test(problem.task_id) if checker else ("", "")
        reference = Reference(
            task_id=problem.task_id,
            cell_idx=problem.cell_idx,
            prefix=problem_set.prefix_of(problem),
            reference=problem_set.reference_of(problem),
            grading=tuple(cells[idx].source for idx in problem.grading_idxs),
            suffix=problem.form.suffix if problem.form else "",
            function=problem.shown.function if problem.shown else "",
            before=before,
            after=after,
        )
        found.append(reference)
    return found


def _read(record: Mapping[str, object]) -> Reference:
    cell_idx = record.get("cell_idx")
    grading = record.get("grading")
    return Reference(
        task_id=str(record.get("task_id")),
        cell_idx=cell_idx if isinstance(cell_idx, int) else 0,
        prefix=str(record.get("prefix") or ""),
        reference=str(record.get("reference") or ""),
        grading=tuple(str(source) for source in cast("list[object]", grading or ())),
        **{name: str(record.get(name) or "") for name in ("suffix", "function", "before", "after")},
    )
