"""Refuses recipes that cannot work, by the names that ``--set`` gives their settings."""

import math

from jupyt5.errors import TrainingError, UsageError
from jupyt5_training.examples import CONTEXT_DRAWS
from jupyt5_training.recipes import OptimizerConfig, Recipe

__all__ = ["check_recipe"]

_CHOICES = {
    "precision": ("float32", "bfloat16", "float16"),
    "parallel": ("ddp", "fsdp"),
    "optimizer.name": ("adamw", "muon"),
    "optimizer.schedule": ("inverse-sqrt", "cosine", "constant"),
    "examples.context_draw": CONTEXT_DRAWS,
}


def check_recipe(recipe: Recipe, *, world_size: int) -> None:
    """Raise if a run cannot have these settings.

    Args:
        recipe: The run; the vocabulary size is that of the data.
        world_size: Ranks of the run.

    Raises:
        UsageError: If a value is out of range, unknown, or does not go with another.
        TrainingError: If an example fits neither the model nor a batch.
    """
    _check_choices(recipe)
    _check_ranges(recipe)
    _check_optimizer(recipe.optimizer)
    _check_ranks(recipe, world_size)
    _check_sizes(recipe)


def _check_choices(recipe: Recipe) -> None:
    for name, known in _CHOICES.items():
        value: object = recipe
        for part in name.split("."):
            value = getattr(value, part)
        if value not in known:
            message = f"{name} = {value!r} is unknown. Use one of {', '.join(known)}."
            raise UsageError(message)


def _check_ranges(recipe: Recipe) -> None:
    formatter, model, guard = recipe.examples.formatter, recipe.model, recipe.guard
    examples = recipe.examples
    checks = {
        "steps": recipe.steps >= 1 or recipe.epochs >= 1,
        "epochs": recipe.epochs >= 0,
        "micro_batches": recipe.micro_batches >= 1,
        "eval_every": recipe.eval_every >= 1,
        "eval_targets": recipe.eval_targets >= 1,
        "eval_decoded": recipe.eval_decoded >= 0,
        "dsp_every": recipe.dsp_every >= 0,
        "dsp_limit": recipe.dsp_limit >= 0,
        "dsp_samples": recipe.dsp_samples >= 1,
        "save_every": recipe.save_every >= 1,
        "keep_checkpoints": recipe.keep_checkpoints >= 1,
        "seed": 0 <= recipe.seed < 1 << 63,
        "num_threads": recipe.num_threads >= 0,
        "markdown_target_rate": 0 <= recipe.markdown_target_rate <= 1,
        "label_smoothing": 0 <= recipe.label_smoothing < 1,
        "ema_decay": 0 <= recipe.ema_decay < 1,
        "guard.window": guard.window >= 2,
        "guard.max_deviations": guard.max_deviations >= 0,
        "guard.max_bad_steps": guard.max_bad_steps >= 0,
        "guard.max_rollbacks": guard.max_rollbacks >= 0,
        "examples.prefix_rate": 0 <= examples.prefix_rate <= 1,
        "examples.suffix_rate": 0 <= examples.suffix_rate <= 1,
        "examples.following_rate": 0 <= examples.following_rate <= 1,
        "examples.test_target_weight": 0 <= examples.test_target_weight < math.inf,
        "examples.formatter.num_context_cells": formatter.num_context_cells >= 0,
        "examples.formatter.num_following_cells": formatter.num_following_cells >= 0,
        "examples.formatter.source_budget_tokens": formatter.source_budget_tokens >= 8,
        "examples.formatter.max_target_tokens": formatter.max_target_tokens >= 1,
        "model.d_model": model.d_model >= 1,
        "model.ffn_dim": model.ffn_dim >= 1,
        "model.encoder_layers": model.encoder_layers >= 1,
        "model.decoder_layers": model.decoder_layers >= 1,
        "model.num_heads": model.num_heads >= 1 and model.d_model % model.num_heads == 0,
        "model.dropout": 0 <= model.dropout < 1,
    }
    _raise_for(checks)


def _check_optimizer(config: OptimizerConfig) -> None:
    _raise_for(
        {
            "optimizer.peak_lr": 0 < config.peak_lr < math.inf,
            "optimizer.muon_lr": 0 < config.muon_lr < math.inf,
            "optimizer.muon_momentum": 0 <= config.muon_momentum < 1,
            "optimizer.beta1": 0 <= config.beta1 < 1,
            "optimizer.beta2": 0 <= config.beta2 < 1,
            "optimizer.eps": 0 < config.eps < math.inf,
            "optimizer.weight_decay": 0 <= config.weight_decay < math.inf,
            "optimizer.max_grad_norm": config.max_grad_norm > 0,
            "optimizer.warmup_steps": config.warmup_steps >= 0,
            "optimizer.cooldown_steps": config.cooldown_steps >= 0,
            "optimizer.decay_every": config.decay_every >= 0,
        }
    )
    if config.schedule == "cosine" and config.cooldown_steps:
        message = "A cosine ends at 0 by itself. Use --set optimizer.cooldown_steps=0 with it."
        raise UsageError(message)
    if config.decay_every and (
        config.schedule != "constant" or not 0 < config.cooldown_steps < config.decay_every
    ):
        message = (
            "optimizer.decay_every is for schedule=constant, with cooldown_steps at least 1 and "
            f"below it. They are {config.schedule} and {config.cooldown_steps}."
        )
        raise UsageError(message)


def _check_ranks(recipe: Recipe, world_size: int) -> None:
    if recipe.micro_batches % world_size:
        message = (
            f"{world_size} ranks cannot share micro_batches = {recipe.micro_batches} evenly. "
            f"Use --set micro_batches={world_size} or a multiple of it."
        )
        raise UsageError(message)
    refused = {
        "optimizer.name=muon": recipe.optimizer.name == "muon",  # needs whole matrices
        "precision=float16": recipe.precision == "float16",  # overflow seen by one rank only
        "compile=true": recipe.compile,
    }
    wrong = [name for name, is_set in refused.items() if is_set]
    if recipe.parallel == "fsdp" and wrong:
        message = f"parallel=fsdp does not go with {', '.join(wrong)}. Use --set parallel=ddp."
        raise UsageError(message)


def _check_sizes(recipe: Recipe) -> None:
    formatter = recipe.examples.formatter
    longest = max(formatter.source_budget_tokens, formatter.max_target_tokens)
    if longest > recipe.model.max_positions:
        message = (
            f"A source or target may have {longest} tokens, but the model has only "
            f"{recipe.model.max_positions} positions. Raise --set model.max_positions."
        )
        raise TrainingError(message)
    smallest = formatter.source_budget_tokens + formatter.max_target_tokens
    if recipe.batch_tokens < smallest:
        message = (
            f"batch_tokens = {recipe.batch_tokens} cannot hold one example of up to {smallest} "
            f"tokens. Use --set batch_tokens={smallest} or more."
        )
        raise TrainingError(message)


def _raise_for(checks: dict[str, bool]) -> None:
    wrong = [name for name, is_fine in checks.items() if not is_fine]
    if wrong:
        message = (
            f"No run can have this value of {', '.join(wrong)}. Correct the --set option; "
            "counts are at least 1, rates lie in [0, 1], num_heads divides d_model."
        )
        raise UsageError(message)
