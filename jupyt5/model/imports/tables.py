# pyright: basic
"""New embedding and position tables from a parent's rows."""

import torch

from jupyt5.errors import UsageError
from jupyt5.model.imports.parents import (
    POSITION_OFFSET,
    ParentModel,
    count_positions,
    require_plain,
)
from jupyt5.model.imports.vocabulary import RowPlan

__all__ = ["replant"]

_POSITIONS = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")


def replant(parent: ParentModel, plan: RowPlan, positions: int | None) -> ParentModel:
    """Return a model with the tables of another vocabulary and length.

    Args:
        parent: The model as read.
        plan: For each new row the old rows it is the mean of.
        positions: Longest source and target; None keeps the longer of the parent's two tables.

    Raises:
        UsageError: If ``positions`` is less than the parent has.
        CheckpointError: If the parent has no learned positions, or tensors of another kind.
    """
    require_plain(parent)
    old_positions = count_positions(parent.tensors)
    wanted = positions or old_positions
    if wanted < old_positions:
        message = f"--positions {wanted} is less than the checkpoint's {old_positions}."
        raise UsageError(message)
    tensors = dict(parent.tensors)
    tensors["shared.weight"] = mix_rows(tensors["shared.weight"], plan)
    if "final_logits_bias" in tensors:
        bias_V1 = tensors["final_logits_bias"].reshape(-1, 1)
        tensors["final_logits_bias"] = mix_rows(bias_V1, plan).reshape(1, -1)
    for name in _POSITIONS:
        tensors[name] = extend_positions(tensors[name], wanted)
    return ParentModel(tensors=tensors, settings=parent.settings, notes=parent.notes)


def mix_rows(table_VD: torch.Tensor, plan: RowPlan) -> torch.Tensor:
    """Return a table whose rows are single old rows, bit for bit, or means of several."""
    first = torch.tensor([row[0] for row in plan])
    mixed_ND = table_VD.float()[first]
    for idx, row in enumerate(plan):
        if len(row) > 1:
            mixed_ND[idx] = table_VD[list(row)].float().mean(dim=0)
    return mixed_ND


def extend_positions(table_PD: torch.Tensor, positions: int) -> torch.Tensor:
    """Return a longer table: the old positions again from the first one on.

    Longformer's way to lengthen a learned table (Beltagy et al. 2020, section 5): local order
    stays what the model has learnt, only the seams are new.
    """
    head_2D, body_PD = table_PD[:POSITION_OFFSET], table_PD[POSITION_OFFSET:]
    again = torch.arange(positions) % body_PD.shape[0]
    return torch.cat([head_2D, body_PD[again]]).float()
