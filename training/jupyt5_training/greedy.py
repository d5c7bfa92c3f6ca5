# pyright: basic
"""Greedy hypotheses for a batch of sources, and how they compare with their references.

Tensor names end in their axes: B examples, S source positions, T target positions.
"""

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartForConditionalGeneration, GenerationConfig

from jupyt5.hypotheses.codebleu import MAX_CHARS, Comparison, explain_missing, score_comparisons
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.distributed import Ranks

__all__ = ["decode_greedily", "score_matches"]

logger = logging.getLogger(__name__)


def decode_greedily(
    model: BartForConditionalGeneration,
    sources: Sequence[npt.NDArray[np.int64]],
    tokenizer: Tokenizer,
    *,
    max_tokens: int,
) -> list[str]:
    """Decode one hypothesis a source, as the providers do: no special ids, at least one id.

    Args:
        model: The bare model, in evaluation mode.
        sources: Encoder ids, shape (S,) each.
        tokenizer: The model's.
        max_tokens: Longest hypothesis, its end mark included.
    """
    special = tokenizer.special
    longest = max(len(source) for source in sources)
    source_BS = np.full((len(sources), longest), special.pad, np.int64)
    for row, source in zip(source_BS, sources, strict=True):
        row[: len(source)] = source
    ids_BS = torch.from_numpy(source_BS).to(model.device)
    generator: Any = model  # the mixin's protocol does not fit its own classes
    generated_BT = generator.generate(
        input_ids=ids_BS,
        attention_mask=(ids_BS != special.pad).long(),
        generation_config=GenerationConfig(
            max_new_tokens=max_tokens,
            min_new_tokens=1,
            do_sample=False,
            num_beams=1,
            suppress_tokens=sorted(tokenizer.special_id_set - {special.eos}),
            decoder_start_token_id=model.config.decoder_start_token_id,
            pad_token_id=special.pad,
            eos_token_id=special.eos,
        ),
    )
    return [_decode_row(row, tokenizer) for row in generated_BT[:, 1:].tolist()]


def score_matches(pairs: Sequence[tuple[str, str]], ranks: Ranks | None = None) -> dict[str, float]:
    """Compare (reference, hypothesis) pairs, those of all ranks together.

    Returns:
        ``exact_match``: share of hypotheses equal to their reference but for blanks at line ends
        and empty lines around; ``codebleu``: mean over those that can be scored. Both in [0, 1];
        empty without pairs.
    """
    scores = _score_codebleu(pairs)
    num_equal = sum(_normalise(reference) == _normalise(text) for reference, text in pairs)
    own = [float(len(pairs)), float(num_equal), float(len(scores)), sum(scores)]
    num_pairs, num_equal, num_scored, total = (ranks or Ranks()).sum(own)
    figures: dict[str, float] = {}
    if num_pairs:
        figures["exact_match"] = num_equal / num_pairs
    if num_scored:
        figures["codebleu"] = total / num_scored
    return figures


def _decode_row(row: Sequence[int], tokenizer: Tokenizer) -> str:
    eos = tokenizer.special.eos
    end = row.index(eos) if eos in row else len(row)
    return tokenizer.decode(row[:end])


def _normalise(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def _score_codebleu(pairs: Sequence[tuple[str, str]]) -> list[float]:
    if _is_codebleu_missing():
        return []
    comparisons = [
        Comparison(f"held-out cell {idx}", reference, [text])
        for idx, (reference, text) in enumerate(pairs)
        if reference.strip() and max(len(reference), len(text)) <= MAX_CHARS
    ]
    found = score_comparisons(comparisons)
    return [scores[0] for scores in found if scores is not None and scores[0] is not None]


@functools.cache
def _is_codebleu_missing() -> bool:
    reason = explain_missing("train")
    if reason:
        logger.warning("CodeBLEU is left out. %s", reason)
    return bool(reason)
