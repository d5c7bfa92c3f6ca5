# pyright: basic
"""AdamW, alone or beside Muon for the hidden matrices."""

import torch

from jupyt5_training.recipes import OptimizerConfig

__all__ = ["build_optimizers", "set_rates"]


def build_optimizers(
    model: torch.nn.Module, config: OptimizerConfig
) -> tuple[torch.optim.Optimizer, ...]:
    """Return the optimizers of a model's parameters; weight decay on matrices only."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    adamw = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=config.peak_lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    return (adamw,)


def set_rates(
    optimizers: tuple[torch.optim.Optimizer, ...], config: OptimizerConfig, factor: float
) -> None:
    """Set every learning rate to ``factor`` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = config.peak_lr * factor
