"""Step ``quality``: measure simple signals of a notebook's code and text.

The signals are those of code corpora (CodeParrot, The Stack): they go into the rows, for whoever
trains on them to choose by. Only a notebook without any text is always removed; the limits of
``Limits`` are off unless a recipe sets them. The values in brackets are BigCode's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.row import CellText, Removal, Row, Signals

__all__ = ["STEP", "Limits", "compute_signals", "measure"]

STEP = "quality"

_COMMENT_MARKS = {
    **dict.fromkeys(("c", "c++", "c#", "f#", "q#", "go", "groovy", "java", "javascript"), "//"),
    **dict.fromkeys(("kotlin", "php", "rust", "scala", "stata", "swift", "typescript"), "//"),
    **dict.fromkeys(("haskell", "lua", "sql"), "--"),
    **dict.fromkeys(("matlab", "octave", "prolog"), "%"),
    **dict.fromkeys(("clojure", "scheme"), ";"),
}
_USUAL_COMMENT_MARK = "#"
_ASCII_OTHER = bytes(code for code in range(128) if not chr(code).isalnum())
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a notebook may measure; None sets no limit.

    Attributes:
        max_line_chars: Longest line of any cell, in characters [1000].
        max_mean_line_chars: Mean length of the code lines that are not blank [100].
        min_alphanumeric_fraction: Letters and digits among all characters, 0 to 1 [0.25].
        min_comment_fraction: Comment lines among the code lines, 0 to 1 [0.01].
        max_comment_fraction: As above, upper limit [0.8].
    """

    max_line_chars: int | None = None
    max_mean_line_chars: float | None = None
    min_alphanumeric_fraction: float | None = None
    min_comment_fraction: float | None = None
    max_comment_fraction: float | None = None


_NO_LIMITS = Limits()


def measure(row: Row, limits: Limits = _NO_LIMITS) -> Row | Removal:
    """Set the row's ``signals``, or remove it.

    Reasons: ``no_text`` (no cell holds more than white space), ``long_line``, ``long_lines``,
    ``few_alphanumerics``, ``few_comments`` and ``many_comments``.
    """
    if not any(cell.source and not cell.source.isspace() for cell in row.cells):
        detail = f"{len(row.cells)} cells without text"
        return removal_of(row, step=STEP, reason="no_text", detail=detail)
    signals = compute_signals(row.cells, row.language)
    for reason, value, is_beyond in _compare(signals, limits):
        if is_beyond:
            return removal_of(row, step=STEP, reason=reason, detail=f"{value:.6g}")
    return replace(row, signals=signals)


def compute_signals(cells: Sequence[CellText], language: str | None) -> Signals:
    """Compute the signals of cells; the language decides what a comment line is."""
    mark = _COMMENT_MARKS.get(language or "", _USUAL_COMMENT_MARK)
    num_lines = num_line_chars = num_comments = max_line_chars = 0
    for cell in cells:
        lines = cell.source.split("\n")
        max_line_chars = max(max_line_chars, max(map(len, lines)))
        if cell.kind != "code":
            continue
        for line in lines:
            stripped = line.lstrip()
            if stripped:
                num_lines += 1
                num_line_chars += len(line)
                num_comments += stripped.startswith(mark)
    num_chars = sum(len(cell.source) for cell in cells)
    num_alphanumeric = sum(_count_alphanumeric(cell.source) for cell in cells)
    return Signals(
        num_code_lines=num_lines,
        max_line_chars=max_line_chars,
        mean_line_chars=num_line_chars / num_lines if num_lines else 0.0,
        alphanumeric_fraction=num_alphanumeric / num_chars if num_chars else 0.0,
        comment_fraction=num_comments / num_lines if num_lines else 0.0,
    )


def _compare(signals: Signals, limits: Limits) -> Iterator[tuple[str, float, bool]]:
    """Yield reason, value and whether the value is beyond its limit."""
    for reason, value, limit in (
        ("long_line", signals.max_line_chars, limits.max_line_chars),
        ("long_lines", signals.mean_line_chars, limits.max_mean_line_chars),
        ("many_comments", signals.comment_fraction, limits.max_comment_fraction),
    ):
        yield reason, value, limit is not None and value > limit
    for reason, value, limit in (
        ("few_alphanumerics", signals.alphanumeric_fraction, limits.min_alphanumeric_fraction),
        ("few_comments", signals.comment_fraction, limits.min_comment_fraction),
    ):
        yield reason, value, limit is not None and value < limit


def _count_alphanumeric(text: str) -> int:
    if text.isascii():
        return len(text.encode().translate(None, _ASCII_OTHER))
    others = _NOT_ASCII.findall(text)
    ascii_only = _NOT_ASCII.sub("", text)
    return _count_alphanumeric(ascii_only) + sum(char.isalnum() for part in others for char in part)
