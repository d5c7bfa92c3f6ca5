# pyright: basic
"""fairseq's ``model.pt``: its settings, and its tensors under the names of ``BartModel``.

fairseq itself is never imported. What it has called tensors over the years is from its own
upgrade of old state dicts: ``in_proj_weight`` held queries, keys and values, ``layer_norms.N``
the norms of a block, and ``emb_layer_norm`` that of the embeddings.
"""

import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import torch

from jupyt5.errors import CheckpointError
from jupyt5.model.imports.parents import ParentModel, ParentSettings
from jupyt5.model.imports.reading import load_pickle, require_tensors

__all__ = ["read_fairseq"]

# fairseq's "accurate" gelu is the one by tanh.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
    "relu": "relu",
    "tanh": "tanh",
}
_WRAPPERS = ("module.", "model.", "bart.", "generator.")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_VERSION = re.compile(r"(?:encoder|decoder)\.version|.*\._float_tensor")
# Since 0.12 encoder layers store these beside the real ones, zero after training: fairseq fills
# them from the real ones at loading, for torch's fused inference.
_FUSED = re.compile(r"encoder\.layers\.\d+\.(?:in_proj|out_proj|fc1|fc2)_(?:weight|bias)")
_SHARED = "shared.weight"
# The same table under every name that fairseq stores it by.
_TABLES = (
    "decoder.embed_tokens.weight",
    "encoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)


def read_fairseq(path: Path, *, heads: int | None = None) -> ParentModel:
    """Read a fairseq BART checkpoint.

    Args:
        path: The ``.pt`` file.
        heads: Attention heads, for a checkpoint that has lost its settings.

    Raises:
        CheckpointError: If the file is damaged, hostile, or no BART model that JuPyT5 can run.
    """
    content = load_pickle(path)
    if not isinstance(content, Mapping):
        message = f"{path} holds a {type(content).__name__}, not a fairseq checkpoint."
        raise CheckpointError(message)
    is_whole = isinstance(content.get("model"), Mapping)
    state = require_tensors(content["model"] if is_whole else content, path)
    settings = _read_settings(content if is_whole else {}, heads, path)
    tensors, notes = _rename(state, path)
    return ParentModel(tensors=tensors, settings=settings, notes=notes)


def _read_settings(content: Mapping, heads: int | None, path: Path) -> ParentSettings:
    """Read ``args`` (fairseq before 0.10) and ``cfg.model`` (since), either as written."""
    fields: dict[str, object] = {}
    config = content.get("cfg")
    model = _as_fields(config).get("model") if config is not None else None
    for holder in (content.get("args"), model):
        fields |= _as_fields(holder)
    for side in ("encoder", "decoder"):  # newer fairseq nests what was `encoder_…`
        nested = _as_fields(fields.get(side))
        fields = {f"{side}_{name}": value for name, value in nested.items()} | fields
    if fields.get("encoder_normalize_before") or fields.get("decoder_normalize_before"):
        message = f"{path} normalises before each block (normalize_before), which BART does not."
        raise CheckpointError(message)
    activation = str(fields.get("activation_fn", "gelu"))
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        message = f"{path} uses the activation {activation!r}. Known are {known}."
        raise CheckpointError(message)
    try:
        encoder_heads = int(heads or fields["encoder_attention_heads"])  # type: ignore[arg-type]
        decoder_heads = int(heads or fields["decoder_attention_heads"])  # type: ignore[arg-type]
        dropout = float(fields.get("dropout", 0.1))  # type: ignore[arg-type]
    except KeyError as exc:
        message = f"{path} does not say {exc.args[0]}, and tensors do not show it. Give --heads N."
        raise CheckpointError(message) from exc
    except (TypeError, ValueError, ArithmeticError) as exc:
        message = (
            f"{path} has settings that cannot be read: {exc}. Give --heads N, or copy it again."
        )
        raise CheckpointError(message) from exc
    return ParentSettings(
        encoder_heads=encoder_heads,
        decoder_heads=decoder_heads,
        activation=_ACTIVATIONS[activation],
        scale_embedding=not fields.get("no_scale_embedding", True),
        dropout=dropout,
    )


def _as_fields(holder: object) -> dict[str, object]:
    """Return settings as a dictionary; what is neither plain nor nested is none of them."""
    if isinstance(holder, Namespace):
        holder = vars(holder)
    if not isinstance(holder, Mapping):
        return {}
    plain = (str, int, float, Namespace, Mapping)
    return {str(k): v for k, v in holder.items() if isinstance(v, plain)}


def _rename(
    state: Mapping[str, torch.Tensor], path: Path
) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Bring a state dict under today's names; what is no part of the model is left out."""
    tensors: dict[str, torch.Tensor] = {}
    left_out: list[str] = []
    for old_name, tensor in state.items():
        name = _strip(old_name)
        if _VERSION.fullmatch(name) or _FUSED.fullmatch(name):
            continue
        if not name.startswith(("encoder.", "decoder.")):
            left_out.append(old_name)
            continue
        for new_name, part in _upgrade(name, tensor, path):
            tensors[new_name] = part
    _share_table(tensors, path)
    notes = (f"Left out, no part of the model: {', '.join(sorted(left_out))}.",) if left_out else ()
    return tensors, notes


def _strip(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.partition(".")[2]
    return name


def _upgrade(name: str, tensor: torch.Tensor, path: Path) -> list[tuple[str, torch.Tensor]]:
    """Return today's name of a tensor, or three names for the three parts of a fused one."""
    name = name.replace("emb_layer_norm.", "layernorm_embedding.")
    found = re.fullmatch(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.(\d)\.(\w+)", name)
    if found and int(found[3]) < len(_NORMS[found[2]]):
        return [(f"{found[1]}.{_NORMS[found[2]][int(found[3])]}.{found[4]}", tensor)]
    found = re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name)
    if not found:
        return [(name, tensor)]
    if tensor.ndim == 0 or tensor.shape[0] % 3:
        message = f"{path}: {name} is {tuple(tensor.shape)}, not three parts. Copy it again."
        raise CheckpointError(message)
    parts = zip("qkv", tensor.chunk(3), strict=True)
    return [(f"{found[1]}.{letter}_proj.{found[2]}", part) for letter, part in parts]


def _share_table(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Keep the embedding table once, as ``shared.weight``; untied tables are refused."""
    stored = {name: tensors.pop(name) for name in _TABLES if name in tensors}
    if not stored or any(table.ndim != 2 for table in stored.values()):
        message = f"{path} has no embedding table ({_TABLES[0]}). Is it a BART encoder-decoder?"
        raise CheckpointError(message)
    first_name, first = next(iter(stored.items()))
    for name, table in stored.items():
        if not torch.equal(first, table):
            message = (
                f"{path}: {name} differs from {first_name}. BART shares one table among encoder, "
                "decoder and output, and so do JuPyT5's models: this one cannot be imported."
            )
            raise CheckpointError(message)
    tensors[_SHARED] = first
