# pyright: basic
"""What an imported model is before it is one of ours: tensors under one naming, and settings.

Both families name the blocks' tensors alike. Here the embedding is ``shared.weight``, everything
else as in ``BartModel``: ``encoder.embed_positions.weight``, ``decoder.layers.0.fc1.weight`` …
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from transformers import BartConfig, BartForConditionalGeneration
from transformers.activations import ACT2FN

from jupyt5.errors import CheckpointError
from jupyt5.infilling import SpecialIds
from jupyt5.model.presets import ModelShape, bart_config

__all__ = [
    "POSITION_OFFSET",
    "ParentModel",
    "ParentSettings",
    "build_bart",
    "count_positions",
    "read_shape",
    "require_plain",
]

# Both fairseq (padding index + 1) and transformers keep two unused rows before position 0.
POSITION_OFFSET = 2
_MAX_NAMED = 5
_TABLES = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentSettings:
    """What cannot be read off the tensors.

    Attributes:
        encoder_heads: Attention heads of the encoder.
        decoder_heads: Attention heads of the decoder.
        activation: transformers' name of the activation function.
        scale_embedding: Whether embeddings are multiplied by the root of ``d_model``.
        dropout: Probability, on residual branches and embeddings.
    """

    encoder_heads: int
    decoder_heads: int
    activation: str = "gelu"
    scale_embedding: bool = False
    dropout: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentModel:
    """A model as read.

    Attributes:
        tensors: By name, as this module spells them.
        settings: What the tensors do not say.
        notes: What was left out or renamed, one sentence each.
    """

    tensors: Mapping[str, torch.Tensor]
    settings: ParentSettings
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the embedding table."""
        return int(self.tensors["shared.weight"].shape[0])


def read_shape(parent: ParentModel, *, rows: int, positions: int) -> ModelShape:
    """Return the sizes of a model, read from its tensors.

    Args:
        parent: The model.
        rows: Rows that the embedding table shall have.
        positions: Longest source and target.

    Raises:
        CheckpointError: If a tensor is missing, or the heads do not divide the width.
    """
    tensors, settings = parent.tensors, parent.settings
    needed = ("encoder.layers.0.fc1.weight", "decoder.layers.0.fc1.weight")
    for name in needed:
        if name not in tensors or tensors[name].ndim != 2:
            message = f"The checkpoint has no matrix {name}. Is it a BART encoder-decoder?"
            raise CheckpointError(message)
    d_model = int(tensors["shared.weight"].shape[1])
    for heads in (settings.encoder_heads, settings.decoder_heads):
        if heads < 1 or d_model % heads:
            message = f"{heads} attention heads do not divide the width {d_model}. Check --heads."
            raise CheckpointError(message)
    return ModelShape(
        d_model=d_model,
        encoder_layers=_count_layers(tensors, "encoder"),
        decoder_layers=_count_layers(tensors, "decoder"),
        num_heads=settings.encoder_heads,
        ffn_dim=int(tensors[needed[0]].shape[0]),
        max_positions=positions,
        vocab_size=rows,
        dropout=settings.dropout,
    )


def count_positions(tensors: Mapping[str, torch.Tensor]) -> int:
    """Return the longer of the two position tables, without their unused rows.

    Raises:
        CheckpointError: If there is no learned table.
    """
    for name in _TABLES:
        if name not in tensors:
            message = (
                f"The checkpoint has no {name}: its positions are not learned, and only BART's "
                "learned ones can be imported."
            )
            raise CheckpointError(message)
        if tensors[name].ndim != 2 or tensors[name].shape[0] <= POSITION_OFFSET:
            message = f"{name} is {tuple(tensors[name].shape)}, no table of positions."
            raise CheckpointError(message)
    return max(int(tensors[name].shape[0]) for name in _TABLES) - POSITION_OFFSET


def require_plain(parent: ParentModel) -> None:
    """Refuse what no BART model has, before anything is computed or built from it.

    Raises:
        CheckpointError: If a tensor is not dense and of real numbers, the bias of the logits is
            of another length than the table, or a setting is impossible.
    """
    for name, tensor in parent.tensors.items():
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            message = f"{name} is {tensor.dtype}, {tensor.layout}. Import the model unquantised."
            raise CheckpointError(message)
    bias = parent.tensors.get("final_logits_bias")
    if bias is not None and bias.numel() != parent.rows:
        message = f"final_logits_bias has {bias.numel()} values for {parent.rows} rows."
        raise CheckpointError(message)
    if parent.settings.activation not in ACT2FN:
        message = f"The activation {parent.settings.activation!r} is unknown to transformers."
        raise CheckpointError(message)
    if not 0 <= parent.settings.dropout < 1:
        message = f"The dropout {parent.settings.dropout} is no probability below 1."
        raise CheckpointError(message)


def build_bart(
    parent: ParentModel, special: SpecialIds, *, rows: int, positions: int
) -> BartForConditionalGeneration:
    """Build a transformers model that holds a parent's tensors, in float32.

    Raises:
        CheckpointError: If tensors are missing, too many, of another shape, or not finite.
    """
    shape = read_shape(parent, rows=rows, positions=positions)
    fields = bart_config(shape, pad=special.pad, bos=special.bos, eos=special.eos)
    fields["decoder_attention_heads"] = parent.settings.decoder_heads
    fields["decoder_ffn_dim"] = int(parent.tensors["decoder.layers.0.fc1.weight"].shape[0])
    fields["activation_function"] = parent.settings.activation
    fields["scale_embedding"] = parent.settings.scale_embedding
    config = BartConfig(**fields)  # pyright: ignore[reportArgumentType]
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are all replaced
        model = BartForConditionalGeneration(config)
    state = {name: tensor.float() for name, tensor in parent.tensors.items()}
    _require_finite(state)
    bias = state.pop("final_logits_bias", None)
    table = state["shared.weight"]
    state |= {"encoder.embed_tokens.weight": table, "decoder.embed_tokens.weight": table}
    _require_fit(state, cast("Mapping[str, torch.Tensor]", model.model.state_dict()))
    model.model.load_state_dict(state)
    model.tie_weights()
    if bias is not None:
        model.final_logits_bias.copy_(bias.reshape(1, -1))
    return model.eval()


def _count_layers(tensors: Mapping[str, torch.Tensor], side: str) -> int:
    pattern = re.compile(rf"{side}\.layers\.(\d+)\.")
    numbers = {int(found[1]) for name in tensors if (found := pattern.match(name))}
    if numbers != set(range(len(numbers))):
        message = f"The {side} has layers {sorted(numbers)[:_MAX_NAMED]} …: some are missing."
        raise CheckpointError(message)
    return len(numbers)


def _require_finite(state: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            message = f"{name} holds values that are not finite. Take an earlier checkpoint."
            raise CheckpointError(message)


def _require_fit(state: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    wrong = [f"{name} is missing" for name in expected if name not in state]
    wrong += [f"{name} is unknown" for name in state if name not in expected]
    wrong += [
        f"{name} is {tuple(tensor.shape)}, not {tuple(expected[name].shape)}"
        for name, tensor in state.items()
        if name in expected and tensor.shape != expected[name].shape
    ]
    if wrong:
        more = f" and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        message = (
            f"The checkpoint is no BART model as JuPyT5 runs it: {'; '.join(wrong[:_MAX_NAMED])}"
            f"{more}. BART has layer normalisation after each block and after the embeddings."
        )
        raise CheckpointError(message)
