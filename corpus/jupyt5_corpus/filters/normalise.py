"""Step ``normalise``: one way to write the same text, and no bytes that are no text.

Line ends become newlines and NUL bytes go. (Lone surrogates, which no UTF-8 file can hold, are
U+FFFD since the reader.) What a person would see stays as it was.
"""

from dataclasses import replace

from jupyt5_corpus.content import content_hash, estimate_num_tokens, is_substantial
from jupyt5_corpus.row import CellText, Row

__all__ = ["STEP", "normalise"]

STEP = "normalise"


def normalise(row: Row) -> Row:
    """Return the row with normalised cells; the same object where nothing changes."""
    cells = tuple(_normalise_cell(cell) for cell in row.cells)
    if all(new is old for new, old in zip(cells, row.cells, strict=True)):
        return row
    return replace(
        row,
        cells=cells,
        num_tokens_estimate=estimate_num_tokens(cells),
        content_hash=content_hash(cells),
        is_substantial=is_substantial(cell.source for cell in cells),
    )


def _normalise_cell(cell: CellText) -> CellText:
    source = cell.source
    if "\r" not in source and "\0" not in source:
        return cell
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return replace(cell, source=source)
