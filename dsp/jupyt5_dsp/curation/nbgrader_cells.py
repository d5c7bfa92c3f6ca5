"""Notebooks as nbgrader sees them: which cells students fill, and which cells judge them."""

import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import nbformat

from jupyt5.errors import NotebookError
from jupyt5.notebook import Cell, Notebook

__all__ = ["SourceCell", "read_cells", "strip_markers"]

_MARKERS = ("BEGIN SOLUTION", "END SOLUTION", "BEGIN HIDDEN TESTS", "END HIDDEN TESTS")


class _Validator(Protocol):
    """The part of nbgrader's metadata reader that is used here."""

    log: logging.Logger

    def upgrade_cell_metadata(self, cell: nbformat.NotebookNode) -> nbformat.NotebookNode: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCell:
    """One cell with its part in nbgrader.

    Attributes:
        cell: The cell, without nbgrader's marker lines.
        is_solution: Students write here.
        is_grade: Points are given here; a manually graded answer is both.
        is_marked: nbgrader knows the cell at all.
    """

    cell: Cell
    is_solution: bool = False
    is_grade: bool = False
    is_marked: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)

    @property
    def is_test(self) -> bool:
        """Whether this is a code cell of tests, in nbgrader's words "autograder tests"."""
        return self.is_grade and not self.is_solution and self.cell.kind == "code"


def read_cells(notebook: Notebook, label: str) -> tuple[SourceCell, ...]:
    """Read nbgrader's metadata of every schema version, by nbgrader's own code.

    Args:
        notebook: The notebook.
        label: What to call it in messages.

    Raises:
        NotebookError: If nbgrader cannot make sense of a cell's metadata.
        ModuleNotFoundError: If nbgrader is not installed.
    """
    validator = _make_validator()
    return tuple(
        _read_cell(cell, validator, f"{label}, cell {idx}")
        for idx, cell in enumerate(notebook.cells)
    )


def strip_markers(source: str) -> str:
    """Remove the comment lines that show nbgrader where answers and hidden tests stand."""
    lines = source.splitlines(keepends=True)
    kept = [line for line in lines if not _is_marker(line)]
    return source if len(kept) == len(lines) else "".join(kept).rstrip("\n")


def _is_marker(line: str) -> bool:
    text = line.strip()
    return text.startswith("#") and text.lstrip("# ").rstrip("# ") in _MARKERS


def _make_validator() -> _Validator:
    # By name, so that all but reading notebooks works, and is checked, without nbgrader.
    module = importlib.import_module("nbgrader.nbgraderformat")
    validator = cast("_Validator", module.MetadataValidator())
    # It warns of every key that it does not know; old notebooks are full of them.
    quiet = logging.getLogger("jupyt5_dsp.nbgrader")
    quiet.setLevel(logging.ERROR)
    for part in (validator, getattr(validator, "v1", None), getattr(validator, "v2", None)):
        if part is not None:
            part.log = quiet
    return validator


def _read_cell(cell: Cell, validator: _Validator, label: str) -> SourceCell:
    kept = {key: value for key, value in cell.metadata.items() if key != "task_id"}
    raw = {"cell_type": cell.kind, "source": cell.source, "metadata": kept}
    node = cast("nbformat.NotebookNode", nbformat.from_dict(raw))  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(node["metadata"].get("nbgrader"), dict):
        return SourceCell(cell=cell, metadata=kept)
    try:
        validator.upgrade_cell_metadata(node)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        message = f"{label}: nbgrader cannot read its metadata ({exc!r:.200})"
        raise NotebookError(message) from exc
    metadata = cast("dict[str, object]", node["metadata"])
    found = cast("Mapping[str, object]", metadata.get("nbgrader", {}))
    clean = Cell(cell.id, cell.kind, strip_markers(cell.source), metadata)
    return SourceCell(
        cell=clean,
        is_solution=found.get("solution") is True,
        is_grade=found.get("grade") is True,
        is_marked=bool(found),
        metadata=metadata,
    )
