"""What a step costs on paper, and how much of a device's peak it used."""

from dataclasses import dataclass

import torch

from jupyt5.model.presets import ModelShape

__all__ = ["FlopCount", "count_flops", "find_peak"]

# Dense peaks of matrix products in bfloat16 (V100: float16), in FLOP/s, from NVIDIA's data sheets.
_PEAKS = {"V100": 125e12, "A100": 312e12, "H100": 989e12, "H200": 989e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopCount:
    """FLOPs of training an id, forward and backward, without attention's scores (2 to 6 %).

    Attributes:
        source: For each source id.
        target: For each target id.
        peak: Of one device, FLOP/s; 0 if it is not known.
    """

    source: float
    target: float
    peak: float = 0.0

    def utilisation(
        self, num_source: int, num_target: int, seconds: float, num_devices: int
    ) -> float | None:
        """Return the share of the peak (MFU) that useful ids made use of; None if not known."""
        if not self.peak:
            return None
        total = self.source * num_source + self.target * num_target
        return total / (seconds * num_devices * self.peak)


def count_flops(shape: ModelShape, *, peak: float = 0.0) -> FlopCount:
    """Count from a model's sizes: 6 FLOPs for each weight that an id meets.

    A source id meets the encoder and the keys and values of the decoder's cross-attention; a
    target id the rest of the decoder and the table of output ids.
    """
    d_model, matrix = shape.d_model, shape.d_model**2
    feed_forward = 2 * d_model * shape.ffn_dim
    source = shape.encoder_layers * (4 * matrix + feed_forward) + shape.decoder_layers * 2 * matrix
    target = shape.decoder_layers * (6 * matrix + feed_forward) + d_model * shape.vocab_size
    return FlopCount(source=6.0 * source, target=6.0 * target, peak=peak)


def find_peak(device: torch.device) -> float:
    """Return a device's peak, FLOP/s; 0 if it is not known."""
    if device.type != "cuda":
        return 0.0
    device_name = torch.cuda.get_device_name(device)
    return next((peak for name, peak in _PEAKS.items() if name in device_name), 0.0)
