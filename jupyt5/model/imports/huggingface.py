# pyright: basic
"""A Hugging Face folder of BART or PLBART: ``config.json`` and weights."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch

from jupyt5.errors import CheckpointError
from jupyt5.model.imports.parents import ParentModel, ParentSettings
from jupyt5.model.imports.reading import find_weights, load_tensors

__all__ = ["MODEL_TYPES", "read_config", "read_huggingface"]

MODEL_TYPES = ("bart", "plbart")
_SAME_TABLE = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")


def read_config(folder: Path) -> dict[str, object]:
    """Read ``config.json``.

    Raises:
        CheckpointError: If it is missing, damaged, or of another family of models.
    """
    path = folder / "config.json"
    try:
        fields = json.loads(path.read_text("utf-8"))
        model_type = fields["model_type"]
    except FileNotFoundError as exc:
        message = f"{folder} has no config.json. Give the folder of a Hugging Face BART model."
        raise CheckpointError(message) from exc
    except (ValueError, KeyError, TypeError) as exc:
        message = f"{path} is damaged: {exc!r}. Copy the model again."
        raise CheckpointError(message) from exc
    if model_type not in MODEL_TYPES:
        message = f"{path} describes a {model_type!r} model. Known are {', '.join(MODEL_TYPES)}."
        raise CheckpointError(message)
    return cast("dict[str, object]", fields)


def read_huggingface(folder: Path) -> ParentModel:
    """Read a folder's model.

    Raises:
        CheckpointError: If it is incomplete, damaged, hostile, or cannot be run by JuPyT5.
    """
    fields = read_config(folder)
    if fields.get("normalize_before") or fields.get("add_final_layer_norm"):
        message = f"{folder} normalises before each block (normalize_before), which BART does not."
        raise CheckpointError(message)
    if fields.get("tie_word_embeddings") is False:
        message = f"{folder} has an output table of its own; JuPyT5's models share one table."
        raise CheckpointError(message)
    state = load_tensors(find_weights(folder))
    tensors, left_out = _rename(state, folder)
    try:
        settings = ParentSettings(
            encoder_heads=int(cast("int", fields["encoder_attention_heads"])),
            decoder_heads=int(cast("int", fields["decoder_attention_heads"])),
            activation=str(fields.get("activation_function", "gelu")),
            scale_embedding=bool(fields.get("scale_embedding", False)),
            dropout=float(cast("float", fields.get("dropout", 0.1))),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as exc:
        message = f"{folder}/config.json cannot be used: {exc!r}. Copy the model again."
        raise CheckpointError(message) from exc
    notes = (f"Left out, no part of the model: {', '.join(left_out)}.",) if left_out else ()
    return ParentModel(tensors=tensors, settings=settings, notes=notes)


def _rename(
    state: Mapping[str, torch.Tensor], folder: Path
) -> tuple[dict[str, torch.Tensor], list[str]]:
    tensors: dict[str, torch.Tensor] = {}
    left_out: list[str] = []
    for old_name, tensor in state.items():
        name = old_name.removeprefix("model.")
        known = name.startswith(("encoder.", "decoder."))
        if known or name in {"shared.weight", "lm_head.weight", "final_logits_bias"}:
            tensors[name] = tensor
        else:
            left_out.append(old_name)
    copies = {name: tensors.pop(name) for name in _SAME_TABLE if name in tensors}
    if "shared.weight" not in tensors and copies:
        tensors["shared.weight"] = next(iter(copies.values()))
    if "shared.weight" not in tensors or tensors["shared.weight"].ndim != 2:
        message = f"{folder} has no embedding table (shared.weight). Is it a BART model?"
        raise CheckpointError(message)
    for name, table in copies.items():
        if not torch.equal(table, tensors["shared.weight"]):
            message = (
                f"{folder}: {name} differs from shared.weight. JuPyT5's models share one table: "
                "this one cannot be imported."
            )
            raise CheckpointError(message)
    return tensors, sorted(left_out)
