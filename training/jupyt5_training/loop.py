# pyright: basic
"""The training loop: steps in order, validation, checkpoints, exact resume."""

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
from tqdm import tqdm
from transformers import BartForConditionalGeneration

from jupyt5.model.checkpoint import CheckpointMeta
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.batches import plan_epoch
from jupyt5_training.checkpoints import Progress, prune, save_training
from jupyt5_training.distributed import Ranks
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import Feed, StepInput, prefetched
from jupyt5_training.losses import sum_nll
from jupyt5_training.metrics import MetricsLog, draw_loss_curve
from jupyt5_training.precision import autocast
from jupyt5_training.recipes import Recipe
from jupyt5_training.schedule import learning_rate
from jupyt5_training.steps import Stepper, StepResult

__all__ = ["Job", "train", "validate"]

logger = logging.getLogger(__name__)

_LOG_EVERY_S = 30.0
_EVAL_EPOCH = 1 << 30  # the validation draw is an epoch of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run with everything loaded: what ``train`` works on."""

    recipe: Recipe
    out: Path
    model: BartForConditionalGeneration
    stepper: Stepper
    feed: Feed
    tokenizer: Tokenizer
    validation_maker: ExampleMaker
    meta: CheckpointMeta
    ranks: Ranks


def train(job: Job, progress: Progress) -> Progress:
    """Train to ``recipe.steps`` from ``progress``; returns the last progress.

    Ctrl-C and SIGTERM finish the step, write a checkpoint and raise ``KeyboardInterrupt``.
    """
    log = MetricsLog(job.out, resume_step=progress.step) if job.ranks.is_main else None
    result = {} if progress.step else _evaluate(job, progress, log)
    with (
        _StopRequest() as stop,
        _StepBar(job.recipe, progress, is_main=job.ranks.is_main) as bar,
        prefetched(job.feed, progress) as steps,
    ):
        for step in steps:
            progress, outcome = _do_step(job, step, progress, log, stop)
            bar.update(progress, outcome.loss)
            is_last = progress.step >= job.recipe.steps
            if is_last or progress.step % job.recipe.eval_every == 0:
                result = _evaluate(job, progress, log)
            if is_last or outcome.stop or progress.step % job.recipe.save_every == 0:
                _save(job, progress, result)
            if outcome.stop and not is_last:
                logger.info("stopped after step %d; continue with --resume", progress.step)
                raise KeyboardInterrupt
            if is_last:
                break
    return progress


def validate(job: Job) -> dict[str, float]:
    """Validation loss in nats per target token: all targets, and code targets alone.

    A loss over no targets at all is left out.
    """
    sums = {"validation": [0.0, 0], "validation_code": [0.0, 0]}
    stepper, pad = job.stepper, job.tokenizer.special.pad
    feed = replace(job.feed, maker=job.validation_maker)
    job.model.eval()
    with torch.no_grad():
        for positions, is_code in _validation_batches(job):
            batch = feed.make_batch(positions, epoch=_EVAL_EPOCH)
            source_BS = torch.from_numpy(batch.source_BS).to(stepper.device)
            target_BT = torch.from_numpy(batch.target_BT).to(stepper.device)
            with autocast(stepper.device, stepper.precision):
                nll = sum_nll(job.model, source_BS, target_BT, pad=pad).item()
            for name in ("validation", "validation_code") if is_code else ("validation",):
                sums[name][0] += nll
                sums[name][1] += batch.num_target
    job.model.train()
    return {f"{name}_loss": total / count for name, (total, count) in sums.items() if count}


def _do_step(
    job: Job, step: StepInput, progress: Progress, log: MetricsLog | None, stop: "_StopRequest"
) -> tuple[Progress, StepResult]:
    start_s = time.perf_counter()
    number = progress.step + 1
    config = job.recipe.optimizer
    rate = learning_rate(number, job.recipe.steps, config)
    result = job.stepper.run(
        step,
        factor=rate / config.peak_lr,
        is_stopping=lambda: stop.requested,
        accept=lambda loss, norm: True,
    )
    step_s = time.perf_counter() - start_s + step.wait_s
    if log:
        log.append(_step_record(number, rate, step_s, result))
    progress = replace(
        progress,
        step=number,
        epoch=step.epoch,
        batch_idx=step.batch_idx,
        tokens_seen=progress.tokens_seen + result.num_useful,
        target_tokens_seen=progress.target_tokens_seen + result.num_target,
        train_s=progress.train_s + step_s,
    )
    return progress, result


def _step_record(number: int, rate: float, step_s: float, result: StepResult) -> dict[str, Any]:
    return {
        "step": number,
        "loss": result.loss,
        "lr": rate,
        "grad_norm": result.grad_norm,
        "tokens": result.num_useful,
        "target_tokens": result.num_target,
        "pad_fraction": 1 - result.num_useful / result.num_padded,
        "step_s": round(step_s, 4),
        "data_wait_s": round(result.wait_s, 4),
        "tokens_per_s": round(result.num_useful / step_s, 1),
        "rank_step_s": [round(seconds, 4) for seconds in result.rank_step_s],
        "loss_scale": result.loss_scale,
    }


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


def _evaluate(job: Job, progress: Progress, log: MetricsLog | None) -> dict[str, float]:
    result = validate(job)
    if result and log:
        log.append({"step": progress.step, "tokens_seen": progress.tokens_seen, **result})
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in result.items())
        logger.info("step %d: %s, %d tokens seen", progress.step, losses, progress.tokens_seen)
    return result


def _save(job: Job, progress: Progress, result: dict[str, float]) -> None:
    if not job.ranks.is_main:
        return
    metrics = {
        "tokens_seen": float(progress.tokens_seen),
        "target_tokens_seen": float(progress.target_tokens_seen),
        "steps": float(progress.step),
        "train_s": round(progress.train_s, 1),
        **result,
    }
    meta = replace(job.meta, metrics=metrics)
    save_training(
        job.out,
        job.model,
        job.stepper.optimizers[0],
        tokenizer=job.tokenizer,
        meta=meta,
        progress=progress,
    )
    prune(job.out, job.recipe.keep_checkpoints)
    draw_loss_curve(job.out, title=f"{job.recipe.name}: cell infilling")


class _StepBar:
    """A progress bar on a terminal; elsewhere a log line every 30 s; nothing on other ranks."""

    def __init__(self, recipe: Recipe, progress: Progress, *, is_main: bool) -> None:
        self._bar = tqdm(
            total=recipe.steps,
            initial=progress.step,
            desc=recipe.name,
            unit="step",
            dynamic_ncols=True,
            disable=not (is_main and sys.stderr.isatty()),
        )
        self._is_logged = is_main and self._bar.disable
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
        if self._is_logged and elapsed_s >= _LOG_EVERY_S:
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
