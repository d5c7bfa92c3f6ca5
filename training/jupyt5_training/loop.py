# pyright: basic
"""The training loop: batches in order, AdamW, validation, checkpoints, exact resume.

Tensor names end in their axes: B examples, S source positions, T target positions, V ids.
"""

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm
from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.model.checkpoint import CheckpointMeta
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.batches import Batch, collate, plan_epoch
from jupyt5_training.checkpoints import Progress, prune, save_training
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.metrics import MetricsLog, draw_loss_curve
from jupyt5_training.recipes import Recipe
from jupyt5_training.schedule import learning_rate

__all__ = ["Job", "batch_loss", "build_optimizer", "train", "validate"]

logger = logging.getLogger(__name__)

_LOG_EVERY_S = 30.0
_EVAL_EPOCH = 1 << 30  # the validation draw is an epoch of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run with everything loaded: what ``train`` works on."""

    recipe: Recipe
    out: Path
    model: BartForConditionalGeneration
    optimizer: torch.optim.Optimizer
    tokenizer: Tokenizer
    train_maker: ExampleMaker
    validation_maker: ExampleMaker
    train_weights: np.ndarray
    meta: CheckpointMeta
    device: torch.device


def train(job: Job, progress: Progress) -> Progress:
    """Train to ``recipe.steps`` from ``progress``; returns the last progress.

    Ctrl-C and SIGTERM finish the step, write a checkpoint and raise ``KeyboardInterrupt``.
    """
    log = MetricsLog(job.out, resume_step=progress.step)
    result = {} if progress.step else _evaluate(job, progress, log)
    with _StopRequest() as stop, _StepBar(job.recipe, progress) as bar:
        for batch, position in _iter_batches(job, progress):
            progress, loss = _do_step(job, batch, position, progress, log)
            bar.update(progress, loss)
            is_last = progress.step >= job.recipe.steps
            if is_last or progress.step % job.recipe.eval_every == 0:
                result = _evaluate(job, progress, log)
            if is_last or stop.requested or progress.step % job.recipe.save_every == 0:
                _save(job, progress, result)
            if stop.requested and not is_last:
                logger.info("stopped after step %d; continue with --resume", progress.step)
                raise KeyboardInterrupt
            if is_last:
                break
    return progress


def build_optimizer(model: torch.nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    config = recipe.optimizer
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=config.peak_lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )


def batch_loss(model: BartForConditionalGeneration, batch: Batch, pad: int) -> torch.Tensor:
    """Mean negative log-likelihood of the target ids, in nats; teacher forcing."""
    device = model.device
    source_BS = torch.from_numpy(batch.source_BS).to(device)
    target_BT = torch.from_numpy(batch.target_BT).to(device)
    start_id = model.config.decoder_start_token_id
    assert start_id is not None  # every preset names it
    start_B1 = torch.full_like(target_BT[:, :1], start_id)
    hidden_BTD = model.model(
        input_ids=source_BS,
        attention_mask=(source_BS != pad).long(),
        decoder_input_ids=torch.cat([start_B1, target_BT[:, :-1]], dim=1),
        use_cache=False,
    ).last_hidden_state
    keep_BT = target_BT != pad
    # Logits only where there is a target: the table is the largest matrix of a small model.
    logits_NV = model.lm_head(hidden_BTD[keep_BT])
    return F.cross_entropy(logits_NV, target_BT[keep_BT])


def validate(job: Job) -> dict[str, float]:
    """Validation loss in nats per target token: all targets, and code targets alone.

    A loss over no targets at all is left out.
    """
    sums = {"validation": [0.0, 0], "validation_code": [0.0, 0]}
    job.model.eval()
    with torch.no_grad():
        for positions, is_code in _validation_batches(job):
            batch = _make_batch(job.validation_maker, positions, job, epoch=_EVAL_EPOCH)
            with _autocast(job):
                loss = batch_loss(job.model, batch, job.tokenizer.special.pad).item()
            for name in ("validation", "validation_code") if is_code else ("validation",):
                sums[name][0] += loss * batch.num_target
                sums[name][1] += batch.num_target
    job.model.train()
    return {f"{name}_loss": total / count for name, (total, count) in sums.items() if count}


def _do_step(
    job: Job, batch: Batch, position: tuple[int, int], progress: Progress, log: MetricsLog
) -> tuple[Progress, float]:
    start_s = time.perf_counter()
    step = progress.step + 1
    rate = learning_rate(step, job.recipe.steps, job.recipe.optimizer)
    for group in job.optimizer.param_groups:
        group["lr"] = rate
    job.optimizer.zero_grad(set_to_none=True)
    with _autocast(job):
        loss = batch_loss(job.model, batch, job.tokenizer.special.pad)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(
        job.model.parameters(), job.recipe.optimizer.max_grad_norm
    )
    job.optimizer.step()
    step_s = time.perf_counter() - start_s
    log.append(
        {
            "step": step,
            "loss": loss.item(),
            "lr": rate,
            "grad_norm": norm.item(),
            "tokens": batch.num_useful,
            "target_tokens": batch.num_target,
            "pad_fraction": 1 - batch.num_useful / (batch.source_BS.size + batch.target_BT.size),
            "step_s": round(step_s, 4),
        }
    )
    progress = replace(
        progress,
        step=step,
        epoch=position[0],
        batch_idx=position[1] + 1,
        tokens_seen=progress.tokens_seen + batch.num_useful,
        target_tokens_seen=progress.target_tokens_seen + batch.num_target,
        train_s=progress.train_s + step_s,
    )
    return progress, loss.item()


def _iter_batches(job: Job, progress: Progress) -> Iterator[tuple[Batch, tuple[int, int]]]:
    """Yield batches from ``progress`` on, epoch after epoch, without reading those before."""
    sources, targets = job.train_maker.estimate_lengths()
    epoch, first = progress.epoch, progress.batch_idx
    while True:
        plan = plan_epoch(
            sources,
            targets,
            job.train_weights,
            batch_tokens=job.recipe.batch_tokens,
            seed=job.recipe.seed,
            epoch=epoch,
        )
        if not len(plan):
            message = "No target takes part in training. Raise --set markdown_target_rate."
            raise TrainingError(message)
        for batch_idx in range(first, len(plan)):
            yield (
                _make_batch(job.train_maker, plan[batch_idx], job, epoch=epoch),
                (epoch, batch_idx),
            )
        epoch, first = epoch + 1, 0


def _make_batch(maker: ExampleMaker, positions: np.ndarray, job: Job, *, epoch: int) -> Batch:
    examples = [
        maker.make(int(position), np.random.default_rng([job.recipe.seed, epoch, int(position)]))
        for position in positions
    ]
    return collate(
        [example.source_ids for example in examples],
        [example.target_ids for example in examples],
        pad=job.tokenizer.special.pad,
    )


def _validation_batches(job: Job) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield batches of one kind each, of a draw that depends on the seed alone."""
    sources, targets = job.validation_maker.estimate_lengths()
    rng = np.random.default_rng(job.recipe.seed)
    draw = rng.permutation(len(sources))[: job.recipe.eval_targets]
    is_code = job.validation_maker.is_code_target()
    for wanted in (True, False):
        chosen = draw[is_code[draw] == wanted]
        if len(chosen):
            plan = plan_epoch(
                sources[chosen],
                targets[chosen],
                np.ones(len(chosen)),
                batch_tokens=job.recipe.batch_tokens,
                seed=job.recipe.seed,
                epoch=_EVAL_EPOCH,
            )
            for batch_idx in range(len(plan)):
                yield chosen[plan[batch_idx]], wanted


def _evaluate(job: Job, progress: Progress, log: MetricsLog) -> dict[str, float]:
    result = validate(job)
    if result:
        log.append({"step": progress.step, "tokens_seen": progress.tokens_seen, **result})
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in result.items())
        logger.info("step %d: %s, %d tokens seen", progress.step, losses, progress.tokens_seen)
    return result


def _save(job: Job, progress: Progress, result: dict[str, float]) -> None:
    metrics = {
        "tokens_seen": float(progress.tokens_seen),
        "target_tokens_seen": float(progress.target_tokens_seen),
        "steps": float(progress.step),
        "train_s": round(progress.train_s, 1),
        **result,
    }
    meta = replace(job.meta, metrics=metrics)
    save_training(
        job.out, job.model, job.optimizer, tokenizer=job.tokenizer, meta=meta, progress=progress
    )
    prune(job.out, job.recipe.keep_checkpoints)
    draw_loss_curve(job.out, title=f"{job.recipe.name}: cell infilling")


def _autocast(job: Job) -> torch.autocast:
    return torch.autocast(
        job.device.type, dtype=torch.bfloat16, enabled=job.recipe.precision == "bfloat16"
    )


class _StepBar:
    """A progress bar on a terminal; elsewhere a log line every 30 s."""

    def __init__(self, recipe: Recipe, progress: Progress) -> None:
        self._bar = tqdm(
            total=recipe.steps,
            initial=progress.step,
            desc=recipe.name,
            unit="step",
            dynamic_ncols=True,
            disable=not sys.stderr.isatty(),
        )
        self._last_s = time.monotonic()
        self._last = progress

    def __enter__(self) -> "_StepBar":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    def update(self, progress: Progress, loss: float) -> None:
        self._bar.update()
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
        elapsed_s = time.monotonic() - self._last_s
        if self._bar.disable and elapsed_s >= _LOG_EVERY_S:
            rate = (progress.tokens_seen - self._last.tokens_seen) / elapsed_s
            logger.info("step %d: loss %.3f, %.0f tokens/s", progress.step, loss, rate)
            self._last_s, self._last = time.monotonic(), progress


class _StopRequest:
    """Turns the first Ctrl-C or SIGTERM into a request; the second one acts as usual."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> "_StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(number, signal.default_int_handler)
        logger.info("finishing this step, then saving; once more to stop at once")
