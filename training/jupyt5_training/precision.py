# pyright: basic
"""Number formats of training: products in a short format, weights and moments in float32."""

import torch

__all__ = ["LossScaler", "autocast"]


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the context in which matrix products use ``precision``."""
    is_short = precision != "float32"
    dtype = getattr(torch, precision) if is_short else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=is_short)


class LossScaler:
    """Scales the loss up for float16, whose small gradients would be 0; else does nothing.

    Args:
        device: Where the model is.
        precision: See ``autocast``.
    """

    def __init__(self, device: torch.device, precision: str) -> None:
        self._scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")

    @property
    def scale(self) -> float:
        """Factor of the loss; 1 if it is not scaled."""
        return self._scaler.get_scale()

    @property
    def state(self) -> tuple[float, int]:
        """The scale, and the steps since it last changed; (0, 0) if the loss is not scaled."""
        if not self._scaler.is_enabled():
            return 0.0, 0
        state = self._scaler.state_dict()
        return float(state["scale"]), int(state["_growth_tracker"])

    def load(self, state: tuple[float, int]) -> None:
        """Go on from a ``state``; (0, 0) leaves torch's own beginning, 65,536."""
        scale, growth_tracker = state
        if self._scaler.is_enabled() and scale:
            fields = {"scale": scale, "_growth_tracker": growth_tracker}
            self._scaler.load_state_dict({**self._scaler.state_dict(), **fields})

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of the scaled loss."""
        self._scaler.scale(loss).backward()

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
