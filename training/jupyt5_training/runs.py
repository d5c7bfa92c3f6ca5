# pyright: basic
"""Start or resume a run: from a recipe and prepared data to a model folder."""

import json
import logging
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError, UsageError
from jupyt5.files import sha256_file, write_atomic
from jupyt5.model.checkpoint import CheckpointMeta
from jupyt5_training.arrays import load_arrays, load_data_tokenizer, read_data_info
from jupyt5_training.checkpoints import (
    Progress,
    copy_model,
    find_checkpoints,
    load_training,
)
from jupyt5_training.distributed import PARALLEL_MODES, Ranks, find_device, joined_ranks, spread
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import Feed
from jupyt5_training.loop import Job, train
from jupyt5_training.losses import InfillingLoss
from jupyt5_training.metrics import read_metrics
from jupyt5_training.models import initial_model
from jupyt5_training.optimizers import build_optimizers
from jupyt5_training.precision import PRECISIONS, LossScaler
from jupyt5_training.recipes import Recipe
from jupyt5_training.steps import Stepper

__all__ = ["load_job", "run_recipe", "summarise"]

logger = logging.getLogger(__name__)

# What may differ when a run is resumed: nothing that changes the steps already made.
_FREE_ON_RESUME = ("steps", "eval_every", "save_every", "keep_checkpoints", "num_threads")
_SCHEDULE = "optimizer"


def run_recipe(
    recipe: Recipe, data: Path, out: Path, *, resume: bool, init_from: Path | None = None
) -> dict[str, object]:
    """Train a recipe on prepared data; the result is ``OUT/model``, a checkpoint folder.

    Under ``torchrun`` every rank calls it.

    Args:
        recipe: The run.
        data: Folder made by ``jupyt5-train prepare``.
        out: The run's folder: checkpoints, metrics, loss curve.
        resume: Go on from the newest checkpoint in ``out``, if there is one.
        init_from: A new run starts from the weights of this checkpoint folder.

    Returns:
        The summary, see ``summarise``.

    Raises:
        TrainingError: If the data are unusable, or ``out`` holds another run.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is written.
    """
    if recipe.num_threads:
        torch.set_num_threads(recipe.num_threads)
    with joined_ranks() as ranks:
        checkpoints = find_checkpoints(out)
        if checkpoints and not resume:
            message = (
                f"{out} holds a run already. Continue it with --resume or choose another --out."
            )
            raise TrainingError(message)
        job = load_job(recipe, data, out, ranks=ranks, init_from=init_from)
        if ranks.is_main:
            _check_same_run(job.recipe, data, out, checkpoints[-1] if checkpoints else None)
        ranks.barrier()
        progress = _restore(job, checkpoints, resume=resume)
        if progress.step < recipe.steps:
            train(job, progress)
        if ranks.is_main:
            copy_model(find_checkpoints(out)[-1], out / "model")
        ranks.barrier()
    return summarise(out)


def _restore(job: Job, checkpoints: Sequence[Path], *, resume: bool) -> Progress:
    """Load the newest checkpoint, if there is one."""
    if not checkpoints:
        if resume:
            logger.warning("%s holds no checkpoint; starting at step 0", job.out)
        return Progress()
    progress = load_training(checkpoints[-1], job.model, job.stepper.optimizers[0])
    if progress.step > job.recipe.steps:
        message = (
            f"{job.out} is at step {progress.step} already, past steps={job.recipe.steps}. "
            "Raise --set steps to go on."
        )
        raise TrainingError(message)
    logger.info("resuming after step %d", progress.step)
    return progress


def summarise(out: Path) -> dict[str, object]:
    """Sum a run up from its metrics: steps, ids seen, ids a second, losses at start and end."""
    records = read_metrics(out)
    steps = [record for record in records if "loss" in record]
    validations = [record for record in records if "validation_loss" in record]
    train_s = sum(record["step_s"] for record in steps)
    tokens = sum(record["tokens"] for record in steps)
    return {
        "model": str(out / "model"),
        "curve": str(out / "loss.png"),
        "steps": len(steps),
        "tokens_seen": tokens,
        "target_tokens_seen": sum(record["target_tokens"] for record in steps),
        "tokens_per_s": round(tokens / train_s, 1) if train_s else None,
        "pad_fraction": float(np.mean([record["pad_fraction"] for record in steps]).round(4)),
        "validation_loss_start": validations[0]["validation_loss"] if validations else None,
        "validation_loss_end": validations[-1]["validation_loss"] if validations else None,
        "validation_code_loss_end": (
            validations[-1].get("validation_code_loss") if validations else None
        ),
    }


def load_job(
    recipe: Recipe, data: Path, out: Path, *, ranks: Ranks, init_from: Path | None = None
) -> Job:
    """Open the data and build model, optimizers and feed for a run.

    Raises:
        TrainingError: If data, recipe and the weights to start from do not fit each other.
        UsageError: If the recipe holds a value that no run can have.
    """
    info = read_data_info(data)
    tokenizer = load_data_tokenizer(data)
    recipe = replace(recipe, model=replace(recipe.model, vocab_size=tokenizer.vocab_size))
    _check_recipe(recipe)
    if recipe.micro_batches % ranks.world_size:
        message = (
            f"{ranks.world_size} ranks cannot share micro_batches = {recipe.micro_batches} evenly. "
            f"Use --set micro_batches={ranks.world_size} or a multiple of it."
        )
        raise UsageError(message)
    makers = {
        split: ExampleMaker(load_arrays(data, split), tokenizer, recipe.examples)
        for split in ("train", "validation")
    }
    if not len(makers["validation"].is_code_target()):
        logger.warning(
            "%s has no validation notebooks (about 2 repositories in 100 are held out): "
            "the run goes on without a validation loss",
            data,
        )
    is_code = makers["train"].is_code_target()
    model, parents = initial_model(recipe, tokenizer, init_from)
    return Job(
        recipe=recipe,
        out=out,
        model=model,
        stepper=_build_stepper(recipe, model, ranks, pad=tokenizer.special.pad),
        feed=Feed(
            recipe=recipe,
            maker=makers["train"],
            weights=np.where(is_code, 1.0, recipe.markdown_target_rate),
            ranks=ranks,
            pad=tokenizer.special.pad,
        ),
        tokenizer=tokenizer,
        validation_maker=makers["validation"],
        meta=CheckpointMeta(
            name=recipe.name,
            formatter=recipe.examples.formatter,
            parents=parents,
            data_manifest_sha256=str(info["corpus_manifest_sha256"]),
            git_commit=_git_commit(),
        ),
        ranks=ranks,
    )


def _build_stepper(
    recipe: Recipe, model: BartForConditionalGeneration, ranks: Ranks, *, pad: int
) -> Stepper:
    device = find_device(ranks)
    model.to(device)  # pyright: ignore[reportArgumentType]
    model.train()
    module = InfillingLoss(model, pad=pad)
    return Stepper(
        module=spread(module, model, recipe.parallel, ranks),
        optimizers=build_optimizers(model, recipe.optimizer),
        scaler=LossScaler(device, recipe.precision),
        ranks=ranks,
        device=device,
        precision=recipe.precision,
        config=recipe.optimizer,
        seed=recipe.seed,
    )


def _check_recipe(recipe: Recipe) -> None:
    _check_ranges(recipe)
    choices = {"precision": PRECISIONS, "parallel": PARALLEL_MODES}
    for name, known in choices.items():
        if (value := getattr(recipe, name)) not in known:
            message = f"{name} = {value!r} is unknown. Use one of {', '.join(known)}."
            raise UsageError(message)
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


def _check_ranges(recipe: Recipe) -> None:
    """Refuse values that no run can have, by the name that ``--set`` gives them."""
    formatter, model, optimizer = recipe.examples.formatter, recipe.model, recipe.optimizer
    checks = {
        "steps": recipe.steps >= 1,
        "eval_every": recipe.eval_every >= 1,
        "eval_targets": recipe.eval_targets >= 1,
        "save_every": recipe.save_every >= 1,
        "seed": recipe.seed >= 0,
        "micro_batches": recipe.micro_batches >= 1,
        "num_threads": recipe.num_threads >= 0,
        "markdown_target_rate": 0 <= recipe.markdown_target_rate <= 1,
        "examples.prefix_rate": 0 <= recipe.examples.prefix_rate <= 1,
        "examples.suffix_rate": 0 <= recipe.examples.suffix_rate <= 1,
        "examples.formatter.num_context_cells": formatter.num_context_cells >= 0,
        "examples.formatter.num_following_cells": formatter.num_following_cells >= 0,
        "examples.formatter.source_budget_tokens": formatter.source_budget_tokens >= 8,
        "examples.formatter.max_target_tokens": formatter.max_target_tokens >= 1,
        "model.d_model": model.d_model >= 1,
        "model.num_heads": model.num_heads >= 1 and model.d_model % model.num_heads == 0,
        "model.dropout": 0 <= model.dropout < 1,
        "optimizer.peak_lr": optimizer.peak_lr > 0,
        "optimizer.warmup_steps": optimizer.warmup_steps >= 0,
        "optimizer.cooldown_steps": optimizer.cooldown_steps >= 0,
    }
    wrong = [name for name, is_fine in checks.items() if not is_fine]
    if wrong:
        message = (
            f"No run can have this value of {', '.join(wrong)}. Correct the --set option; "
            "counts are at least 1, rates lie in [0, 1], num_heads divides d_model."
        )
        raise UsageError(message)


def _check_same_run(recipe: Recipe, data: Path, out: Path, checkpoint: Path | None) -> None:
    """Record a new run's recipe and data; compare a resumed one with the record.

    The optimizer's settings may change: they shape only the steps to come. The change is noted
    in the record with the step it comes after.
    """
    record = json.loads(
        json.dumps({"recipe": asdict(recipe), "data_sha256": sha256_file(data / "data.json")})
    )
    path = out / "recipe.json"
    if checkpoint is None:
        out.mkdir(parents=True, exist_ok=True)
        _write_json(path, record)
        return
    old = json.loads(path.read_text("utf-8"))
    changed = [
        key
        for key, value in record["recipe"].items()
        if key not in _FREE_ON_RESUME and value != old["recipe"].get(key)
    ]
    if old["data_sha256"] != record["data_sha256"]:
        changed.append("data")
    if set(changed) - {_SCHEDULE}:
        message = (
            f"{out} was started with other settings: {', '.join(changed)} differ. "
            "Resume with the same ones, or choose another --out."
        )
        raise TrainingError(message)
    if changed:
        logger.warning("the optimizer's settings change after %s", checkpoint.name)
        change = {"after": checkpoint.name, _SCHEDULE: old["recipe"][_SCHEDULE]}
        _write_json(path, {**record, "earlier": [*old.get("earlier", []), change]})


def _write_json(path: Path, content: object) -> None:
    write_atomic(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def _git_commit() -> str:
    """Return the commit of the code when it runs from a checkout, else nothing."""
    folder = Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
