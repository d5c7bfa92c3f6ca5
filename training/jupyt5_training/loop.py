# pyright: basic
"""The training loop: steps in order, evaluation, checkpoints, exact resume, rollback."""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.model.checkpoint import CheckpointMeta
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.averaging import WeightAverage
from jupyt5_training.checkpoints import (
    CheckpointWriter,
    Progress,
    export_model,
    find_checkpoints,
    restore,
)
from jupyt5_training.distributed import Ranks, whole_weights
from jupyt5_training.evaluation import EvalConfig, evaluate
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import Feed, StepInput, prefetched
from jupyt5_training.flops import FlopCount
from jupyt5_training.guard import SpikeGuard
from jupyt5_training.handover import DspHandover
from jupyt5_training.metrics import MetricsLog, draw_loss_curve, iter_metrics
from jupyt5_training.progress_bar import StepBar
from jupyt5_training.recipes import Recipe
from jupyt5_training.run_report import write_report
from jupyt5_training.schedule import rate_factor
from jupyt5_training.steps import Stepper, StepResult
from jupyt5_training.stopping import StopKind, StopRequest, stop_run

__all__ = ["Job", "TrainingLoop", "restore_job"]

logger = logging.getLogger(__name__)

_FINGERPRINT_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run with everything loaded: what the loop works on.

    Attributes:
        recipe: With ``steps`` and the vocabulary size filled in.
        out: The run's folder.
        model: The bare model; its parameters are those that ``stepper`` changes.
        average: Follows the model, if the recipe asks for it.
        stepper: Makes the steps.
        feed: Makes their batches.
        tokenizer: Of the data.
        validation_maker: Makes held-out examples, with fixed context.
        meta: For the checkpoints.
        ranks: This process and the others.
        flops: What an id costs.
        handover: Runs dsp-eval beside the training; on rank 0, if asked for.
    """

    recipe: Recipe
    out: Path
    model: BartForConditionalGeneration
    average: WeightAverage | None
    stepper: Stepper
    feed: Feed
    tokenizer: Tokenizer
    validation_maker: ExampleMaker
    meta: CheckpointMeta
    ranks: Ranks
    flops: FlopCount
    handover: DspHandover | None


def restore_job(job: Job) -> Progress | None:
    """Load the newest whole checkpoint into a job, on all ranks together."""
    average = job.average.model if job.average else None
    progress = restore(job.out, job.model, job.stepper.optimizers, average=average)
    if progress is not None:
        job.stepper.scaler.load((progress.loss_scale, progress.growth_tracker))
    return progress


class TrainingLoop:
    """Trains a job from a progress on; all ranks make one and run it together.

    Args:
        job: The run.
        progress: Where it begins.
    """

    def __init__(self, job: Job, progress: Progress) -> None:
        self._job = job
        self._progress = progress
        self._log = MetricsLog(job.out, resume_step=progress.step) if job.ranks.is_main else None
        self._writer = CheckpointWriter(job.out, keep=job.recipe.keep_checkpoints)
        self._figures: dict[str, float] = {}
        self._num_rollbacks = 0
        self._farthest = progress.step
        # After the log was cut back to the checkpoint.
        job.ranks.barrier()
        losses = [
            record["loss"]
            for record in iter_metrics(job.out)
            if record.get("loss") is not None and not record.get("skipped")
        ]
        self._guard = SpikeGuard(job.recipe.guard, losses[-job.recipe.guard.window :])

    def run(self) -> Progress:
        """Train to ``recipe.steps``; returns the last progress.

        Raises:
            KeyboardInterrupt: After Ctrl-C, once the step is finished and saved.
            RequeueRequest: After a scheduler's signal, likewise.
            TrainingError: If the loss keeps diverging, or nothing can be saved.
        """
        job, recipe = self._job, self._job.recipe
        self._note("order", job.feed.fingerprint(self._progress))
        if not self._progress.step:
            self._evaluate()
        try:
            self._run_steps()
            if job.handover:
                self._log_dsp(job.handover.finish())
        finally:
            if job.handover:
                job.handover.close()
            if self._log:
                self._log.close()
                draw_loss_curve(job.out, title=f"{recipe.name}: cell infilling")
                write_report(job.out)
        return self._progress

    def _run_steps(self) -> None:
        job, recipe = self._job, self._job.recipe
        bar = StepBar(recipe.name, recipe.steps, self._progress, is_main=job.ranks.is_main)
        with StopRequest() as stop, bar, prefetched(job.feed, self._progress) as steps:
            for step in steps:
                result = self._do_step(step, stop)
                if self._guard.wants_rollback:
                    self._roll_back()
                    continue
                bar.update(self._progress, result.loss)
                self._do_chores(result.stop)
                if self._progress.step >= recipe.steps:
                    break
            self._writer.wait()

    def _do_step(self, step: StepInput, stop: StopRequest) -> StepResult:
        job, start_s = self._job, time.perf_counter()
        number = self._progress.step + 1
        factor = rate_factor(number, job.recipe.steps, job.recipe.optimizer)
        is_scaled = job.stepper.scaler.scale > 1
        result = job.stepper.run(
            step,
            factor=factor,
            stop_kind=lambda: stop.kind,
            accept=lambda loss, norm: self._guard.accept(loss, norm, is_scaled=is_scaled),
        )
        if job.average and result.is_updated:
            job.average.update(number)
        step_s = time.perf_counter() - start_s + step.wait_s
        scale, growth_tracker = job.stepper.scaler.state
        self._progress = Progress(
            step=number,
            epoch=step.epoch,
            batch_idx=step.batch_idx,
            tokens_seen=self._progress.tokens_seen + result.num_useful,
            target_tokens_seen=self._progress.target_tokens_seen + result.num_target,
            train_s=self._progress.train_s + step_s,
            loss_scale=scale,
            growth_tracker=growth_tracker,
        )
        self._record(result, factor * job.recipe.optimizer.peak_lr, step_s)
        return result

    def _do_chores(self, stop: StopKind) -> None:
        """Evaluate, save and stop where it is due after a step."""
        job, recipe, step = self._job, self._job.recipe, self._progress.step
        is_last = step >= recipe.steps
        if step % _FINGERPRINT_EVERY == 0:
            self._note("order", job.feed.fingerprint(self._progress))
        if is_last or step % recipe.eval_every == 0:
            self._evaluate()
        # Weights that just misbehaved are not kept, unless nothing would be.
        due = step % recipe.save_every == 0 and self._guard.is_calm
        is_dsp_due = bool(recipe.dsp_every) and step % recipe.dsp_every == 0
        if is_last or stop or due or is_dsp_due:
            self._save()
        if is_dsp_due:
            self._hand_over()
        elif job.handover:
            self._log_dsp(job.handover.poll())
        if stop and not is_last:
            self._writer.wait()
            stop_run(stop, step=step)

    def _evaluate(self) -> None:
        job, recipe = self._job, self._job.recipe
        config = EvalConfig(
            num_targets=recipe.eval_targets,
            num_decoded=recipe.eval_decoded,
            batch_tokens=recipe.batch_tokens,
            seed=recipe.seed,
            precision=recipe.precision,
        )
        model, module, ranks = job.model, job.stepper.module, job.ranks
        if job.average:
            model, module = job.average.model, job.average.module
        # Sharded weights are put together by all ranks at once, so all do the same work.
        ranks = Ranks() if recipe.parallel == "fsdp" else ranks
        with whole_weights(module):
            self._figures = evaluate(
                model, job.validation_maker, config, tokenizer=job.tokenizer, ranks=ranks
            )
        progress = self._progress
        if self._figures and self._log:
            seen = {"step": progress.step, "tokens_seen": progress.tokens_seen}
            self._log.append({**seen, **self._figures})
            figures = ", ".join(f"{name} {value:.4f}" for name, value in self._figures.items())
            logger.info("step %d: %s", progress.step, figures)

    def _save(self) -> None:
        job, progress = self._job, self._progress
        metrics = {
            "tokens_seen": float(progress.tokens_seen),
            "target_tokens_seen": float(progress.target_tokens_seen),
            "steps": float(progress.step),
            "train_s": round(progress.train_s, 1),
            **self._figures,
        }
        self._writer.save(
            job.model,
            job.stepper.optimizers,
            progress,
            tokenizer=job.tokenizer,
            meta=replace(job.meta, metrics=metrics),
            average=job.average.model if job.average else None,
        )

    def _hand_over(self) -> None:
        """Have dsp-eval look at the checkpoint just saved."""
        self._writer.wait()
        if handover := self._job.handover:
            handover.start(self._progress.step, self._export)

    def _export(self, folder: Path) -> None:
        export_model(self._job.out, folder)

    def _log_dsp(self, records: list[dict[str, float]]) -> None:
        for record in records:
            if self._log:
                self._log.append(record)

    def _roll_back(self) -> None:
        """Load the newest checkpoint and go on with the batches after the bad ones."""
        bad = self._progress
        if bad.step > self._farthest:
            self._num_rollbacks, self._farthest = 0, bad.step
        self._num_rollbacks += 1
        self._writer.wait()
        good = restore_job(self._job) if self._may_roll_back() else None
        if good is None:
            tried = (
                "Going back did not help"
                if find_checkpoints(self._job.out)
                else "There is no checkpoint to go back to"
            )
            message = (
                f"Step {bad.step} is bad again: {self._guard.reason}. {tried}. "
                "Lower --set optimizer.peak_lr or raise optimizer.warmup_steps."
            )
            raise TrainingError(message)
        self._progress = replace(good, epoch=bad.epoch, batch_idx=bad.batch_idx)
        if self._log:
            self._log.rewind(good.step)
        self._note("rollback", f"from step {bad.step}: {self._guard.reason}")
        self._guard.reset()

    def _may_roll_back(self) -> bool:
        return self._num_rollbacks <= self._job.recipe.guard.max_rollbacks

    def _record(self, result: StepResult, rate: float, step_s: float) -> None:
        if not self._log:
            return
        job, step = self._job, self._progress.step
        mfu = job.flops.utilisation(
            result.num_useful - result.num_target, result.num_target, step_s, job.ranks.world_size
        )
        record: dict[str, Any] = {
            "step": step,
            "loss": result.loss,
            "lr": rate,
            "grad_norm": result.grad_norm,
            "tokens": result.num_useful,
            "target_tokens": result.num_target,
            "pad_fraction": round(1 - result.num_useful / result.num_padded, 5),
            "step_s": round(step_s, 4),
            "data_wait_s": round(result.wait_s, 4),
            "tokens_per_s": round(result.num_useful / step_s, 1),
            "rank_step_s": [round(seconds, 4) for seconds in result.rank_step_s],
            "loss_scale": result.loss_scale,
        }
        if mfu is not None:
            record["mfu"] = round(mfu, 4)
        self._log.append(record if result.is_updated else {**record, "skipped": 1})
        if not result.is_updated:
            self._note("skipped", f"the update, because {self._guard.reason}")

    def _note(self, event: str, detail: str) -> None:
        """Log something that happened after the last step."""
        if self._log:
            logger.info("step %d: %s %s", self._progress.step, event, detail)
            self._log.append({"step": self._progress.step, "event": event, "detail": detail})
