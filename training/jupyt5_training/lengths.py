"""Exact lengths of examples without making them: the formatter's arithmetic over whole arrays.

``jupyt5.infilling.plan_example`` says what a source holds. Batches are planned for millions of
targets at once, so the same rules are applied here to arrays of targets; a test holds both to the
same numbers. All token and line positions are relative to the chunk's first token.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jupyt5.infilling import NEIGHBOUR_SHARE, TARGET_SHARE
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.arrays import TokenArrays

__all__ = ["Cuts", "LengthPlanner", "TokenTables", "cut_lines"]

# Tokens read at once: with the arrays made of them, some 400 MB.
_CHUNK_TOKENS = 8_000_000

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class TokenTables:
    """What lengths depend on in a token, by id: bool arrays of shape (vocabulary,).

    ``opens_line``: it starts a line; ``has_text``: it is more than white space;
    ``is_comment``: a line that it begins is a comment.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = tokenizer.tokens
        self.opens_line = tokenizer.opens_line
        self.has_text = np.array([bool(token.strip("ĠĉĊč")) for token in tokens], np.bool_)
        self.is_comment = np.array([token.lstrip("Ġĉ").startswith("#") for token in tokens])


@dataclass(frozen=True, slots=True)
class Cuts:
    """Settings and draws of the examples measured, shape (examples,) each.

    ``cut`` and ``place`` are uniform in [0, 1); ``num_context`` and ``num_following`` are the
    cells shown at most.
    """

    cut: npt.NDArray[np.float64]
    place: npt.NDArray[np.float64]
    num_context: IntArray
    num_following: IntArray


def cut_lines(
    num_lines: IntArray, num_comment: IntArray, cuts: Cuts, prefix_rate: float, suffix_rate: float
) -> tuple[IntArray, IntArray]:
    """Choose how many first lines of each target are prefix and how many last ones suffix.

    Initial comment lines are always prefix (the paper's DSP rule), unless there is nothing else.

    Args:
        num_lines: Lines of each target.
        num_comment: Initial comment lines of each target.
        cuts: The draws.
        prefix_rate: Share of targets cut at a random line, the lines before it shown as prefix.
        suffix_rate: Share of targets whose last lines are shown as suffix.
    """
    prefix = np.where(num_comment < num_lines, num_comment, 0)
    free = num_lines - prefix
    moved = 1 + (cuts.place * (free - 1)).astype(np.int64)
    is_prefix = (free >= 2) & (cuts.cut < prefix_rate)
    is_suffix = (free >= 2) & ~is_prefix & (cuts.cut < prefix_rate + suffix_rate)
    return prefix + np.where(is_prefix, moved, 0), np.where(is_suffix, moved, 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """One piece of every source that wants room; see ``jupyt5.infilling._Part``."""

    exists: BoolArray
    start: IntArray
    end: IntArray
    keep_tail: bool
    share: npt.NDArray[np.float64]
    overhead: int
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Neighbouring notebooks: cell borders, and where lines start, with the end as sentinel."""

    first_cell: int
    cell_starts: IntArray
    line_starts: IntArray
    is_comment_line: BoolArray
    is_other_line: BoolArray


class LengthPlanner:
    """Measures the examples of one split's arrays."""

    def __init__(self, arrays: TokenArrays, tables: TokenTables) -> None:
        self._arrays = arrays
        self._tables = tables

    def chunks(self, cells: IntArray) -> Iterator[slice]:
        """Cut a rising array of cell indices into runs that are measured together."""
        offsets = self._arrays.cell_offsets
        start = 0
        while start < len(cells):
            limit = offsets[cells[start]] + _CHUNK_TOKENS
            end = int(np.searchsorted(cells, np.searchsorted(offsets, limit)))
            end = max(end, start + 1)
            yield slice(start, end)
            start = end

    def measure(
        self,
        cells: IntArray,
        cuts: Cuts,
        rates: tuple[float, float],
        *,
        source_budget_tokens: int,
        max_target_tokens: int,
    ) -> tuple[IntArray, IntArray]:
        """Return the source and target lengths of examples.

        Args:
            cells: Target cells, rising (repeats allowed), close together: one of ``chunks``.
            cuts: Their draws.
            rates: Prefix and suffix rate.
            source_budget_tokens: Longest source.
            max_target_tokens: Longest target.
        """
        chunk = self._read(int(cells[0]), int(cells[-1]))
        local = cells - chunk.first_cell
        start, end = chunk.cell_starts[local], chunk.cell_starts[local + 1]
        first_line = np.searchsorted(chunk.line_starts, start)
        last_line = np.searchsorted(chunk.line_starts, end)
        is_code = self._arrays.kinds[cells] == 1
        num_comment = np.where(is_code, _count_comments(chunk, first_line, last_line), 0)
        prefix, suffix = cut_lines(last_line - first_line, num_comment, cuts, *rates)
        prefix_end = chunk.line_starts[first_line + prefix]
        suffix_start = chunk.line_starts[last_line - suffix]
        own = [
            self._own_part(start, prefix_end, TARGET_SHARE, keep_tail=True),
            self._own_part(suffix_start, end, NEIGHBOUR_SHARE, keep_tail=False),
        ]
        parts = own + self._neighbours(cells, cuts, chunk)
        sources = 5 + _fill(parts, max(0, source_budget_tokens - 5), chunk.line_starts)
        return sources, np.minimum(suffix_start - prefix_end + 1, max_target_tokens)

    def _read(self, first_target: int, last_target: int) -> _Chunk:
        arrays, tables = self._arrays, self._tables
        borders = np.searchsorted(arrays.notebook_offsets, [first_target, last_target], "right")
        first_cell = int(arrays.notebook_offsets[borders[0] - 1])
        end_cell = int(arrays.notebook_offsets[borders[1]])
        offsets = np.asarray(arrays.cell_offsets[first_cell : end_cell + 1])
        tokens = np.asarray(arrays.tokens[offsets[0] : offsets[-1]])
        cell_starts = offsets - offsets[0]
        opens = tables.opens_line[tokens]
        opens[cell_starts[:-1]] = True
        line_starts = np.append(np.flatnonzero(opens), len(tokens))
        first_text = _skip_blanks(tokens, line_starts, tables.has_text)
        has_text = first_text < line_starts[1:]
        first_token = tokens[np.minimum(first_text, len(tokens) - 1)]
        is_comment = has_text & tables.is_comment[first_token]
        return _Chunk(first_cell, cell_starts, line_starts, is_comment, has_text & ~is_comment)

    @staticmethod
    def _own_part(start: IntArray, end: IntArray, share: float, *, keep_tail: bool) -> _Part:
        return _Part(
            np.ones(len(start), np.bool_), start, end, keep_tail, np.full(len(start), share), 0
        )

    def _neighbours(self, cells: IntArray, cuts: Cuts, chunk: _Chunk) -> list[_Part]:
        """Following cells, then context cells, each from the nearest to the farthest."""
        borders = self._arrays.notebook_offsets
        notebook = np.searchsorted(borders, cells, side="right") - 1
        parts: list[_Part] = []
        for rank in range(int(cuts.num_following.max(initial=0))):
            idx = cells + 1 + rank
            exists = (idx < borders[notebook + 1]) & (rank < cuts.num_following)
            share = np.full(len(cells), 0.0 if rank else NEIGHBOUR_SHARE)
            parts.append(self._neighbour(idx, exists, chunk, share, is_context=False))
        for rank in range(int(cuts.num_context.max(initial=0))):
            idx = cells - 1 - rank
            exists = (idx >= borders[notebook]) & (rank < cuts.num_context)
            is_markdown = self._arrays.kinds[np.where(exists, idx, cells)] == 0
            share = np.where(is_markdown & (rank == 0), NEIGHBOUR_SHARE, 0.0)
            parts.append(self._neighbour(idx, exists, chunk, share, is_context=True))
        return parts

    @staticmethod
    def _neighbour(
        idx: IntArray,
        exists: BoolArray,
        chunk: _Chunk,
        share: npt.NDArray[np.float64],
        *,
        is_context: bool,
    ) -> _Part:
        local = np.where(exists, idx - chunk.first_cell, 0)
        start, end = chunk.cell_starts[local], chunk.cell_starts[local + 1]
        return _Part(exists, start, end, is_context, share, 1, is_context)


def _skip_blanks(
    tokens: npt.NDArray[np.integer], line_starts: IntArray, has_text: BoolArray
) -> IntArray:
    """Return where each line's text begins; where it has none, the line's end."""
    at = line_starts[:-1].copy()
    open_lines = np.flatnonzero(at < line_starts[1:])
    while len(open_lines):
        open_lines = open_lines[~has_text[tokens[at[open_lines]]]]
        at[open_lines] += 1
        open_lines = open_lines[at[open_lines] < line_starts[open_lines + 1]]
    return at


def _count_comments(chunk: _Chunk, first_line: IntArray, last_line: IntArray) -> IntArray:
    """Lines up to the last comment line that no other line stands before, per target."""
    others = np.append(np.flatnonzero(chunk.is_other_line), len(chunk.line_starts))
    comments = np.flatnonzero(chunk.is_comment_line)
    stop = np.minimum(others[np.searchsorted(others, first_line)], last_line)
    before = np.searchsorted(comments, stop) - 1
    last_comment = comments[np.maximum(before, 0)] if len(comments) else np.full(len(stop), -1)
    found = (before >= 0) & (last_comment >= first_line)
    return np.where(found, last_comment - first_line + 1, 0)


def _fill(parts: list[_Part], budget: int, line_starts: IntArray) -> IntArray:
    """Share the budget as ``jupyt5.infilling._share_budget`` does; returns the ids granted."""
    granted = [
        np.where(
            part.exists,
            np.minimum(part.end - part.start + part.overhead, (budget * part.share).astype(int)),
            0,
        )
        for part in parts
    ]
    left = budget - np.sum(granted, axis=0)
    total = np.zeros(len(left), np.int64)
    starved = np.zeros(len(left), np.bool_)
    for part, sure in zip(parts, granted, strict=True):
        room = sure + left
        length = _cut_length(part, np.maximum(0, room - part.overhead), line_starts)
        is_whole = length == part.end - part.start
        considered = part.exists & ~(part.is_context & starved & (part.share == 0))
        is_in = considered & ((length > 0) | (is_whole & (room >= part.overhead)))
        taken = np.where(is_in, part.overhead + length, 0)
        total += taken
        left = np.where(considered, room - taken, left)
        if part.is_context:
            starved |= considered & ~is_whole
    return total


def _cut_length(part: _Part, room: IntArray, line_starts: IntArray) -> IntArray:
    inside = np.where(part.share > 0, room, 0)
    if part.keep_tail:
        cut = line_starts[np.searchsorted(line_starts, part.end - room)]
        at_line = np.where(cut < part.end, part.end - cut, inside)
    else:
        cut = line_starts[np.searchsorted(line_starts, part.start + room, side="right") - 1]
        at_line = np.where(cut > part.start, cut - part.start, inside)
    whole = part.end - part.start
    return np.where(whole <= room, whole, at_line)
