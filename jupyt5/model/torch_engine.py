# pyright: basic
"""The torch engine: decodes a checkpoint folder of safetensors, on a GPU where there is one."""

import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from jupyt5.model.decoding import DecodeRequest, Step
from jupyt5.model.seq2seq import load_model
from jupyt5.tokenizer import Tokenizer

__all__ = ["TorchEngine"]


class TorchEngine:
    """Decodes with a BART model; the encoder runs once for all hypotheses."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Load a folder.

        Raises:
            CheckpointError: If the folder is incomplete or its weights do not fit.
        """
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = load_model(folder).eval()
        self._model.to(self._device)  # pyright: ignore[reportArgumentType]
        # Newer releases of transformers 5 call it `cache`.
        parameters = inspect.signature(self._model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        special = tokenizer.special
        banned = [*(special.control.values()), special.pad, special.bos, special.slot]
        padding = range(tokenizer.vocab_size, self._model.config.vocab_size)
        self._banned = torch.tensor([*banned, tokenizer.unk_id, *padding], device=self._device)
        self._eos = special.eos

    def decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        """Draw hypotheses; see ``Engine.decode``."""
        with torch.inference_mode():
            yield from self._decode(request, cancel)

    def _decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        rng = torch.Generator(device=self._device).manual_seed(request.seed % (1 << 64))
        n = 1 if request.temperature == 0 else request.n
        source_1S = torch.tensor([list(request.source_ids)], device=self._device)
        hidden_1SD = self._model.get_encoder()(source_1S).last_hidden_state
        encoded = BaseModelOutput(last_hidden_state=hidden_1SD.expand(n, -1, -1))
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        start = [self._model.config.decoder_start_token_id, *request.forced_ids]
        next_BT = torch.tensor([start] * n, device=self._device)
        alive = [True] * n
        for position in range(request.max_tokens):
            output = self._model(
                encoder_outputs=encoded, decoder_input_ids=next_BT, **{self._cache_name: cache}
            )
            logits_BV = output.logits[:, -1].float()
            logits_BV = logits_BV.index_fill(1, self._banned, -torch.inf)
            if position == 0 and not request.forced_ids:  # as CTranslate2: at least one id in all
                logits_BV[:, self._eos] = -torch.inf
            log_probs_BV = F.log_softmax(logits_BV, dim=-1)
            chosen_B = _choose(logits_BV, request, rng)
            for idx in range(n):
                if not alive[idx]:
                    continue
                token_id = int(chosen_B[idx])
                alive[idx] = token_id != self._eos and position + 1 < request.max_tokens
                log_prob = float(log_probs_BV[idx, token_id])
                shown = None if token_id == self._eos else token_id
                yield Step(idx, shown, log_prob, not alive[idx])
                if cancel.is_set():
                    return
            if not any(alive):
                return
            next_BT = chosen_B[:, None]


def _choose(logits_BV: torch.Tensor, request: DecodeRequest, rng: torch.Generator) -> torch.Tensor:
    """Pick one id a row: the best, or a draw after temperature, top-k and then top-p."""
    if request.temperature == 0:
        return logits_BV.argmax(dim=-1)
    k = min(request.top_k or logits_BV.shape[1], logits_BV.shape[1])
    top_BK, ids_BK = (logits_BV / request.temperature).topk(k, dim=-1)
    probs_BK = top_BK.softmax(dim=-1)
    before_BK = probs_BK.cumsum(dim=-1) - probs_BK
    probs_BK = probs_BK.masked_fill(before_BK >= request.top_p, 0.0)
    drawn_B1 = torch.multinomial(probs_BK, 1, generator=rng)
    return ids_BK.gather(1, drawn_B1)[:, 0]
