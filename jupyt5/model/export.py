# pyright: basic
"""Export a checkpoint folder to a runtime that needs no torch: onnxruntime or CTranslate2."""

import shutil
from pathlib import Path
from typing import Any

from jupyt5.errors import CheckpointError, UsageError
from jupyt5.files import atomic_folder
from jupyt5.model.checkpoint import META_NAME, TOKENIZER_NAME, read_meta
from jupyt5.tokenizer import Tokenizer

__all__ = ["QUANTIZATIONS", "export_ctranslate2", "export_onnx"]

QUANTIZATIONS = {
    "ctranslate2": ("int8", "float16", "float32"),
    "onnx": ("int8", "float32"),
}
_NEVER = -1e4  # nats; fits float16


def export_ctranslate2(checkpoint_dir: Path, out_dir: Path, quantization: str = "int8") -> None:
    """Convert a checkpoint folder; tokenizer, ``jupyt5.json`` and model card go along.

    Args:
        checkpoint_dir: Folder with ``model.safetensors``, ``config.json``, ``tokenizer.json``.
        out_dir: New folder; appears only when complete.
        quantization: ``int8``, ``float16`` or ``float32``, for the weights on disk.

    Raises:
        UsageError: If the quantization is unknown.
        CheckpointError: If the checkpoint cannot be read or converted.
        FileExistsError: If ``out_dir`` exists.
    """
    _check_quantization("ctranslate2", quantization)
    read_meta(checkpoint_dir)
    spec = _build_spec(checkpoint_dir)
    with atomic_folder(out_dir) as folder:
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(folder))
        _copy_descriptions(checkpoint_dir, folder)


def export_onnx(checkpoint_dir: Path, out_dir: Path, quantization: str = "int8") -> None:
    """Convert a checkpoint folder to two onnxruntime graphs; see ``export_ctranslate2``.

    Args:
        checkpoint_dir: Folder with ``model.safetensors``, ``config.json``, ``tokenizer.json``.
        out_dir: New folder; appears only when complete.
        quantization: ``int8`` or ``float32``.

    Raises:
        UsageError: If the quantization is unknown.
        CheckpointError: If the checkpoint cannot be read.
        FileExistsError: If ``out_dir`` exists.
    """
    from jupyt5.model.onnx_graphs import write_graphs
    from jupyt5.model.seq2seq import load_model

    _check_quantization("onnx", quantization)
    read_meta(checkpoint_dir)
    model = load_model(checkpoint_dir).eval()
    tokenizer = Tokenizer.load(checkpoint_dir / TOKENIZER_NAME)
    with atomic_folder(out_dir) as folder:
        write_graphs(model, tokenizer, folder, quantization)
        _copy_descriptions(checkpoint_dir, folder)


def _check_quantization(runtime: str, quantization: str) -> None:
    known = QUANTIZATIONS[runtime]
    if quantization not in known:
        message = (
            f"{runtime} has no quantization {quantization!r} here. Use one of {', '.join(known)}."
        )
        raise UsageError(message)


def _copy_descriptions(checkpoint_dir: Path, folder: Path) -> None:
    for name in (META_NAME, TOKENIZER_NAME, "README.md"):
        if (checkpoint_dir / name).is_file():
            shutil.copyfile(checkpoint_dir / name, folder / name)


def _build_spec(checkpoint_dir: Path):  # noqa: ANN202 (a CTranslate2 class without types)
    from ctranslate2.converters.transformers import BartLoader

    from jupyt5.model.seq2seq import load_model

    model = load_model(checkpoint_dir)
    heads = (model.config.encoder_attention_heads, model.config.decoder_attention_heads)
    if heads[0] != heads[1]:  # the converter would take the first number for both
        message = (
            f"{checkpoint_dir} has {heads[0]} attention heads in the encoder and {heads[1]} in the "
            "decoder, which CTranslate2 cannot run. Use the folder itself, with torch."
        )
        raise CheckpointError(message)
    tokenizer = Tokenizer.load(checkpoint_dir / TOKENIZER_NAME)
    # Rows that pad the table have no text, so they are never generated.
    model.final_logits_bias[:, tokenizer.vocab_size :] = _NEVER
    loader = BartLoader()
    try:
        spec = loader.get_model_spec(model)
    except (AttributeError, ValueError, KeyError) as exc:
        message = f"{checkpoint_dir} cannot be converted: {exc}. Is it a BART checkpoint?"
        raise CheckpointError(message) from exc
    # A table padded beyond the vocabulary gets placeholder names: one row, one token.
    rows = model.config.vocab_size
    tokens = [*tokenizer.tokens, *(f"<unused{idx}>" for idx in range(tokenizer.vocab_size, rows))]
    spec.register_source_vocabulary(tokens[:rows])
    spec.register_target_vocabulary(tokens[:rows])
    special = tokenizer.special
    config: Any = spec.config
    config.bos_token = tokens[special.bos]
    config.eos_token = tokens[special.eos]
    config.unk_token = "<unk>"
    start_id: Any = model.config.decoder_start_token_id
    config.decoder_start_token = tokens[start_id]
    return spec
