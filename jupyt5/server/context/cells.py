"""Facts about variables as one more context cell, chosen to fit."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest
from jupyt5.providers.texts import find_window

__all__ = ["add_facts", "choose_facts"]

_NAME = re.compile(r"[^\W\d]\w*")
_HEAD = "# Variables:"


def choose_facts(
    entries: Sequence[tuple[str, str]], request: FillRequest, *, budget_bytes: int
) -> str:
    """Return comment lines that fit: names in the cells nearby first, then the latest.

    Args:
        entries: (name, description) in order of creation.
        request: What is going to be filled.
        budget_bytes: Longest text.
    """
    texts = [request.cells[idx].source for idx in find_window(request)]
    near = set(_NAME.findall("\n".join((*texts, request.prefix, request.suffix))))
    latest_first = list(reversed(entries))
    ranked = sorted(latest_first, key=lambda entry: entry[0] not in near)
    lines, left = [_HEAD], budget_bytes - len(_HEAD)
    for name, description in ranked:
        line = f"# {name}: {description}"
        if len(line.encode()) + 1 <= left:
            lines.append(line)
            left -= len(line.encode()) + 1
    return "\n".join(lines) if len(lines) > 1 else ""


def add_facts(request: FillRequest, text: str) -> FillRequest:
    """Return a request whose farthest context cell is ``text``: the first to go for room."""
    place = find_window(request)[0]
    cells = (*request.cells[:place], Cell(None, "code", text), *request.cells[place:])
    return replace(
        request,
        cells=cells,
        target_idx=request.target_idx + 1,
        num_context_cells=request.num_context_cells + 1,
    )
