# pyright: basic
"""One optimizer step: micro-batches forward and backward on all ranks, then the update."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from jupyt5_training.distributed import Ranks, sync_gradients
from jupyt5_training.feed import MicroBatch, StepInput
from jupyt5_training.optimizers import set_rates
from jupyt5_training.precision import LossScaler, autocast
from jupyt5_training.recipes import OptimizerConfig
from jupyt5_training.stopping import StopKind

__all__ = ["StepResult", "Stepper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step came to, the same on all ranks.

    Attributes:
        loss: Negative log-likelihood per target id, in nats, before the update.
        grad_norm: Of all gradients, before clipping.
        num_useful: Source and target ids that are not padding.
        num_target: Target ids.
        num_padded: Source and target ids, padding included.
        wait_s: Longest wait of a rank for its batches.
        rank_step_s: Shortest and longest time of a rank up to its last forward pass: what it does
            before it waits for the others.
        loss_scale: Of float16, else 1.
        is_updated: Whether the weights were changed.
        stop: What some rank was asked for.
    """

    loss: float
    grad_norm: float
    num_useful: int
    num_target: int
    num_padded: int
    wait_s: float
    rank_step_s: tuple[float, float]
    loss_scale: float
    is_updated: bool
    stop: StopKind


@dataclass(slots=True, kw_only=True)
class Stepper:
    """Makes steps.

    Attributes:
        module: ``InfillingLoss``, wrapped for several ranks.
        optimizers: All of the model's.
        scaler: Of the loss, for float16.
        ranks: Those that share a step.
        device: Where the model is.
        precision: See ``autocast``.
        config: Rates and the largest gradient norm.
        seed: Of dropout.
    """

    module: torch.nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    scaler: LossScaler
    ranks: Ranks
    device: torch.device
    precision: str
    config: OptimizerConfig
    seed: int

    def run(
        self,
        step: StepInput,
        *,
        factor: float,
        stop_kind: Callable[[], StopKind],
        accept: Callable[[float, float], bool],
    ) -> StepResult:
        """Make one step.

        Args:
            step: This rank's micro-batches.
            factor: Of every optimizer's peak learning rate.
            stop_kind: What this rank was asked for.
            accept: Given loss and gradient norm: whether to change the weights.
        """
        counts, wait_s = self._count(step)
        num_useful, num_target, num_padded = counts
        rows = self._accumulate(step, num_target, stop_kind)
        loss = float(rows[:, 0].sum()) / num_target
        grad_norm = self._clip()
        if is_updated := accept(loss, grad_norm):
            set_rates(self.optimizers, self.config, factor)
            self.scaler.step(self.optimizers)
        self.scaler.update()
        return StepResult(
            loss=loss,
            grad_norm=grad_norm,
            is_updated=is_updated,
            num_useful=num_useful,
            num_target=num_target,
            num_padded=num_padded,
            wait_s=wait_s,
            rank_step_s=(float(rows[:, 1].min()), float(rows[:, 1].max())),
            loss_scale=self.scaler.scale,
            stop=StopKind(int(rows[:, 2].max())),
        )

    def _count(self, step: StepInput) -> tuple[tuple[int, int, int], float]:
        """Return the step's ids on all ranks (useful, target, padded) and the longest wait."""
        batches = [item.batch for item in step.micro_batches]
        rows = self.ranks.gather(
            [
                sum(batch.num_useful for batch in batches),
                sum(batch.num_target for batch in batches),
                sum(batch.source_BS.size + batch.target_BT.size for batch in batches),
                step.wait_s,
            ]
        )
        useful, target, padded = (int(total) for total in rows[:, :3].sum(axis=0))
        return (useful, target, padded), float(rows[:, 3].max())

    def _accumulate(
        self, step: StepInput, num_target: int, stop_kind: Callable[[], StopKind]
    ) -> np.ndarray:
        """Leave the gradient of the step's mean loss; returns (nll, seconds, stop) of each rank."""
        start_s = time.perf_counter()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        # The wrappers average over ranks, each of which has its own share of the targets only.
        weight = self.ranks.world_size / num_target
        total, rows = 0.0, None
        for item in step.micro_batches:
            is_last = item is step.micro_batches[-1]
            with sync_gradients(self.module, is_last=is_last):
                loss, nll = self._forward(item)
                total = total + nll
                if is_last:
                    own = [float(total), time.perf_counter() - start_s, stop_kind()]
                    rows = self.ranks.gather(own)
                self.scaler.backward(loss * weight)
        assert rows is not None  # every rank has a share of every step
        return rows

    def _forward(self, item: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
        place = np.random.SeedSequence([self.seed, item.epoch, item.batch_idx])
        torch.manual_seed(int(place.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        source_BS = torch.from_numpy(item.batch.source_BS).to(self.device, non_blocking=True)
        target_BT = torch.from_numpy(item.batch.target_BT).to(self.device, non_blocking=True)
        with autocast(self.device, self.precision):
            return self.module(source_BS, target_BT)

    def _clip(self) -> float:
        self.scaler.unscale(self.optimizers)
        norm = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.config.max_grad_norm)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()  # FSDP2: each rank holds a part of the sum
        return norm.item()
