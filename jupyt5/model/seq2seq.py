# pyright: basic
"""The torch side of a checkpoint: build, save and load a BART model."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import BartConfig, BartForConditionalGeneration
from transformers.utils import logging as transformers_logging

from jupyt5.errors import CheckpointError
from jupyt5.infilling import SpecialIds
from jupyt5.model.presets import ModelShape, bart_config

__all__ = ["build_model", "load_model", "save_model"]

# Its bars would run through ours.
transformers_logging.disable_progress_bar()


def build_model(
    shape: ModelShape, special: SpecialIds, *, seed: int
) -> BartForConditionalGeneration:
    """Build a model with random weights, drawn from ``seed``.

    BART's own initialisation: normal(0, 0.02) for every matrix, zero biases.
    """
    fields = bart_config(shape, pad=special.pad, bos=special.bos, eos=special.eos)
    config = BartConfig(**fields)  # pyright: ignore[reportArgumentType]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BartForConditionalGeneration(config)


def save_model(model: BartForConditionalGeneration, folder: Path) -> None:
    """Write ``config.json``, ``generation_config.json`` and ``model.safetensors``."""
    model.save_pretrained(folder)


def load_model(folder: Path) -> BartForConditionalGeneration:
    """Load a checkpoint folder's weights, from safetensors only.

    Raises:
        CheckpointError: If the folder is incomplete or its weights do not fit its config.
    """
    if not (folder / "model.safetensors").is_file():
        message = f"{folder} has no model.safetensors. Give a checkpoint folder with weights."
        raise CheckpointError(message)
    try:
        return BartForConditionalGeneration.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as exc:
        message = f"{folder} cannot be loaded: {exc}. Export or copy the checkpoint again."
        raise CheckpointError(message) from exc
