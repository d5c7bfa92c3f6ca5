# pyright: basic
"""BART as two graphs for onnxruntime: an encoder that runs once, and a decoder of a few ids a call.

The encoder ends in the cross-attention keys and values of all decoder layers, so that whoever
holds them never needs the source again. The decoder takes the keys and values of the ids before;
its rows are hypotheses, which share one source: their queries look at it in one product.
Embeddings stay outside, as tables. B hypotheses, T ids, S source ids, D width, H heads.
"""

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import BartForConditionalGeneration

from jupyt5.model.onnx_engine import DECODER_NAME, ENCODER_NAME, NUM_TOP, TABLES_NAME
from jupyt5.tokenizer import Tokenizer

__all__ = ["DecoderGraph", "EncoderGraph", "write_graphs"]

# Ids that share one scale in the decoder's int8 matrices: 64 was the fastest of 32, 64 and 256.
_BLOCK_SIZE = 64
_DYNAMIC = torch.export.Dim.DYNAMIC


class EncoderGraph(nn.Module):
    """From embedded ids to each decoder layer's cross-attention keys and values."""

    def __init__(self, model: BartForConditionalGeneration) -> None:
        super().__init__()
        encoder = model.model.encoder
        self._norm = encoder.layernorm_embedding
        self._layers: Any = encoder.layers
        self._qkv: Any = nn.ModuleList(_self_projection(layer) for layer in self._layers)
        layers: Any = model.model.decoder.layers
        cross = [layer.encoder_attn for layer in layers]
        self._heads = cross[0].num_heads
        self._cross = _join([part for attn in cross for part in (attn.k_proj, attn.v_proj)])

    def forward(self, embedded_1SD: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return keys (1, H, D/H, S) and values (1, H, S, D/H), layer by layer."""
        x = self._norm(embedded_1SD)
        for layer, qkv in zip(self._layers, self._qkv, strict=True):
            q, k, v = (_split(part, layer.self_attn.num_heads) for part in qkv(x).chunk(3, -1))
            mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
            x = layer.self_attn_layer_norm(x + layer.self_attn.out_proj(_merge(mixed)))
            x = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
        parts = self._cross(x).split(x.shape[-1], -1)
        order = ((0, 2, 3, 1), (0, 2, 1, 3))
        return tuple(
            part.unflatten(-1, (self._heads, -1)).permute(order[idx % 2]).contiguous()
            for idx, part in enumerate(parts)
        )


class DecoderGraph(nn.Module):
    """From embedded ids, and keys and values of what came before, to the next ids' logits."""

    def __init__(self, model: BartForConditionalGeneration, banned_ids: Sequence[int]) -> None:
        super().__init__()
        decoder = model.model.decoder
        self._norm = decoder.layernorm_embedding
        self._layers: Any = decoder.layers
        self._qkv: Any = nn.ModuleList(_self_projection(layer) for layer in self._layers)
        attention = [layer.encoder_attn for layer in self._layers]
        self._cross_q: Any = nn.ModuleList(
            _join([attn.q_proj], first_scale=attn.head_dim**-0.5) for attn in attention
        )
        rows, width = model.lm_head.weight.shape
        bias_V = model.final_logits_bias[0].clone()
        bias_V[list(banned_ids)] = -torch.inf
        self._head = nn.Linear(width, rows)
        self._head.weight, self._head.bias = model.lm_head.weight, nn.Parameter(bias_V)
        self._num_top = min(NUM_TOP, rows)

    def forward(
        self,
        embedded_BTD: torch.Tensor,
        mask_11TK: torch.Tensor,
        past: Sequence[torch.Tensor],
        cross: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:
        """Return logits, the best logits with their ids, log-sum-exp, and the longer past."""
        x = self._norm(embedded_BTD)
        rows, length, width = x.shape
        present: list[torch.Tensor] = []
        for idx, layer in enumerate(self._layers):
            heads = layer.self_attn.num_heads
            q, k, v = (_split(part, heads) for part in self._qkv[idx](x).chunk(3, -1))
            k, v = (torch.cat([past[2 * idx + j], new], 2) for j, new in enumerate((k, v)))
            present += [k, v]
            mixed = (q @ k.transpose(-1, -2) + mask_11TK).softmax(-1) @ v
            x = layer.self_attn_layer_norm(x + layer.self_attn.out_proj(_merge(mixed)))
            # All hypotheses' ids are queries of the one source.
            q = _split(self._cross_q[idx](x).reshape(1, rows * length, width), heads)
            mixed = (q @ cross[2 * idx]).softmax(-1) @ cross[2 * idx + 1]
            mixed = mixed.transpose(1, 2).reshape(rows, length, width)
            x = layer.encoder_attn_layer_norm(x + layer.encoder_attn.out_proj(mixed))
            x = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
        logits_BTV = self._head(x)
        top_BTK, ids_BTK = logits_BTV.topk(self._num_top, -1)
        return logits_BTV, top_BTK, ids_BTK, logits_BTV.logsumexp(-1), *present


def write_graphs(
    model: BartForConditionalGeneration, tokenizer: Tokenizer, folder: Path, quantization: str
) -> None:
    """Write both graphs and the tables into a folder.

    Args:
        model: In evaluation mode, on the CPU.
        tokenizer: Its special tokens, and rows beyond its vocabulary, are never generated.
        folder: Where to.
        quantization: ``int8`` or ``float32``.
    """
    rows = model.config.vocab_size
    banned = tokenizer.special_id_set - {tokenizer.special.eos}
    banned_ids = sorted({*banned, *range(tokenizer.vocab_size, rows)})
    is_int8 = quantization == "int8"
    with _quiet(), torch.no_grad():
        _trace_encoder(model, folder / ENCODER_NAME)
        _trace_decoder(model, banned_ids, folder / DECODER_NAME)
        if is_int8:
            _quantise_encoder(folder / ENCODER_NAME)
            _quantise_decoder(folder / DECODER_NAME)
    _write_tables(model, folder / TABLES_NAME, is_int8=is_int8)


def _trace_encoder(model: BartForConditionalGeneration, path: Path) -> None:
    config: Any = model.config
    names = [f"cross_{idx}" for idx in range(2 * config.decoder_layers)]
    torch.onnx.export(
        EncoderGraph(model).eval(),
        (torch.randn(1, 37, config.d_model),),
        path,
        dynamic_shapes=({1: _DYNAMIC},),
        input_names=["embedded"],
        output_names=names,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _trace_decoder(
    model: BartForConditionalGeneration, banned_ids: Sequence[int], path: Path
) -> None:
    config: Any = model.config
    num, heads, width = 2 * config.decoder_layers, config.decoder_attention_heads, config.d_model
    size = width // heads
    past = [torch.randn(3, heads, 5, size) for _ in range(num)]
    shapes = ((1, heads, size, 37), (1, heads, 37, size))
    cross = [torch.randn(shapes[idx % 2]) for idx in range(num)]
    names = ["logits", "top", "top_ids", "log_sum", *(f"present_{idx}" for idx in range(num))]
    inputs = [f"{kind}_{idx}" for kind in ("past", "cross") for idx in range(num)]
    torch.onnx.export(
        DecoderGraph(model, banned_ids).eval(),
        (torch.randn(3, 4, width), torch.zeros(1, 1, 4, 9), past, cross),
        path,
        dynamic_shapes=(
            {0: _DYNAMIC, 1: _DYNAMIC},
            {2: _DYNAMIC, 3: _DYNAMIC},
            [{0: _DYNAMIC, 2: _DYNAMIC}] * num,
            [{3 - idx % 2: _DYNAMIC} for idx in range(num)],
        ),
        input_names=["embedded", "mask", *inputs],
        output_names=names,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _quantise_encoder(path: Path) -> None:
    """Rows of weights get a scale each, activations one a matrix, found at run time."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = path.with_suffix(".float32")
    path.rename(whole)
    quantize_dynamic(
        whole,
        path,
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options={"MatMulConstBOnly": True},
    )
    whole.unlink()


def _quantise_decoder(path: Path) -> None:
    """Weights in blocks, activations row by row: no row of a call changes another's scale."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(
        onnx.load(path), bits=8, block_size=_BLOCK_SIZE, is_symmetric=True, accuracy_level=4
    )
    quantizer.process()
    onnx.save(quantizer.model.model, path)  # pyright: ignore[reportAttributeAccessIssue]


def _write_tables(model: BartForConditionalGeneration, path: Path, *, is_int8: bool) -> None:
    config: Any = model.config
    shared: Any = model.model.shared
    table_VD: np.ndarray = shared.weight.detach().numpy()
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    arrays: dict[str, np.ndarray] = {"start_id": np.array(config.decoder_start_token_id)}
    if is_int8:
        scales_V1 = np.maximum(np.abs(table_VD).max(1, keepdims=True) / 127, 1e-12)
        arrays["ids"] = np.rint(table_VD / scales_V1).astype(np.int8)
        arrays["ids_scale"] = (scales_V1 * scale).astype(np.float32)
    else:
        arrays["ids"] = table_VD
        arrays["ids_scale"] = np.full((len(table_VD), 1), scale, np.float32)
    kind = np.float16 if is_int8 else np.float32
    for side in ("encoder", "decoder"):
        positions = getattr(model.model, side).embed_positions
        # BART's learned positions start at row 2.
        arrays[f"{side}_positions"] = positions.weight.detach().numpy()[2:].astype(kind)
    np.savez(path, allow_pickle=False, **arrays)


def _self_projection(layer: nn.Module) -> nn.Linear:
    attn: Any = layer.self_attn
    # The scale goes into the weights: a product with a factor takes a slower path in onnxruntime.
    return _join([attn.q_proj, attn.k_proj, attn.v_proj], first_scale=attn.head_dim**-0.5)


def _join(parts: Sequence[nn.Linear], *, first_scale: float = 1.0) -> nn.Linear:
    """One linear layer that gives the parts' outputs side by side."""
    scales = [first_scale, *[1.0] * (len(parts) - 1)]
    joined = nn.Linear(parts[0].in_features, sum(part.out_features for part in parts))
    pairs = list(zip(parts, scales, strict=True))
    joined.weight = nn.Parameter(torch.cat([part.weight * scale for part, scale in pairs]))
    joined.bias = nn.Parameter(torch.cat([part.bias * scale for part, scale in pairs]))
    return joined


def _split(x_BTD: torch.Tensor, heads: int) -> torch.Tensor:
    return x_BTD.unflatten(-1, (heads, -1)).transpose(1, 2)


def _merge(x_BHTd: torch.Tensor) -> torch.Tensor:
    return x_BHTd.transpose(1, 2).flatten(2)


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the exporter's and the quantizer's remarks about themselves off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
