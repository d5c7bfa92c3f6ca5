"""The learning rate of a step."""

import math

from jupyt5_training.recipes import OptimizerConfig

__all__ = ["rate_factor"]


def rate_factor(step: int, num_steps: int, config: OptimizerConfig) -> float:
    """Return the share of its peak that every learning rate has in a step.

    A line up to the peak over ``warmup_steps``, then by ``config.schedule``:

    - ``inverse-sqrt``: ``sqrt(warmup / step)`` (Vaswani et al. 2017, section 5.3);
    - ``cosine``: half a wave down to 0 at the end of the run;
    - ``constant``: the peak.

    Except for ``cosine`` the last ``cooldown_steps`` go down to 0 in a line. With ``decay_every``
    there is such a decay before every multiple of it, and after it the peak again: the weights
    there are as good as a whole run's of that length, and the run goes on from them (WSD-S, Wen et
    al. 2024, https://arxiv.org/abs/2410.05192).

    Args:
        step: From 1.
        num_steps: Last step of the run.
        config: Schedule, warm-up and cool-down.
    """
    warmup = max(1, config.warmup_steps)
    factor = min(1.0, step / warmup)
    if config.schedule == "inverse-sqrt":
        factor *= min(1.0, math.sqrt(warmup / step))
    elif config.schedule == "cosine":
        done = max(0, step - warmup) / max(1, num_steps - warmup)
        return factor * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    if config.cooldown_steps:
        end = num_steps
        if config.decay_every:
            end = min(end, math.ceil(step / config.decay_every) * config.decay_every)
        factor *= min(1.0, (end - step + 1) / config.cooldown_steps)
    return factor
