"""Cell infilling: one plan of what a model sees around a target cell, three ways to say it.

``render_ids`` for our own seq2seq models, ``render_prompt`` for causal and fill-in-the-middle
models, ``render_messages`` for chat models.
"""

from jupyt5.infilling.planning import (
    CONTROL_CODES,
    NEIGHBOUR_SHARE,
    TARGET_SHARE,
    CellView,
    Segment,
    SegmentRole,
    SpecialIds,
    count_left_out,
    plan_example,
    render_ids,
    select_neighbours,
    split_prefix,
)
from jupyt5.infilling.prompts import Message, Prompt, render_messages, render_prompt
from jupyt5.infilling.texts import CellText, measure_cell, measure_target

__all__ = [
    "CONTROL_CODES",
    "NEIGHBOUR_SHARE",
    "TARGET_SHARE",
    "CellText",
    "CellView",
    "Message",
    "Prompt",
    "Segment",
    "SegmentRole",
    "SpecialIds",
    "count_left_out",
    "measure_cell",
    "measure_target",
    "plan_example",
    "render_ids",
    "render_messages",
    "render_prompt",
    "select_neighbours",
    "split_prefix",
]
