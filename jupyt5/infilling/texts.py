"""Cells as texts whose lines know their token counts, for models that are asked in words.

A foreign tokenizer is only ever asked how many tokens a line has, so the plan of
``jupyt5.infilling.planning`` serves models whose ids are made elsewhere, too.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from jupyt5.infilling.planning import CellView

__all__ = ["CellText", "CountTokens", "measure_cell", "measure_target"]

CountTokens = Callable[[str], int]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class CellText:
    """A cell's lines, line breaks included, and the token counts up to each line end.

    Every line counts as one token at least, so that a line end names one place in the text.
    ``prefix_lines`` and ``suffix_lines`` are as in ``CellView``.
    """

    kind: str
    lines: Sequence[str]
    line_ends: Sequence[int]
    prefix_lines: int = 0
    suffix_lines: int = 0

    @property
    def view(self) -> CellView:
        """The cell as planning sees it."""
        is_blank = not any(line.strip() for line in self.lines)
        return CellView(self.kind, self.line_ends, is_blank, self.prefix_lines, self.suffix_lines)

    def cut(self, start: int, end: int) -> str:
        """Return the text between two token offsets, as a ``Segment`` gives them.

        An offset inside a line falls at the like share of its characters.
        """
        text = "".join(self.lines)
        return text[self._find_char(start) : self._find_char(end)]

    def _find_char(self, offset: int) -> int:
        line_idx = bisect_right(self.line_ends, offset)
        num_chars = sum(len(line) for line in self.lines[:line_idx])
        before = self.line_ends[line_idx - 1] if line_idx else 0
        if line_idx == len(self.lines) or offset <= before:
            return num_chars
        share = (offset - before) / (self.line_ends[line_idx] - before)
        return num_chars + int(share * len(self.lines[line_idx]))


def measure_cell(kind: str, source: str, count_tokens: CountTokens) -> CellText:
    """Split a cell into lines and count their tokens.

    Args:
        kind: Kind of the cell.
        source: Its text.
        count_tokens: Tokens of a text in the tokenizer of the model that will be asked.
    """
    lines = _split_lines(source)
    return CellText(kind, lines, _count(lines, count_tokens))


def measure_target(kind: str, prefix: str, suffix: str, count_tokens: CountTokens) -> CellText:
    """Split the text before and after a target's slot into lines and count their tokens."""
    before, after = _split_lines(prefix), _split_lines(suffix)
    lines = before + after
    return CellText(kind, lines, _count(lines, count_tokens), len(before), len(after))


def _split_lines(text: str) -> list[str]:
    # Not splitlines(): it breaks lines at form feeds and Unicode separators inside strings.
    return _LINE.findall(text)


def _count(lines: Sequence[str], count_tokens: CountTokens) -> list[int]:
    return list(accumulate(max(1, count_tokens(line)) for line in lines))
