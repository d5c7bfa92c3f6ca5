# pyright: basic
"""A moving average of the weights (EMA): evaluated and exported in their place."""

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn
from transformers import BartForConditionalGeneration

__all__ = ["WeightAverage"]


class WeightAverage:
    """Follows a model's weights.

    Args:
        followed: The model to follow.
        model: A second one of the same kind and distribution; holds the average.
        module: The wrapped ``model``.
        decay: Share of the old average that stays at each step, in (0, 1).
    """

    def __init__(
        self,
        followed: torch.nn.Module,
        model: BartForConditionalGeneration,
        module: torch.nn.Module,
        *,
        decay: float,
    ) -> None:
        self.model = model
        self.module = module
        self._followed = followed
        self._decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after ``step`` (from 1) in; the first steps are forgotten faster."""
        decay = min(self._decay, step / (step + 10))
        averages, weights = tuple(self.model.parameters()), tuple(self._followed.parameters())
        get_ema_multi_avg_fn(decay)(averages, weights, None)
