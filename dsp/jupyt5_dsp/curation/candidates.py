"""The filters that run nothing: from notebook files to solution cells with a test of their own."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from jupyt5.errors import NotebookError
from jupyt5.notebook import Cell, Notebook, read_notebook
from jupyt5_dsp.curation.filters import Rejection
from jupyt5_dsp.curation.names import (
    Names,
    asserts,
    checks,
    defined_names,
    is_unfilled,
    parse_cell,
)
from jupyt5_dsp.curation.nbgrader_cells import SourceCell, read_cells
from jupyt5_dsp.curation.redact import empty_names
from jupyt5_dsp.curation.sources import FoundNotebook, Repository
from jupyt5_dsp.problems import digest

__all__ = ["Candidate", "Screening", "SourceNotebook", "screen"]

_AUTOTEST = "AUTOTEST"


@dataclass(frozen=True, slots=True)
class SourceNotebook:
    """A notebook that may hold problems: its cells without outputs, markers and names."""

    repository: Repository
    path: PurePosixPath
    notebook: Notebook = field(repr=False, compare=False)
    cells: tuple[Cell, ...] = field(repr=False, compare=False)

    @property
    def set_path(self) -> str:
        """Where the notebook stands in the problem set."""
        return f"{self.repository.name}/{self.path}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A solution cell and the grading cells that judge it, by index."""

    notebook: SourceNotebook
    cell_idx: int
    grading_idxs: tuple[int, ...]

    @property
    def key(self) -> str:
        """Name of the candidate while it has no task id yet."""
        return f"{self.notebook.set_path}#{self.cell_idx}"


@dataclass(slots=True)
class Screening:
    """What the filters on text found, in the order of the notebooks."""

    found: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    solutions: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    rejections: list[Rejection] = field(default_factory=list[Rejection])
    contents: dict[str, str] = field(default_factory=dict[str, str])

    def digest(self) -> str:
        """Return a digest of the candidates and all cells of their notebooks."""
        parts: list[str] = []
        for one in self.candidates:
            parts.append(f"{one.key} {one.grading_idxs}")
            parts += [f"{cell.kind} {cell.source}" for cell in one.notebook.cells]
        return digest(parts)


def screen(found: FoundNotebook, screening: Screening) -> None:
    """Put one notebook through the filters and add what comes of it to ``screening``."""
    name = found.repository.name
    screening.found.append((name, str(found.path)))

    def reject(filter_name: str, reason: str, twin: str | None = None) -> None:
        screening.rejections.append(
            Rejection(
                filter=filter_name,
                reason=reason,
                repository=name,
                path=str(found.path),
                duplicate_of=twin,
            )
        )

    if found.left_out:
        reject("location", found.left_out)
        return
    label = str(found.path)
    try:
        notebook = read_notebook(found.repository.path / found.path, name=label)
        cells = read_cells(notebook, label)
    except NotebookError as exc:
        reject("readable", str(exc))
        return
    if notebook.language not in {None, "python"}:
        reject("language", f"its language is {notebook.language}")
    elif not any(cell.is_marked for cell in cells):
        reject("nbgrader", "no cell has nbgrader metadata")
    elif twin := _find_twin(screening, cells, f"{name}/{found.path}"):
        reject("identical", f"the same cells as {twin}", twin)
    elif not any(_is_to_fill(cell) for cell in cells):
        reject("solution", "no code cell is an nbgrader solution")
    else:
        source = SourceNotebook(found.repository, found.path, notebook, empty_names(cells))
        _screen_cells(source, cells, screening)


def _find_twin(screening: Screening, cells: Sequence[SourceCell], own_path: str) -> str:
    key = digest([f"{cell.cell.kind} {cell.cell.source}" for cell in cells])
    twin = screening.contents.setdefault(key, own_path)
    return "" if twin == own_path else twin


def _is_to_fill(cell: SourceCell) -> bool:
    return cell.is_solution and cell.cell.kind == "code"


def _screen_cells(
    source: SourceNotebook, cells: Sequence[SourceCell], screening: Screening
) -> None:
    for idx, cell in enumerate(cells):
        if not _is_to_fill(cell):
            continue
        screening.solutions.append((source.repository.name, str(source.path), idx))
        judged = _judge(cells, idx)
        if isinstance(judged, tuple):
            screening.candidates.append(Candidate(source, idx, judged))
        else:
            screening.rejections.append(
                Rejection(
                    filter=judged.filter,
                    reason=judged.reason,
                    repository=source.repository.name,
                    path=str(source.path),
                    cell_index=idx,
                )
            )


@dataclass(frozen=True, slots=True)
class _Refusal:
    filter: str
    reason: str


def _judge(cells: Sequence[SourceCell], idx: int) -> tuple[int, ...] | _Refusal:
    """Return the indices of the cells that judge solution cell ``idx``, or why there are none."""
    tree = parse_cell(cells[idx].cell.source)
    if tree is None:
        return _Refusal("python3", "the solution cell is not Python 3")
    if is_unfilled(tree):
        return _Refusal("filled", "the solution cell is as students are given it")
    tests = list(_iter_tests(cells, idx))
    if not tests:
        kind = "a manually graded answer" if cells[idx].is_grade else "an answer"
        return _Refusal("grading", f"{kind} without a grading cell before the next one")
    trees = {at: parse_cell(cells[at].cell.source) for at in tests}
    parsed = {at: one for at, one in trees.items() if one is not None}
    if not parsed:
        return _Refusal("python3", f"grading cell {tests[0]} is not Python 3")
    return _choose_tests(cells, parsed, defined_names(tree))


def _choose_tests(
    cells: Sequence[SourceCell], trees: dict[int, ast.Module], names: Names
) -> tuple[int, ...] | _Refusal:
    if not asserts(list(trees.values())):
        if any(_AUTOTEST in cells[at].cell.source for at in trees):
            return _Refusal("assert", "nbgrader has not yet made tests of its AUTOTEST lines")
        return _Refusal("assert", "no grading cell has an assertion")
    chosen = tuple(at for at, tree in trees.items() if checks([tree], names))
    if not chosen and checks(list(trees.values()), names):
        chosen = tuple(trees)  # one cell gets the result, another one asserts
    if not chosen:
        known = ", ".join(sorted(names.variables | names.methods)) or "nothing"
        return _Refusal("refers", f"no assertion refers to what the solution defines ({known})")
    return chosen


def _iter_tests(cells: Sequence[SourceCell], idx: int) -> Iterator[int]:
    """Yield the grading cells between a solution cell and the next one.

    A code cell directly after the solution that nbgrader does not know is one, too, if it asserts
    something and no cell there is marked as a test.
    """
    marked: list[int] = []
    for at in range(idx + 1, len(cells)):
        if cells[at].is_solution:
            break
        if cells[at].is_test:
            marked.append(at)
    if marked:
        yield from marked
        return
    after = idx + 1
    if after < len(cells) and cells[after].cell.kind == "code" and not cells[after].is_marked:
        tree = parse_cell(cells[after].cell.source)
        if tree is not None and asserts([tree]):
            yield after
