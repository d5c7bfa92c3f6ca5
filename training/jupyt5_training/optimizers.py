# pyright: basic
"""AdamW, alone or beside Muon for the hidden matrices."""

import torch

from jupyt5_training.recipes import OptimizerConfig

__all__ = ["build_optimizers", "set_rates"]


def build_optimizers(
    model: torch.nn.Module, config: OptimizerConfig
) -> tuple[torch.optim.Optimizer, ...]:
    """Return the optimizers of a model's parameters; weight decay on matrices only.

    ``muon`` (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) takes the matrices
    inside the layers, scaled to the size of AdamW's updates (Liu et al. 2025,
    https://arxiv.org/abs/2502.16982); embeddings and vectors stay with AdamW.
    """
    hidden = []
    if config.name == "muon":
        hidden = [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.ndim == 2 and ".layers." in name
        ]
    taken = {id(parameter) for parameter in hidden}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    matrices = [parameter for parameter in rest if parameter.ndim > 1]
    vectors = [parameter for parameter in rest if parameter.ndim <= 1]
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
    if not hidden:
        return (adamw,)
    muon = torch.optim.Muon(
        hidden,
        lr=config.muon_lr,
        momentum=config.muon_momentum,
        weight_decay=config.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return (muon, adamw)


def set_rates(
    optimizers: tuple[torch.optim.Optimizer, ...], config: OptimizerConfig, factor: float
) -> None:
    """Set every learning rate to ``factor`` times its peak."""
    for optimizer in optimizers:
        is_muon = isinstance(optimizer, torch.optim.Muon)
        for group in optimizer.param_groups:
            group["lr"] = factor * (config.muon_lr if is_muon else config.peak_lr)
