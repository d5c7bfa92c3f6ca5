# pyright: basic
"""The model a run starts from: random weights, or those of a checkpoint folder."""

import logging
from collections.abc import Mapping
from pathlib import Path

from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import TOKENIZER_NAME, detect_runtime, read_meta
from jupyt5.model.ct2_weights import load_exported_model
from jupyt5.model.seq2seq import build_model, load_model
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.recipes import Recipe

__all__ = ["initial_model", "load_weights"]

logger = logging.getLogger(__name__)

_WEIGHTS_NAME = {"torch": "model.safetensors", "ctranslate2": "model.bin"}


def initial_model(
    recipe: Recipe, tokenizer: Tokenizer, parent: Path | None
) -> tuple[BartForConditionalGeneration, tuple[Mapping[str, str], ...]]:
    """Build the recipe's model; with ``parent``, take over the weights of that folder.

    Args:
        recipe: Sizes and seed.
        tokenizer: Of the prepared data.
        parent: A checkpoint folder with torch weights, e.g. ``RUN/model``, or one that was exported
            to CTranslate2, as the bundled model is.

    Returns:
        The model and its parents as ``jupyt5.json`` records them, the nearest one first.

    Raises:
        TrainingError: If the folder's tokenizer or sizes are not the run's.
        CheckpointError: If the folder is damaged.
    """
    model = build_model(recipe.model, tokenizer.special, seed=recipe.seed)
    if parent is None:
        return model, ()
    meta = read_meta(parent)
    if Tokenizer.load(parent / TOKENIZER_NAME).tokens != tokenizer.tokens:
        message = (
            f"{parent} has another tokenizer than the prepared data. Prepare them again with "
            f"--tokenizer {parent / TOKENIZER_NAME}."
        )
        raise TrainingError(message)
    old = load_weights(parent)
    try:
        model.load_state_dict(old.state_dict())
    except RuntimeError as exc:
        message = (
            f"The weights of {parent} do not fit the recipe's model: {exc}. Set the same sizes, "
            f"e.g. --set model.d_model={old.config.d_model}."
        )
        raise TrainingError(message) from exc
    sha256 = sha256_file(parent / _WEIGHTS_NAME[detect_runtime(parent)])
    logger.info("starting from %s (%s, sha256 %s)", parent, meta.name, sha256[:12])
    return model, ({"name": meta.name, "sha256": sha256}, *meta.parents)


def load_weights(folder: Path) -> BartForConditionalGeneration:
    """Load a checkpoint folder's model: torch weights, or what CTranslate2 makes of them.

    Raises:
        CheckpointError: If the folder is damaged, or holds ONNX graphs.
    """
    if detect_runtime(folder) == "ctranslate2":
        return load_exported_model(folder)
    return load_model(folder)
