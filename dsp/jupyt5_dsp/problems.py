"""Problems and the notebooks they live in, on disk or made in memory (``programs.py``).

A problem is a solution cell and the grading cells that judge it. Everything else in its notebook
stays as it is (teacher forcing): earlier solution cells hold their reference solutions. On disk a
set is notebooks, their data files, and ``problems.jsonl``.
"""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import cast

from jupyt5.errors import ProblemSetError
from jupyt5.execution.jobs import RunsAs
from jupyt5.notebook import Cell, Notebook, read_notebook
from jupyt5_dsp.checker import Checker

__all__ = [
    "Form",
    "Problem",
    "ProblemSet",
    "Shown",
    "digest",
    "load_problem_set",
    "split_initial_comments",
]

PROBLEMS_FILE = "problems.jsonl"
# Programs that one worker serves, one after another: a start costs more than a sample.
_BATCH_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How the text of a program's solution cell is put together.

    Attributes:
        reference: The reference completion.
        prefix: What stands before a completion.
        suffix: What stands after it.
        indent: Put before each of its lines but the first.
        preload: Modules that the worker imports before samples are forked.
        defines: Functions and classes in the program that the checker puts around a completion.
        answers: Functions and classes in the reference.
    """

    reference: str
    prefix: str = ""
    suffix: str = ""
    indent: str = ""
    preload: tuple[str, ...] = ()
    # Of the texts that verdicts depend on anyway, so no part of what describes a problem.
    defines: frozenset[str] = field(default=frozenset(), repr=False)
    answers: frozenset[str] = field(default=frozenset(), repr=False)

    def may_share_worker(self, other: "Form") -> bool:
        """Whether one worker may serve samples of both: same imports, no answer to the other."""
        is_apart = self.defines.isdisjoint(other.answers) and other.defines.isdisjoint(self.answers)
        return self.preload == other.preload and is_apart

    def fill(self, completion: str) -> str:
        """Return the whole text with ``completion`` in it."""
        if self.indent:
            completion = completion.replace("\n", f"\n{self.indent}")
        return f"{self.prefix}{completion}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a provider sees of a problem, where that is something else than its notebook.

    ``prefix`` and ``suffix`` stand around the place where the completion goes, in the target cell.
    ``function`` is the one whose header the prefix ends with; "" if it ends with none; where
    ``is_member``, it is a member of a class.
    """

    cells: tuple[Cell, ...]
    target_idx: int
    prefix: str = ""
    suffix: str = ""
    function: str = ""
    is_member: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One line of ``problems.jsonl``, or one problem of a suite of programs.

    Attributes:
        task_id: Name of the problem, unique in its set.
        notebook_path: Path inside the set, with forward slashes.
        cell_idx: Index of the solution cell.
        grading_idxs: Indices of the cells that judge it, in order.
        passes_modern: Whether the reference passed where the set was made; None if not said.
        cause: Why it did not pass there.
        form: How a program's solution cell is filled; None in a notebook, where a completion
            follows the initial comment lines.
        shown: What a provider sees; None for the notebook.
        invalid_reason: Why the problem can be shown, but not judged; "" if it can.
    """

    task_id: str
    notebook_path: str
    cell_idx: int
    grading_idxs: tuple[int, ...]
    passes_modern: bool | None = None
    cause: str = ""
    form: Form | None = field(default=None, repr=False)
    shown: Shown | None = field(default=None, repr=False)
    invalid_reason: str = field(default="", repr=False)

    def describe(self) -> list[str]:
        """Return all that its verdicts depend on, besides the cells."""
        parts = [repr(self), repr(self.form) if self.form else "", self.invalid_reason]
        return [part for part in parts if part]

    @property
    def repository_name(self) -> str:
        """First folder of the notebook's path; empty for a notebook at the top of the set."""
        parts = PurePosixPath(self.notebook_path).parts
        return parts[0] if len(parts) > 1 else ""


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems in file order, with the notebooks they live in.

    Attributes:
        root_path: Folder of the notebooks and of the data files beside them; None for programs.
        problems: In file order.
        notebooks: By path.
        runs_as: What the cells are.
        stops: Generated text ends before the first of these.
        checker: Judges by what programs print; None where grading cells judge.
    """

    root_path: Path | None
    problems: tuple[Problem, ...]
    notebooks: Mapping[str, Notebook] = field(repr=False, compare=False)
    runs_as: RunsAs = "notebook"
    stops: tuple[str, ...] = ()
    checker: Checker | None = None

    @property
    def has_programs(self) -> bool:
        """Whether each problem is a program of its own, with nothing before it."""
        return self.runs_as != "notebook"

    def select(self, limit: int | None) -> "ProblemSet":
        """Return the set's first ``limit`` problems; all of them for None."""
        return replace(self, problems=self.problems[:limit])

    def find(self, task_id: str) -> Problem:
        """Return the problem called ``task_id``, which must be there."""
        return next(problem for problem in self.problems if problem.task_id == task_id)

    def group_problems(self) -> dict[str, str]:
        """Return by task id what is run by one worker: a notebook, or some programs.

        Programs share a worker only where none can see it: see ``Form.may_share_worker``.
        """
        if not self.has_programs:
            return {problem.task_id: problem.notebook_path for problem in self.problems}
        names: dict[str, str] = {}
        open_batches: dict[str, list[Problem]] = {}
        num_batches = 0
        # Those that nothing is run for take no places from the others.
        for problem in sorted(self.problems, key=lambda one: bool(one.invalid_reason)):
            fitting = (name for name, own in open_batches.items() if _has_room(own, problem))
            name = next(fitting, f"programs {num_batches}")
            num_batches += name not in open_batches
            names[problem.task_id] = name
            batch = open_batches.setdefault(name, [])
            batch.append(problem)
            if len(batch) == _BATCH_SIZE:
                del open_batches[name]
        return names

    def digest(self) -> str:
        """Return one digest of the problems and of their notebooks' cells."""
        parts = [part for problem in self.problems for part in problem.describe()]
        for path in dict.fromkeys(problem.notebook_path for problem in self.problems):
            parts.append(path)
            parts += [f"{cell.kind} {cell.source}" for cell in self.notebooks[path].cells]
        return digest(parts)

    def digest_shown(self) -> str:
        """Return one digest of what a provider sees, and of how its answers are taken.

        Apart from ``digest``: runs over other presentations of the same problems can be compared.
        "" where it sees the notebooks.
        """
        shown = [(one.task_id, one.shown) for one in self.problems if one.shown]
        if not shown:
            return ""
        parts = [str(len(self.stops)), *self.stops]
        for task_id, one in shown:
            parts += [
                task_id,
                str(one.target_idx),
                one.prefix,
                one.suffix,
                one.function,
                str(one.is_member),
            ]
            parts += [f"{cell.kind} {cell.source}" for cell in one.cells]
        return digest(parts)

    def cells_of(self, problem: Problem) -> tuple[Cell, ...]:
        """Return all cells of the problem's notebook."""
        return self.notebooks[problem.notebook_path].cells

    def prefix_of(self, problem: Problem) -> str:
        """Return what stands before a completion: initial comment lines, or a program's prefix."""
        if problem.form:
            return problem.form.prefix
        return split_initial_comments(self.cells_of(problem)[problem.cell_idx].source)[0]

    def reference_of(self, problem: Problem) -> str:
        """Return the reference completion: what follows ``prefix_of``."""
        if problem.form:
            return problem.form.reference
        return split_initial_comments(self.cells_of(problem)[problem.cell_idx].source)[1]

    def fill(self, problem: Problem, completion: str) -> str:
        """Return the solution cell's source with ``completion``, which is taken as it is."""
        if problem.form:
            return problem.form.fill(completion)
        return self.prefix_of(problem) + completion

    def grading_key(self, problem: Problem) -> str:
        """Return a digest of the grading cells; equal digests are one *distinct* problem."""
        cells = self.cells_of(problem)
        sources = [cells[idx].source for idx in problem.grading_idxs if idx < len(cells)]
        return digest(sources)

    def explain_invalid(self, problem: Problem) -> str:
        """Return why a problem can never be judged, as far as its text shows; "" if it can."""
        if problem.invalid_reason:
            return problem.invalid_reason
        cells = self.cells_of(problem)
        if problem.cell_idx >= len(cells) or cells[problem.cell_idx].kind != "code":
            return f"solution cell {problem.cell_idx} is not a code cell"
        if not problem.grading_idxs:
            return "grading cell missing"
        for idx in problem.grading_idxs:
            reason = _explain_bad_grading(cells, idx, problem)
            if reason:
                return reason
        return ""


def _has_room(batch: Sequence[Problem], problem: Problem) -> bool:
    form = problem.form
    if bool(problem.invalid_reason) != bool(batch[0].invalid_reason):
        return False
    return all(not form or not one.form or form.may_share_worker(one.form) for one in batch)


def load_problem_set(root_path: Path) -> ProblemSet:
    """Read ``problems.jsonl`` and the notebooks that it names.

    Raises:
        ProblemSetError: If there are no problems, or a line is damaged; names file and line.
        NotebookError: If a notebook cannot be read.
    """
    list_path = root_path / PROBLEMS_FILE
    if not list_path.is_file():
        message = (
            f"{root_path} holds no problems: there is no {PROBLEMS_FILE} in it. "
            "Give the folder that has this file beside its notebooks."
        )
        raise ProblemSetError(message)
    problems = tuple(_iter_problems(list_path))
    if not problems:
        message = f"{list_path} has no problems in it. Restore the file or choose another set."
        raise ProblemSetError(message)
    _refuse_doubles(problems, list_path)
    paths = dict.fromkeys(problem.notebook_path for problem in problems)
    notebooks = {path: read_notebook(root_path / path) for path in paths}
    return ProblemSet(root_path, problems, notebooks)


def split_initial_comments(source: str) -> tuple[str, str]:
    """Split a solution cell into its initial comment lines and the code after them.

    Blank lines among and after the comments belong to the comments. Without any comment the
    first part is empty. A non-empty first part ends in a line break, so code can follow it.
    """
    lines = source.splitlines(keepends=True)
    num_lines = 0
    has_comment = False
    for line in lines:
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            break
        has_comment = has_comment or bool(stripped)
        num_lines += 1
    if not has_comment:
        return "", source
    prefix = "".join(lines[:num_lines])
    return prefix if prefix.endswith("\n") else prefix + "\n", "".join(lines[num_lines:])


def digest(parts: Sequence[str]) -> str:
    """Return one SHA-256 for a sequence of texts; its division into parts counts."""
    text = json.dumps(list(parts), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _iter_problems(list_path: Path) -> Iterator[Problem]:
    with list_path.open(encoding="utf-8") as stream:
        for line_number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                record: object = json.loads(line)
                yield _read_problem(record)
            except (ValueError, KeyError, TypeError) as exc:
                reason = f"field {exc} is missing" if isinstance(exc, KeyError) else str(exc)
                message = f"{list_path}, line {line_number}: {reason}. Mend or remove the line."
                raise ProblemSetError(message) from exc


def _read_problem(record: object) -> Problem:
    if not isinstance(record, dict):
        message = "not a JSON object"
        raise TypeError(message)
    fields = cast("dict[str, object]", record)
    path = PurePosixPath(str(fields["notebook_path"]))
    if path.is_absolute() or ".." in path.parts:
        message = f"notebook_path {path} leads out of the set"
        raise ValueError(message)
    cell_idx = _read_index(fields["cell_index"])
    listed = fields.get("grading_cells")
    if listed is not None and not isinstance(listed, list):
        message = f"grading_cells is {listed!r}, not a list of indices"
        raise TypeError(message)
    grading = [cell_idx + 1] if listed is None else cast("list[object]", listed)
    passes = fields.get("passes_modern")
    return Problem(
        task_id=str(fields["task_id"]),
        notebook_path=str(path),
        cell_idx=cell_idx,
        grading_idxs=tuple(_read_index(idx) for idx in grading),
        passes_modern=passes if isinstance(passes, bool) else None,
        cause=str(fields.get("cause") or ""),
    )


def _read_index(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        message = f"{value!r} is not the index of a cell"
        raise ValueError(message)
    return value


def _refuse_doubles(problems: Sequence[Problem], list_path: Path) -> None:
    seen: set[str] = set()
    for problem in problems:
        if problem.task_id in seen:
            message = f"{list_path} lists {problem.task_id} twice. Keep one of the lines."
            raise ProblemSetError(message)
        seen.add(problem.task_id)


def _explain_bad_grading(cells: Sequence[Cell], idx: int, problem: Problem) -> str:
    if idx >= len(cells):
        return "grading cell missing"
    if idx <= problem.cell_idx:
        return f"grading cell {idx} does not come after the solution cell"
    if cells[idx].kind != "code":
        return f"grading cell {idx} is {cells[idx].kind}, not code"
    source = cells[idx].source
    if not source.strip():
        return f"grading cell {idx} is empty"
    try:
        has_code = bool(ast.parse(source).body)
    except (SyntaxError, ValueError):
        has_code = True  # magics and the like; the interpreter will say
    return "" if has_code else f"grading cell {idx} has only comments"
