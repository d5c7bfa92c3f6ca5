"""The learning rate of a step."""

import math

from jupyt5_training.recipes import OptimizerConfig

__all__ = ["learning_rate"]


def learning_rate(step: int, num_steps: int, config: OptimizerConfig) -> float:
    """Return the learning rate of a step.

    Linear warm-up to ``peak_lr``, then ``peak_lr * sqrt(warmup / step)`` (Vaswani et al. 2017,
    section 5.3), times a line to zero over the last ``cooldown_steps``.

    Args:
        step: From 1.
        num_steps: Last step of the run.
        config: Peak, warm-up and cool-down.
    """
    warmup = max(1, config.warmup_steps)
    rate = config.peak_lr * min(step / warmup, math.sqrt(warmup / step))
    if config.cooldown_steps:
        rate *= min(1.0, (num_steps - step + 1) / config.cooldown_steps)
    return rate
