# pyright: basic
"""The way back from a CTranslate2 folder to a torch model, so that training can start from one.

``model.bin`` (format 6) is a list of named arrays, little-endian: name, rank, sizes, number of the
type, number of bytes, the bytes; then a list of names that stand for other names. An int8 matrix
has beside it, as ``…_scale``, 127 over the largest magnitude of each row.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartForConditionalGeneration

from jupyt5.errors import CheckpointError
from jupyt5.model.checkpoint import TOKENIZER_NAME
from jupyt5.model.presets import ModelShape
from jupyt5.model.seq2seq import build_model
from jupyt5.tokenizer import Tokenizer

__all__ = ["load_exported_model", "read_arrays"]

_FORMAT = 6
_SPEC = "TransformerSpec"
_DTYPES = ("<f4", "i1", "<i2", "<i4", "<f2")
_GELU = 3  # ctranslate2.specs.common_spec.Activation.GELU
_POSITION_OFFSET = 2  # BART's first two positions are never used, and left out

Array = npt.NDArray[np.generic]


def load_exported_model(folder: Path) -> BartForConditionalGeneration:
    """Build a torch model with the weights of a CTranslate2 folder, as it decodes with them.

    Args:
        folder: As written by ``export_ctranslate2``.

    Raises:
        CheckpointError: If the folder is incomplete, damaged, or not of such a model.
    """
    path = folder / "model.bin"
    tokenizer = Tokenizer.load(folder / TOKENIZER_NAME)
    try:
        arrays = read_arrays(path.read_bytes())
        shape = _find_shape(arrays)
        model = build_model(shape, tokenizer.special, seed=0)
        state = {**model.state_dict(), **_rename(arrays, shape)}
        model.load_state_dict(state)
    except (OSError, struct.error, ValueError, KeyError, RuntimeError) as exc:
        message = f"{path} cannot be read back: {exc}. Export the checkpoint again."
        raise CheckpointError(message) from exc
    return model


def read_arrays(content: bytes) -> dict[str, Array]:
    """Return the arrays of a ``model.bin``, int8 matrices as the float32 ones they stand for.

    Raises:
        ValueError: If it is of another format, or cut off.
    """
    reader = _Reader(content)
    version, spec = reader.number("<I"), reader.text()
    if (version, spec) != (_FORMAT, _SPEC):
        raise ValueError(f"it is {spec} in format {version}, not {_SPEC} in format {_FORMAT}")
    reader.number("<I")  # revision of the spec; what is needed is found by name
    arrays: dict[str, Array] = {}
    for _ in range(reader.number("<I")):
        name = reader.text()
        arrays[name] = reader.array()
    for _ in range(reader.number("<I")):
        name = reader.text()
        arrays[name] = arrays[reader.text()]
    return {name: _dequantise(name, arrays) for name in arrays if not name.endswith("_scale")}


@dataclass(slots=True)
class _Reader:
    content: bytes
    position: int = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.content, self.position)
        self.position += struct.calcsize(form)
        return value

    def text(self) -> str:
        return self.take(self.number("<H"))[:-1].decode()  # a zero ends it

    def array(self) -> Array:
        sizes = [self.number("<I") for _ in range(self.number("<B"))]
        type_idx = self.number("<B")
        if type_idx >= len(_DTYPES):
            raise ValueError(f"an array is of the unknown type {type_idx}")
        return np.frombuffer(self.take(self.number("<I")), _DTYPES[type_idx]).reshape(sizes)

    def take(self, num_bytes: int) -> bytes:
        piece = self.content[self.position : self.position + num_bytes]
        if len(piece) < num_bytes:
            raise ValueError("it ends in the middle")
        self.position += num_bytes
        return piece


def _dequantise(name: str, arrays: dict[str, Array]) -> Array:
    array, scale = arrays[name], arrays.get(f"{name}_scale")
    if scale is None:
        return array
    return np.divide(array, scale[:, None], dtype=np.float32)  # pyright: ignore


def _find_shape(arrays: dict[str, Array]) -> ModelShape:
    for part in ("encoder", "decoder"):
        if int(arrays[f"{part}/pre_norm"]) or int(arrays[f"{part}/activation"]) != _GELU:
            raise ValueError("it is no BART model with GELU and norms after the blocks")
    embeddings = arrays["decoder/embeddings/weight"]
    return ModelShape(
        d_model=embeddings.shape[1],
        encoder_layers=_count_layers(arrays, "encoder"),
        decoder_layers=_count_layers(arrays, "decoder"),
        num_heads=int(arrays["encoder/num_heads"]),
        ffn_dim=arrays["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        max_positions=arrays["encoder/position_encodings/encodings"].shape[0],
        vocab_size=embeddings.shape[0],
        dropout=0.0,
    )


def _count_layers(arrays: dict[str, Array], part: str) -> int:
    return len({name.split("/")[1] for name in arrays if name.startswith(f"{part}/layer_")})


def _rename(arrays: dict[str, Array], shape: ModelShape) -> dict[str, torch.Tensor]:
    """Return the weights under the names that transformers has for them."""
    found: dict[str, Array] = {}
    embeddings = arrays["decoder/embeddings/weight"]
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        found[f"{name}.weight"] = embeddings
    found["lm_head.weight"] = embeddings
    for part, num_layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers)):
        positions = arrays[f"{part}/position_encodings/encodings"]
        padded = np.zeros((len(positions) + _POSITION_OFFSET, shape.d_model), np.float32)
        padded[_POSITION_OFFSET:] = positions
        found[f"model.{part}.embed_positions.weight"] = padded
        _put_norm(found, f"model.{part}.layernorm_embedding", arrays, f"{part}/layernorm_embedding")
        for idx in range(num_layers):
            _put_layer(found, f"model.{part}.layers.{idx}.", arrays, f"{part}/layer_{idx}/")
    return {name: torch.from_numpy(np.array(array, np.float32)) for name, array in found.items()}


def _put_layer(found: dict[str, Array], to: str, arrays: dict[str, Array], at: str) -> None:
    _put_parts(found, f"{to}self_attn", "qkv", arrays, f"{at}self_attention/linear_0")
    _put_linear(found, f"{to}self_attn.out_proj", arrays, f"{at}self_attention/linear_1")
    _put_norm(found, f"{to}self_attn_layer_norm", arrays, f"{at}self_attention/layer_norm")
    if f"{at}attention/linear_0/weight" in arrays:  # the decoder's, over the source
        _put_parts(found, f"{to}encoder_attn", "q", arrays, f"{at}attention/linear_0")
        _put_parts(found, f"{to}encoder_attn", "kv", arrays, f"{at}attention/linear_1")
        _put_linear(found, f"{to}encoder_attn.out_proj", arrays, f"{at}attention/linear_2")
        _put_norm(found, f"{to}encoder_attn_layer_norm", arrays, f"{at}attention/layer_norm")
    _put_linear(found, f"{to}fc1", arrays, f"{at}ffn/linear_0")
    _put_linear(found, f"{to}fc2", arrays, f"{at}ffn/linear_1")
    _put_norm(found, f"{to}final_layer_norm", arrays, f"{at}ffn/layer_norm")


def _put_parts(
    found: dict[str, Array], to: str, parts: str, arrays: dict[str, Array], at: str
) -> None:
    """Take matrices apart that were joined row by row."""
    for field in ("weight", "bias"):
        for part, array in zip(parts, np.split(arrays[f"{at}/{field}"], len(parts)), strict=True):
            found[f"{to}.{part}_proj.{field}"] = array


def _put_linear(found: dict[str, Array], to: str, arrays: dict[str, Array], at: str) -> None:
    found[f"{to}.weight"], found[f"{to}.bias"] = arrays[f"{at}/weight"], arrays[f"{at}/bias"]


def _put_norm(found: dict[str, Array], to: str, arrays: dict[str, Array], at: str) -> None:
    found[f"{to}.weight"], found[f"{to}.bias"] = arrays[f"{at}/gamma"], arrays[f"{at}/beta"]
