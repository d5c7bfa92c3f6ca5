# pyright: basic
"""The model a run starts from: random weights, or those of a checkpoint folder."""

import logging
from collections.abc import Mapping
from pathlib import Path

from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import TOKENIZER_NAME, read_meta
from jupyt5.model.seq2seq import build_model, load_model
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.recipes import Recipe

__all__ = ["initial_model"]

logger = logging.getLogger(__name__)


def initial_model(
    recipe: Recipe, tokenizer: Tokenizer, parent: Path | None
) -> tuple[BartForConditionalGeneration, tuple[Mapping[str, str], ...]]:
    """Build the recipe's model; with ``parent``, take over the weights of that folder.

    Args:
        recipe: Sizes and seed.
        tokenizer: Of the prepared data.
        parent: A checkpoint folder with torch weights, e.g. ``RUN/model``.

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
    old = load_model(parent)
    try:
        model.load_state_dict(old.state_dict())
    except RuntimeError as exc:
        message = (
            f"The weights of {parent} do not fit the recipe's model: {exc}. Set the same sizes, "
            f"e.g. --set model.d_model={old.config.d_model}."
        )
        raise TrainingError(message) from exc
    sha256 = sha256_file(parent / "model.safetensors")
    logger.info("starting from %s (%s, sha256 %s)", parent, meta.name, sha256[:12])
    return model, ({"name": meta.name, "sha256": sha256}, *meta.parents)
