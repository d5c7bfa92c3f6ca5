"""From a prompt or a chat back to cells, which is what our models know.

A script in percent format (``# %%`` opens a code cell, ``# %% [markdown]`` a Markdown cell) is read
as its cells; any other script is one cell.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jupyt5.notebook import Cell, CellKind

__all__ = ["Turn", "Window", "read_chat", "read_script"]

_MARK = re.compile(r"^# ?%%(?P<title>[^\n]*)(?:\n|\Z)", re.MULTILINE)
_TEXT_TITLE = re.compile(r"\[(?:markdown|md)\]")
_FENCE = re.compile(
    r"^(?P<fence>```+|~~~+)[^\n]*\n(?P<code>.*?)^(?P=fence)[ \t]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OPEN_FENCE = re.compile(r"\A(?:```+|~~~+)[^\n]*\n")
_QUOTES = '"""'


@dataclass(frozen=True, slots=True)
class Window:
    """Cells, which of them is to be filled, and what stands in that one."""

    cells: tuple[Cell, ...]
    target_idx: int
    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a chat."""

    role: str
    text: str


def read_script(prompt: str, suffix: str) -> Window:
    """Read a prompt and its suffix.

    Args:
        prompt: Text before the cursor; its last cell is the target.
        suffix: Text after the cursor.
    """
    *before, (title, prefix) = _split(prompt)
    (_, rest), *after = _split(suffix)
    kind: CellKind = "code"
    if _TEXT_TITLE.search(title) and prefix.startswith(f"{_QUOTES}\n"):
        kind, prefix = "markdown", prefix.removeprefix(f"{_QUOTES}\n")
        rest = rest.partition(f"\n{_QUOTES}")[0]
    # The blank lines between two cells belong to neither.
    rest = rest.rstrip("\n") if after else rest
    context = [_to_cell(*part) for part in before if part[1].strip()]
    following = [_to_cell(*part) for part in after]
    cells = (*context, Cell(None, kind, ""), *following)
    return Window(cells, len(context), prefix, rest)


def read_chat(turns: Sequence[Turn]) -> Window:
    """Read a chat as a notebook: prose as Markdown cells, fenced code as code cells.

    Instructions (role ``system`` or ``developer``) are left out, as our models follow none. What
    the last message says, if it is the assistant's, is the beginning of the cell to be filled.
    """
    said = [turn for turn in turns if turn.role not in {"system", "developer"}]
    prefix = ""
    if said and said[-1].role == "assistant":
        prefix = _OPEN_FENCE.sub("", said.pop().text)
    context = [cell for turn in said for cell in _read_markdown(turn.text)]
    return Window((*context, Cell(None, "code", "")), len(context), prefix, "")


def _split(script: str) -> list[tuple[str, str]]:
    """Return (title, text) of each cell; what stands before the first mark has no title."""
    marks = list(_MARK.finditer(script))
    ends = [*(mark.start() for mark in marks), len(script)]
    parts = [("", script[: ends[0]])]
    for mark, end in zip(marks, ends[1:], strict=True):
        parts.append((mark["title"], script[mark.end() : end]))
    return parts


def _to_cell(title: str, text: str) -> Cell:
    text = text.strip("\n")
    if not _TEXT_TITLE.search(title):
        return Cell(None, "code", text)
    if text.startswith(_QUOTES):
        return Cell(None, "markdown", text.strip('"').strip("\n"))
    lines = (line.removeprefix("#").removeprefix(" ") for line in text.split("\n"))
    return Cell(None, "markdown", "\n".join(lines))


def _read_markdown(text: str) -> list[Cell]:
    cells: list[Cell] = []
    position = 0
    for fence in _FENCE.finditer(text):
        cells.append(Cell(None, "markdown", text[position : fence.start()].strip()))
        cells += [_to_cell(*part) for part in _split(fence["code"])]
        position = fence.end()
    cells.append(Cell(None, "markdown", text[position:].strip()))
    return [cell for cell in cells if cell.source.strip()]
