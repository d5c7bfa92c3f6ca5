# pyright: basic
"""Number formats of training: products in a short format, weights and moments in float32."""

import torch

__all__ = ["PRECISIONS", "LossScaler", "autocast"]

PRECISIONS = ("float32", "bfloat16", "float16")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products use ``precision``."""
    is_short = precision != "float32"
    dtype = getattr(torch, precision) if is_short else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=is_short)


class LossScaler:
    """float16 gradients underflow unless the loss is scaled up; for other formats it does nothing.

    Args:
        device: Where the model is.
        precision: See ``autocast``.
        scale: To begin with; 0 for torch's default, 65,536.
    """

    def __init__(self, device: torch.device, precision: str, *, scale: float = 0.0) -> None:
        self._scaler = torch.amp.GradScaler(
            device.type, init_scale=scale or 2.0**16, enabled=precision == "float16"
        )

    @property
    def is_on(self) -> bool:
        """Whether the loss is scaled at all."""
        return self._scaler.is_enabled()

    @property
    def scale(self) -> float:
        """Factor of the loss; 1 if it is not scaled."""
        return self._scaler.get_scale()

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to call ``backward`` on."""
        return self._scaler.scale(loss)

    def unscale(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Divide the gradients by the scale."""
        for optimizer in optimizers:
            self._scaler.unscale_(optimizer)

    def step(self, optimizers: tuple[torch.optim.Optimizer, ...]) -> None:
        """Step the optimizers, unless a gradient overflowed."""
        for optimizer in optimizers:
            self._scaler.step(optimizer)

    def update(self) -> None:
        """Halve the scale after an overflow, double it after 2,000 steps without one."""
        self._scaler.update()
