"""Cell infilling: the one plan of what a model sees around a target cell.

Planning is pure arithmetic over token counts; it holds no tokenizer. Each cell is tokenised on
its own and the ids are concatenated, never tokenised again, so training (memory-mapped ids) and
inference (live cells) share one plan and get equal ids. The source is::

    <s> CONTROL  [KIND context cell] * C  KIND prefix <mask> suffix  [KIND following cell] * F </s>

CONTROL names the domain of the target, KIND that of each cell (JuPyT5 paper, "Pretraining
dataset"). The paper's settings are C = 1 or 3 with F = 0 (baseline) or 1 (cell infilling).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

__all__ = [
    "CONTROL_CODES",
    "NEIGHBOUR_SHARE",
    "TARGET_SHARE",
    "CellView",
    "Segment",
    "SegmentRole",
    "SpecialIds",
    "count_left_out",
    "plan_example",
    "render_ids",
    "select_neighbours",
    "split_prefix",
]

CONTROL_CODES = ("<markdown>", "<code>", "<comment>", "<docstring>", "<signature>")

SegmentRole = Literal["control", "context", "slot", "prefix", "suffix", "following"]

# The tokenizer takes a run of newlines as one piece, so a cut never falls inside one.
_OPEN_LINE = re.compile(r"(?:\r?\n)+[^\n]*\Z")

# Shares of the budget that are kept for the parts which must never be dropped.
TARGET_SHARE = 0.5
NEIGHBOUR_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class CellView:
    """What planning knows of a cell.

    ``line_ends`` are the token counts up to each line end, rising; the last is the cell's token
    count, and an empty cell has none. ``prefix_lines`` and ``suffix_lines`` matter for the target
    only: so many of its first and last lines stand around the slot instead of in it.
    """

    kind: str
    line_ends: Sequence[int]
    blank: bool = False
    prefix_lines: int = 0
    suffix_lines: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of the whole cell."""
        return int(self.line_ends[-1]) if len(self.line_ends) else 0

    @property
    def prefix_end(self) -> int:
        """Token offset where the prefix ends."""
        return int(self.line_ends[self.prefix_lines - 1]) if self.prefix_lines else 0

    @property
    def suffix_start(self) -> int:
        """Token offset where the suffix starts."""
        num_before = len(self.line_ends) - self.suffix_lines
        if not self.suffix_lines:
            return self.num_tokens
        return int(self.line_ends[num_before - 1]) if num_before > 0 else 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the source: tokens ``start`` to ``end`` of cell ``cell_idx``.

    Both offsets are line ends, unless one line alone is longer than its share of the budget.
    ``control`` and ``slot`` are single tokens and have an empty range.
    """

    role: SegmentRole
    cell_idx: int
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of the special tokens: ``control`` maps ``<code>`` and its like to an id."""

    pad: int
    bos: int
    eos: int
    slot: int
    control: Mapping[str, int]


def plan_example(
    cells: Sequence[CellView],
    target_idx: int,
    *,
    num_context_cells: int = 3,
    num_following_cells: int = 1,
    source_budget_tokens: int,
    skip_blank: bool = True,
) -> tuple[Segment, ...]:
    """Choose the parts of the cells around a target that make its source.

    When the budget is short the farthest context goes first; long cells are cut at line ends
    and keep the part nearest the target; the target's own prefix and suffix, the Markdown
    directly above and the nearest following cell go last.

    Args:
        cells: Views of the notebook's cells, in order.
        target_idx: Index of the target, 0 <= target_idx < len(cells).
        num_context_cells: C, cells before the target.
        num_following_cells: Cells after the target; 0 is the paper's baseline.
        source_budget_tokens: Upper bound for ``len(render_ids(...))``.
        skip_blank: Leave blank and raw cells out before counting; False counts literally (DSP).

    Raises:
        IndexError: If ``target_idx`` is out of range.
    """
    if not 0 <= target_idx < len(cells):
        message = f"target {target_idx} is not one of {len(cells)} cells"
        raise IndexError(message)
    before, after = select_neighbours(
        len(cells),
        target_idx,
        num_context_cells=num_context_cells,
        num_following_cells=num_following_cells,
        is_skipped=lambda idx: skip_blank and _is_skipped(cells[idx]),
    )
    parts = _order_by_need(cells, cells[target_idx], before, after)
    # <s>, control, the target's kind, the slot and </s> are always there.
    lengths = _share_budget(parts, max(0, source_budget_tokens - 5))
    return _lay_out(cells, target_idx, before, after, lengths)


def select_neighbours(
    num_cells: int,
    target_idx: int,
    *,
    num_context_cells: int,
    num_following_cells: int,
    is_skipped: Callable[[int], bool],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the cells around a target, each side from the nearest to the farthest.

    Args:
        num_cells: Cells of the notebook.
        target_idx: Index of the target.
        num_context_cells: Most cells before it.
        num_following_cells: Most cells after it.
        is_skipped: Says of an index that the cell is passed over and does not count.

    Returns:
        (indices before the target, indices after it).
    """

    def take(order: range, count: int) -> tuple[int, ...]:
        return tuple(islice((idx for idx in order if not is_skipped(idx)), count))

    return (
        take(range(target_idx - 1, -1, -1), num_context_cells),
        take(range(target_idx + 1, num_cells), num_following_cells),
    )


def count_left_out(plan: Sequence[Segment], cells: Sequence[CellView]) -> int:
    """Return how many tokens of the cells around the slot a plan had no room for.

    Args:
        plan: From ``plan_example``.
        cells: The cells that it could have shown, no others, with the same indices.
    """
    target_idx = plan[0].cell_idx
    wanted = sum(
        cell.prefix_end + cell.num_tokens - cell.suffix_start
        if idx == target_idx
        else cell.num_tokens
        for idx, cell in enumerate(cells)
    )
    return wanted - sum(segment.end - segment.start for segment in plan)


def render_ids(
    plan: Sequence[Segment],
    cell_ids: Mapping[int, Sequence[int]],
    cell_kinds: Mapping[int, str],
    special: SpecialIds,
) -> list[int]:
    """Turn a plan into the encoder's input ids.

    Args:
        plan: From ``plan_example``.
        cell_ids: Token ids of every cell the plan names.
        cell_kinds: Kind of every cell the plan names.
        special: Ids of the special tokens.

    Returns:
        Ids as in the module's docstring, ``<s>`` first and ``</s>`` last.
    """
    ids = [special.bos]
    target_open = False
    for segment in plan:
        kind_id = _control_id(cell_kinds[segment.cell_idx], special)
        if segment.role == "control":
            ids.append(kind_id)
            continue
        if segment.role in {"context", "following"}:
            ids.append(kind_id)
        elif not target_open:
            ids.append(kind_id)
            target_open = True
        if segment.role == "slot":
            ids.append(special.slot)
        else:
            ids.extend(cell_ids[segment.cell_idx][segment.start : segment.end])
    ids.append(special.eos)
    return ids


def split_prefix(prefix: str) -> tuple[str, str]:
    """Split a target's prefix at the start of the line the cursor is in.

    Returns:
        (whole lines, open line). The whole lines belong in the source; the open line, with the
        newlines before it, is what a decoder must be made to begin with, because training cuts
        only between lines. A comment line counts as whole: comments come first and code follows.
    """
    match = _OPEN_LINE.search(prefix)
    open_line = match.group() if match else prefix
    if open_line.lstrip().startswith("#"):
        return prefix, ""
    return prefix[: len(prefix) - len(open_line)], open_line


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece that wants room: its key, the line lengths nearest first, its sure share."""

    key: tuple[SegmentRole, int]
    line_ends: Sequence[int]
    start: int
    end: int
    keep_tail: bool
    share: float
    overhead: int


def _order_by_need(
    cells: Sequence[CellView], target: CellView, before: Sequence[int], after: Sequence[int]
) -> list[_Part]:
    ends = target.line_ends
    parts = [
        _Part(("prefix", -1), ends, 0, target.prefix_end, True, TARGET_SHARE, 0),
        _Part(
            ("suffix", -1), ends, target.suffix_start, target.num_tokens, False, NEIGHBOUR_SHARE, 0
        ),
    ]
    for rank, idx in enumerate(after):
        share = 0.0 if rank else NEIGHBOUR_SHARE
        cell = cells[idx]
        parts.append(_Part(("following", idx), cell.line_ends, 0, cell.num_tokens, False, share, 1))
    for rank, idx in enumerate(before):
        cell = cells[idx]
        share = NEIGHBOUR_SHARE if rank == 0 and cell.kind == "markdown" else 0.0
        parts.append(_Part(("context", idx), cell.line_ends, 0, cell.num_tokens, True, share, 1))
    return parts


def _share_budget(
    parts: Sequence[_Part], budget: int
) -> dict[tuple[SegmentRole, int], tuple[int, int]]:
    """Give each part a token range: first the sure shares, then the rest in order of need."""
    granted = [
        min(part.end - part.start + part.overhead, int(budget * part.share)) for part in parts
    ]
    left = budget - sum(granted)
    ranges: dict[tuple[SegmentRole, int], tuple[int, int]] = {}
    starved = False
    for position, part in enumerate(parts):
        room = granted[position] + left
        start, end = _cut(part, max(0, room - part.overhead))
        is_whole = end - start == part.end - part.start
        # A farther context cell never gets in where a nearer one was cut.
        if part.key[0] == "context" and starved and not part.share:
            continue
        if end > start or (is_whole and room >= part.overhead):
            ranges[part.key] = (start, end)
            left = room - part.overhead - (end - start)
        else:
            left = room
        starved = starved or (part.key[0] == "context" and not is_whole)
    return ranges


def _cut(part: _Part, room: int) -> tuple[int, int]:
    """Cut a part to ``room`` tokens at a line end; only a sure part is ever cut inside a line."""
    start, end = part.start, part.end
    if end - start <= room:
        return start, end
    inside = room if part.share else 0
    if part.keep_tail:
        cuts = [int(cut) for cut in part.line_ends if start < cut < end and end - cut <= room]
        return (cuts[0] if cuts else end - inside), end
    cuts = [int(cut) for cut in part.line_ends if start < cut < end and cut - start <= room]
    return start, (cuts[-1] if cuts else start + inside)


def _lay_out(
    cells: Sequence[CellView],
    target_idx: int,
    before: Sequence[int],
    after: Sequence[int],
    ranges: Mapping[tuple[SegmentRole, int], tuple[int, int]],
) -> tuple[Segment, ...]:
    segments = [Segment("control", target_idx)]
    for idx in reversed(before):
        if ("context", idx) in ranges:
            segments.append(Segment("context", idx, *ranges["context", idx]))
    if cells[target_idx].prefix_end and ("prefix", -1) in ranges:
        segments.append(Segment("prefix", target_idx, *ranges["prefix", -1]))
    segments.append(Segment("slot", target_idx))
    if cells[target_idx].suffix_lines and ("suffix", -1) in ranges:
        segments.append(Segment("suffix", target_idx, *ranges["suffix", -1]))
    for idx in after:
        if ("following", idx) in ranges:
            segments.append(Segment("following", idx, *ranges["following", idx]))
    return tuple(segments)


def _is_skipped(cell: CellView) -> bool:
    return cell.blank or f"<{cell.kind}>" not in CONTROL_CODES


def _control_id(kind: str, special: SpecialIds) -> int:
    return special.control.get(f"<{kind}>", special.control["<markdown>"])
