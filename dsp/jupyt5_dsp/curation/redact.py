"""Students' names: the first cell of an nbgrader notebook asks for them."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jupyt5.notebook import Cell
from jupyt5_dsp.curation.nbgrader_cells import SourceCell

__all__ = ["empty_names"]

_FIELDS = "NAME|NAMES|EMAIL|EMAILS|COLLABORATORS|GROUPNAME|GROUP_NAME|STUDENT_ID|STUDENT_NAME"
_STRING = r"[rubfRUBF]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"?|'[^'\n]*'?)"
_ASSIGNMENT = re.compile(
    rf"^([ \t]*(?:{_FIELDS})\d*[ \t]*=[ \t]*)(?:{_STRING}|\[[^\[\]]*\])", re.MULTILINE | re.DOTALL
)


def empty_names(cells: Sequence[SourceCell]) -> tuple[Cell, ...]:
    """Empty ``NAME = "…"`` and the like in code cells that are neither answer nor test.

    Names in free text, in comments and in paths are not looked for.
    """
    return tuple(
        replace(one.cell, source=_empty(one.cell.source))
        if one.cell.kind == "code" and not one.is_solution and not one.is_test
        else one.cell
        for one in cells
    )


def _empty(source: str) -> str:
    return _ASSIGNMENT.sub(r'\1""', source)
