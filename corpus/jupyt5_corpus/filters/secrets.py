"""Step ``secrets``: put placeholders where credentials and personal addresses stand.

``<KEY>``, ``<PASSWORD>``, ``<EMAIL>`` and ``<IP_ADDRESS>`` take the place of what
``jupyt5_corpus.filters.credentials`` and ``.personal`` find; a key that was found is replaced
wherever it stands in the notebook. No notebook is removed, and ``content_hash`` stays that of the
original cells: lists of held-out and opted-out notebooks name originals.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from jupyt5_corpus.content import estimate_num_tokens
from jupyt5_corpus.filters.credentials import find_credentials, load_scanner
from jupyt5_corpus.filters.personal import find_addresses
from jupyt5_corpus.filters.spans import KEY, Span, fill_spans, settle_spans
from jupyt5_corpus.row import CellText, Row

__all__ = ["STEP", "prepare", "redact"]

STEP = "secrets"

_BETWEEN_CELLS = "\n\n"
_MIN_REPEATED_CHARS = 16
"""Shorter keys are replaced only where they were found."""
_MAX_REPEATED = 100
"""Of more keys than this, each is replaced only where it was found: a dump, not a slip."""


def prepare(rules_dir: Path) -> None:
    """Compile the detector's rules into a folder, for processes started later."""
    load_scanner(rules_dir)


def redact(row: Row, *, rules_dir: Path | None = None) -> Row:
    """Replace secrets in the row's cells and count them in ``num_redactions``.

    Args:
        row: The notebook.
        rules_dir: Folder with compiled rules, see ``prepare``; None to compile them in this
            process, once.
    """
    # One text, one search: starting the detectors costs more than a cell's search.
    text = _BETWEEN_CELLS.join(cell.source for cell in row.cells)
    found = [*find_credentials(text, load_scanner(rules_dir)), *find_addresses(text)]
    if not found:
        return row
    spans = settle_spans([*found, *_repeated(text, found)])
    cells = _fill_cells(row.cells, spans)
    return replace(
        row,
        cells=cells,
        num_redactions=len(spans),
        num_tokens_estimate=estimate_num_tokens(cells),
    )


def _repeated(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    keys = {text[span.start : span.end] for span in spans if span.placeholder == KEY}
    if len(keys) > _MAX_REPEATED:
        return
    for key in sorted(key for key in keys if len(key) >= _MIN_REPEATED_CHARS):
        place = text.find(key)
        while place >= 0:
            yield Span(place, place + len(key), KEY)
            place = text.find(key, place + len(key))


def _fill_cells(cells: Sequence[CellText], spans: Sequence[Span]) -> tuple[CellText, ...]:
    """Fill the spans, places in the joined text, into the cells they lie in."""
    sizes = (len(cell.source) + len(_BETWEEN_CELLS) for cell in cells)
    starts = list(accumulate(sizes, initial=0))
    of_cell: dict[int, list[Span]] = {}
    for span in spans:
        cell_idx = bisect_right(starts, span.start) - 1
        start = starts[cell_idx]
        # What reaches beyond the cell is cut there.
        end = min(span.end - start, len(cells[cell_idx].source))
        of_cell.setdefault(cell_idx, []).append(Span(span.start - start, end, span.placeholder))
    return tuple(
        replace(cell, source=fill_spans(cell.source, of_cell[idx])) if idx in of_cell else cell
        for idx, cell in enumerate(cells)
    )
