"""Places in a text that a placeholder shall stand for, and how several of them are made one."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["EMAIL", "IP_ADDRESS", "KEY", "PASSWORD", "Span", "fill_spans", "settle_spans"]

KEY = "<KEY>"
PASSWORD = "<PASSWORD>"
EMAIL = "<EMAIL>"
IP_ADDRESS = "<IP_ADDRESS>"

_FIRST = (PASSWORD, KEY, EMAIL, IP_ADDRESS)
"""Where places overlap, an earlier one here wins: of a connection string only the password goes."""


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) and the placeholder for them."""

    start: int
    end: int
    placeholder: str


def settle_spans(spans: Sequence[Span]) -> list[Span]:
    """Return the spans in order without overlaps: one placeholder's are merged, others give way."""
    settled: list[Span] = []
    for placeholder in _FIRST:
        merged: list[Span] = []
        for span in sorted(span for span in spans if span.placeholder == placeholder):
            if merged and span.start < merged[-1].end:
                merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
            else:
                merged.append(span)
        settled += [span for span in merged if not _is_taken(span, settled)]
        settled.sort()
    return settled


def fill_spans(text: str, spans: Sequence[Span]) -> str:
    """Put the placeholders into the text; the spans are in order and do not overlap."""
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces += (text[position : span.start], span.placeholder)
        position = span.end
    return "".join((*pieces, text[position:]))


def _is_taken(span: Span, settled: Sequence[Span]) -> bool:
    """Tell whether one of the spans, in order and apart, overlaps this one."""
    place = bisect_left(settled, span.end, key=lambda each: each.start)
    return place > 0 and settled[place - 1].end > span.start
