# pyright: basic
"""Start or resume a run: from a recipe and prepared data to a model folder."""

import json
import logging
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError, UsageError
from jupyt5.files import sha256_file, write_atomic
from jupyt5.model.checkpoint import CheckpointMeta, read_meta
from jupyt5_training.arrays import DATA_NAME, load_arrays, load_data_tokenizer, read_data_info
from jupyt5_training.averaging import WeightAverage
from jupyt5_training.batches import PlanConfig
from jupyt5_training.checkpoints import Progress, export_model, find_checkpoints
from jupyt5_training.distributed import Ranks, find_device, joined_ranks, spread
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import Feed
from jupyt5_training.flops import count_flops, find_peak
from jupyt5_training.handover import DspHandover, HandoverConfig
from jupyt5_training.loop import Job, TrainingLoop, restore_job
from jupyt5_training.losses import InfillingLoss
from jupyt5_training.metrics import read_metrics
from jupyt5_training.models import initial_model
from jupyt5_training.optimizers import build_optimizers
from jupyt5_training.precision import LossScaler
from jupyt5_training.recipe_checks import check_recipe
from jupyt5_training.recipes import Recipe
from jupyt5_training.run_report.view import read_recipe
from jupyt5_training.steps import Stepper

__all__ = ["load_job", "run_recipe", "summarise"]

logger = logging.getLogger(__name__)

# What may differ when a run is resumed: nothing that changes the steps already made.
_FREE_ON_RESUME = frozenset(
    (
        "steps",
        "epochs",
        "eval_every",
        "eval_decoded",
        "dsp_every",
        "dsp_limit",
        "dsp_samples",
        "save_every",
        "keep_checkpoints",
        "num_threads",
        "parallel",
        "compile",
        "guard",
    )
)
_SCHEDULE = "optimizer"


def run_recipe(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool,
    init_from: Path | None = None,
    dsp_problems: Path | None = None,
) -> dict[str, object]:
    """Train a recipe on prepared data (all ranks); makes ``OUT/model``, a checkpoint folder.

    Args:
        recipe: The run.
        data: Folder made by ``jupyt5-train prepare``.
        out: The run's folder: checkpoints, metrics, loss curve.
        resume: Go on from the newest checkpoint in ``out``, if there is one.
        init_from: A new run starts from this checkpoint folder's weights; a resumed one leaves it
            aside.
        dsp_problems: Problems for a small ``dsp-eval`` every ``recipe.dsp_every`` steps.

    Returns:
        See ``summarise``.

    Raises:
        TrainingError: If the data are unusable, or ``out`` holds another run.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is written.
        RequeueRequest: After a scheduler's signal, likewise.
    """
    if recipe.num_threads > 0:
        torch.set_num_threads(recipe.num_threads)
    with joined_ranks() as ranks:
        # torchrun repeats the command after a rank was lost.
        resume = resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
        init_from = _choose_start(out, init_from, resume=resume)
        job = load_job(recipe, data, out, ranks=ranks, init_from=init_from)
        if ranks.is_main:
            _check_same_run(job.recipe, data, out)
        ranks.barrier()
        _train(replace(job, handover=_open_handover(job, dsp_problems)), resume=resume)
    return summarise(out)


def _choose_start(out: Path, init_from: Path | None, *, resume: bool) -> Path | None:
    """Return the folder that a run's weights come from, if not from its own checkpoints."""
    if not find_checkpoints(out):
        return init_from
    if not resume:
        message = f"{out} holds a run already. Go on with --resume or choose another --out."
        raise TrainingError(message)
    if init_from:
        logger.info("%s holds checkpoints: they count, not --init-from", out)
    return None


def _train(job: Job, *, resume: bool) -> None:
    progress = _restore(job, resume=resume)
    if progress.step:
        parents = read_meta(find_checkpoints(job.out)[-1]).parents
        job = replace(job, meta=replace(job.meta, parents=parents))
    if progress.step < job.recipe.steps:
        TrainingLoop(job, progress).run()
    if job.ranks.is_main:
        export_model(job.out, job.out / "model")
    job.ranks.barrier()


def _restore(job: Job, *, resume: bool) -> Progress:
    """Load the newest checkpoint, if there is one."""
    progress = restore_job(job)
    if progress is None:
        if resume and job.ranks.is_main:
            logger.warning("%s holds no checkpoint; starting at step 0", job.out)
        return Progress()
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
        "report": str(out / "report.html"),
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
    manifest_sha256 = str(read_data_info(data)["corpus_manifest_sha256"])
    tokenizer = load_data_tokenizer(data)
    recipe = replace(recipe, model=replace(recipe.model, vocab_size=tokenizer.vocab_size))
    check_recipe(recipe, world_size=ranks.world_size)
    feed = _open_feed(recipe, data, out, ranks)
    if recipe.epochs:
        recipe = replace(recipe, steps=_count_steps(recipe, feed))
    model, parents = initial_model(recipe, tokenizer, init_from)
    device = find_device(ranks)
    return Job(
        recipe=recipe,
        out=out,
        model=model,
        stepper=_build_stepper(recipe, model, ranks, device=device, pad=feed.pad),
        # After the stepper, which moves and shards the model.
        average=_build_average(recipe, model, ranks, device=device, pad=feed.pad),
        feed=feed,
        tokenizer=tokenizer,
        validation_maker=_open_validation(recipe, data),
        meta=CheckpointMeta(
            name=recipe.name,
            formatter=recipe.examples.formatter,
            parents=parents,
            data_manifest_sha256=manifest_sha256,
            git_commit=_git_commit(),
        ),
        ranks=ranks,
        flops=count_flops(recipe.model, peak=find_peak(device)),
        handover=None,
    )


def _count_steps(recipe: Recipe, feed: Feed) -> int:
    num_steps = max(1, recipe.epochs * len(feed.open_plan(0)) // recipe.micro_batches)
    logger.info("%d epochs are %d steps", recipe.epochs, num_steps)
    return num_steps


def _open_feed(recipe: Recipe, data: Path, out: Path, ranks: Ranks) -> Feed:
    tokenizer = load_data_tokenizer(data)
    return Feed(
        maker=ExampleMaker(load_arrays(data, "train"), tokenizer, recipe.examples),
        plans=PlanConfig(
            batch_tokens=recipe.batch_tokens,
            seed=recipe.seed,
            markdown_target_rate=recipe.markdown_target_rate,
            data_sha256=sha256_file(data / DATA_NAME),
        ),
        folder=out / "plans",
        micro_batches=recipe.micro_batches,
        ranks=ranks,
        pad=tokenizer.special.pad,
    )


def _open_validation(recipe: Recipe, data: Path) -> ExampleMaker:
    examples = replace(recipe.examples, context_draw="fixed")
    maker = ExampleMaker(load_arrays(data, "validation"), load_data_tokenizer(data), examples)
    if not maker.num_targets:
        logger.warning(
            "%s has no validation notebooks (about 2 repositories in 100 are held out): "
            "the run goes on without a validation loss",
            data,
        )
    return maker


def _open_handover(job: Job, problems: Path | None) -> DspHandover | None:
    recipe = job.recipe
    if bool(problems) != bool(recipe.dsp_every):
        message = "--dsp-problems and --set dsp_every=STEPS go together. Give both or neither."
        raise UsageError(message)
    if problems is None or not job.ranks.is_main:
        return None
    config = HandoverConfig(
        problems=problems, limit=recipe.dsp_limit, num_samples=recipe.dsp_samples
    )
    return DspHandover(job.out, config)


def _build_stepper(
    recipe: Recipe,
    model: BartForConditionalGeneration,
    ranks: Ranks,
    *,
    device: torch.device,
    pad: int,
) -> Stepper:
    model.to(device)  # pyright: ignore[reportArgumentType]
    model.train()
    module: torch.nn.Module = InfillingLoss(model, pad=pad, label_smoothing=recipe.label_smoothing)
    if recipe.compile:
        module = cast("torch.nn.Module", torch.compile(module, dynamic=True))
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


def _build_average(
    recipe: Recipe,
    model: BartForConditionalGeneration,
    ranks: Ranks,
    *,
    device: torch.device,
    pad: int,
) -> WeightAverage | None:
    """Return an average that begins as the model; sharded as the model is."""
    if not recipe.ema_decay:
        return None
    average = BartForConditionalGeneration(model.config)
    module: torch.nn.Module = InfillingLoss(average.to(device), pad=pad)  # type: ignore[arg-type]
    average.requires_grad_(requires_grad=False)
    if recipe.parallel == "fsdp":
        module = spread(module, average, recipe.parallel, ranks)
    result = WeightAverage(model, average, module, decay=recipe.ema_decay)
    result.update(0)
    return result


def _check_same_run(recipe: Recipe, data: Path, out: Path) -> None:
    """Record a new run's recipe and data; compare a resumed one with the record.

    The optimizer's settings may change: they shape only the steps to come. The change is noted
    in the record with the step it comes after.
    """
    record = json.loads(
        json.dumps({"recipe": asdict(recipe), "data_sha256": sha256_file(data / "data.json")})
    )
    path = out / "recipe.json"
    checkpoints = find_checkpoints(out)
    if not checkpoints:
        out.mkdir(parents=True, exist_ok=True)
        _write_json(path, record)
        return
    old = read_recipe(out)
    changed = [
        key
        for key, value in record["recipe"].items()
        if key not in _FREE_ON_RESUME and value != old["recipe"].get(key)
    ]
    if old["data_sha256"] != record["data_sha256"]:
        changed.append("data")
    if old["recipe"].get(_SCHEDULE, {}).get("name", "adamw") != recipe.optimizer.name:
        changed.append("optimizer.name")  # it has moments of another kind
    if set(changed) - {_SCHEDULE}:
        message = (
            f"{out} was started with other settings: {', '.join(changed)} differ. "
            "Resume with the same ones, or choose another --out."
        )
        raise TrainingError(message)
    if changed:
        logger.warning("the optimizer's settings change after %s", checkpoints[-1].name)
        change = {"after": checkpoints[-1].name, _SCHEDULE: old["recipe"][_SCHEDULE]}
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
