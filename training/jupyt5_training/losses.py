# pyright: basic
"""The training loss: negative log-likelihood of target ids by teacher forcing.

Tensor names end in their axes: B examples, S source positions, T target positions, N target ids,
V vocabulary, D width.
"""

import torch
import torch.nn.functional as F
from transformers import BartForConditionalGeneration

__all__ = ["InfillingLoss", "sum_nll", "target_nll"]


class InfillingLoss(torch.nn.Module):
    """A BART model that returns its loss, so that wrappers see one forward pass.

    Args:
        model: The model.
        pad: Id that fills up sources and targets.
        label_smoothing: Probability that the training loss spreads over the whole vocabulary.
    """

    def __init__(
        self, model: BartForConditionalGeneration, *, pad: int, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.model = model
        self._pad = pad
        self._label_smoothing = label_smoothing

    def forward(
        self, source_BS: torch.Tensor, target_BT: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss to minimise and the bare negative log-likelihood, sums in nats."""
        logits_NV, target_N = _target_logits(self.model, source_BS, target_BT, self._pad)
        nll = F.cross_entropy(logits_NV, target_N, reduction="sum")
        if not self._label_smoothing:
            return nll, nll.detach()
        smooth = F.cross_entropy(
            logits_NV, target_N, reduction="sum", label_smoothing=self._label_smoothing
        )
        return smooth, nll.detach()


def sum_nll(
    model: BartForConditionalGeneration,
    source_BS: torch.Tensor,
    target_BT: torch.Tensor,
    *,
    pad: int,
) -> torch.Tensor:
    """Return the negative log-likelihood of all target ids, a sum in nats."""
    logits_NV, target_N = _target_logits(model, source_BS, target_BT, pad)
    return F.cross_entropy(logits_NV, target_N, reduction="sum")


def target_nll(
    model: BartForConditionalGeneration,
    source_BS: torch.Tensor,
    target_BT: torch.Tensor,
    *,
    pad: int,
) -> torch.Tensor:
    """Return the negative log-likelihood of each target in nats, shape (B,)."""
    logits_NV, target_N = _target_logits(model, source_BS, target_BT, pad)
    nll_N = F.cross_entropy(logits_NV, target_N, reduction="none").float()
    rows_N = (target_BT != pad).nonzero()[:, 0]
    return nll_N.new_zeros(len(target_BT)).index_add(0, rows_N, nll_N)


def _target_logits(
    model: BartForConditionalGeneration, source_BS: torch.Tensor, target_BT: torch.Tensor, pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    start_id = model.config.decoder_start_token_id
    assert start_id is not None  # every preset names it
    start_B1 = torch.full_like(target_BT[:, :1], start_id)
    hidden_BTD = model.model(
        input_ids=source_BS,
        attention_mask=(source_BS != pad).long(),
        decoder_input_ids=torch.cat([start_B1, target_BT[:, :-1]], dim=1),
        use_cache=False,
    ).last_hidden_state
    keep_BT = target_BT != pad
    # Logits only where there is a target: the table is the largest matrix of a small model.
    return model.lm_head(hidden_BTD[keep_BT]), target_BT[keep_BT]
