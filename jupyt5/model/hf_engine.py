# pyright: basic
"""The transformers engine: causal and encoder-decoder models, on a GPU where there is one.

Keys and values of the last prompts are kept, so that a prompt is read from where it differs from
one of them, and every hypothesis starts from a copy.
"""

import copy
import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DynamicCache,
    EncoderDecoderCache,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from jupyt5.errors import CheckpointError
from jupyt5.model.causal import FimIds, Logits
from jupyt5.model.shared_prefix import count_shared

__all__ = ["HfEngine"]

# Its bars would run through ours.
transformers_logging.disable_progress_bar()

_USUAL_TOKENS = 4096  # of models that do not say for how many they were trained
_MAX_PARALLEL = 16
_STATE_BYTES = 2 << 30  # keys and values of hypotheses beside each other
_BATCH = 64  # ids read at a time: how long a cancelled request still reads on a CPU
_NUM_KEPT = 4
_WORTH_COPYING = 32

# Models call them differently; the order is the same: prefix, suffix, middle.
_FIM_NAMES = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # noqa: RUF001
)
_SLOT_NAMES = ("<extra_id_0>", "<mask>")
_END_NAMES = (
    *("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|file_sep|>", "<file_sep>"),
    *("<|fim_pad|>", "<|repo_name|>", "<EOT>", "▁<EOT>", "<extra_id_1>"),
)


@dataclass(slots=True)
class _State:
    """What the model knows of a prompt."""

    ids: list[int]
    cache: Cache
    logits_V: Logits | None = None
    encoded: torch.Tensor | None = None


class HfEngine:
    """One transformers model and what it has read; see ``CausalEngine``."""

    def __init__(self, name: str) -> None:
        """Load a folder or, from the hub or its local cache, a model id.

        Weights are read as safetensors only, and no code that comes with a model is run.

        Raises:
            CheckpointError: If it is missing, damaged, or not a model of the kinds supported.
        """
        folder = Path(name).expanduser()
        place = str(folder) if folder.is_dir() else name
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            config = AutoConfig.from_pretrained(place)
            self._is_seq2seq = bool(config.is_encoder_decoder)
            kind = AutoModelForSeq2SeqLM if self._is_seq2seq else AutoModelForCausalLM
            dtype = "auto" if self._device.type == "cuda" else torch.float32
            model: Any = kind.from_pretrained(place, dtype=dtype, use_safetensors=True)
            tokenizer = AutoTokenizer.from_pretrained(place)
        except Exception as exc:  # the library raises whatever its parts raise
            message = (
                f"hf:{name} cannot be loaded: {exc}. Give a folder with config.json, "
                "tokenizer.json and model.safetensors, or the id of such a model."
            )
            raise CheckpointError(message) from exc
        if not tokenizer.is_fast:
            message = f"hf:{name} has no tokenizer.json. Use a model that comes with one."
            raise CheckpointError(message)
        self._model: Any = model.eval().to(self._device)
        # Newer releases of transformers 5 call it `cache`.
        parameters = inspect.signature(self._model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self.vocabulary = _HfVocabulary(tokenizer, is_seq2seq=self._is_seq2seq)
        trained = getattr(config, "max_position_embeddings", None) or _USUAL_TOKENS
        self.max_tokens = int(trained)
        self._token_bytes = _count_token_bytes(config, self._model.dtype.itemsize)
        self.end_ids, self.banned_ids = self._sort_special(tokenizer, config)
        self._kept: list[_State] = []
        self._rows: list[int] = []
        self._running: Any = None

    def make_room(self, num_prompt: int, max_tokens: int) -> int:
        """Return how many hypotheses run at a time; see ``CausalEngine``."""
        num_fitting = _STATE_BYTES // max(1, self._token_bytes * (num_prompt + max_tokens))
        return max(1, min(_MAX_PARALLEL, num_fitting))

    @torch.inference_mode()
    def read(self, prompt_ids: Sequence[int], cancel: threading.Event) -> Logits | None:
        """Read a prompt from where it differs from what is known; see ``CausalEngine``.

        Raises:
            CheckpointError: If the prompt is too long for the model.
        """
        wanted = list(prompt_ids)
        if len(wanted) >= self.max_tokens:
            message = (
                f"The prompt has {len(wanted)} tokens and the model takes {self.max_tokens}. "
                "Give fewer context cells."
            )
            raise CheckpointError(message)
        known = next((state for state in self._kept if state.ids == wanted), None)
        if known is None or known.logits_V is None:
            known = self._encode(wanted) if self._is_seq2seq else self._take_state(wanted)
            if not self._read_rest(known, wanted, cancel):
                return None
        self._kept = [known, *(state for state in self._kept if state is not known)][:_NUM_KEPT]
        return known.logits_V

    def fork(self, n: int) -> None:
        """Copy the prompt's state ``n`` times; see ``CausalEngine``."""
        self._running = copy.deepcopy(self._kept[0].cache)
        self._running.batch_repeat_interleave(n)
        self._rows = list(range(n))

    @torch.inference_mode()
    def step(self, ids: Mapping[int, int]) -> dict[int, Logits]:
        """Add one id to each continuation named; see ``CausalEngine``."""
        if list(ids) != self._rows:
            rows = torch.tensor([self._rows.index(slot) for slot in ids], device=self._device)
            if self._is_seq2seq:  # it hands the choice on to its parts, but has not the method
                for part in (
                    self._running.self_attention_cache,
                    self._running.cross_attention_cache,
                ):
                    part.batch_select_indices(rows)
            else:
                self._running.batch_select_indices(rows)
            self._rows = list(ids)
        logits_BV = self._forward([[token] for token in ids.values()], self._running)
        return dict(zip(ids, logits_BV, strict=True))

    def settle(self) -> None:
        """Drop the continuations; see ``CausalEngine``."""
        self._running = None
        self._rows = []

    def _encode(self, wanted: list[int]) -> _State:
        source_1S = torch.tensor([wanted], device=self._device)
        hidden_1SD = self._model.get_encoder()(source_1S).last_hidden_state
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        return _State(ids=[], cache=cache, encoded=hidden_1SD)

    def _take_state(self, wanted: Sequence[int]) -> _State:
        """Return a state that holds the beginning of a prompt, and no more than that."""
        best = max(self._kept, key=lambda state: count_shared(state.ids, wanted), default=None)
        shared = min(count_shared(best.ids, wanted), len(wanted) - 1) if best else 0
        if best is None or not shared or not best.cache.is_croppable:
            return _State(ids=[], cache=DynamicCache())
        num_surplus = len(best.ids) - shared
        if num_surplus >= _WORTH_COPYING:
            best = _State(ids=list(best.ids), cache=copy.deepcopy(best.cache))
        best.logits_V = None
        if num_surplus:
            del best.ids[shared:]
            best.cache.crop(-num_surplus)  # negative: so many off the end
        return best

    def _read_rest(self, state: _State, wanted: list[int], cancel: threading.Event) -> bool:
        """Read what is missing, in parts; False if cancelled between them."""
        if self._is_seq2seq:
            start = self._model.config.decoder_start_token_id
            state.logits_V = self._forward([[start]], state.cache, state.encoded)[0]
            state.ids = wanted
            return not cancel.is_set()
        for begin in range(len(state.ids), len(wanted), _BATCH):
            if cancel.is_set():
                return False
            part = wanted[begin : begin + _BATCH]
            state.logits_V = self._forward([part], state.cache)[0]
            state.ids += part
        return True

    def _forward(
        self, ids_BT: list[list[int]], cache: Cache, encoded: torch.Tensor | None = None
    ) -> Logits:
        ids = torch.tensor(ids_BT, device=self._device)
        given: dict[str, Any] = {self._cache_name: cache, "use_cache": True}
        if not self._is_seq2seq:
            output = self._model(input_ids=ids, logits_to_keep=1, **given)
        else:
            hidden = self._kept[0].encoded if encoded is None else encoded
            assert hidden is not None
            states = BaseModelOutput(last_hidden_state=hidden.expand(len(ids_BT), -1, -1))
            output = self._model(encoder_outputs=states, decoder_input_ids=ids, **given)
        return output.logits[:, -1].float().cpu().numpy()

    def _sort_special(
        self, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
    ) -> tuple[frozenset[int], npt.NDArray[np.intp]]:
        """Return (ids that end a text, other ids that are no text)."""
        ends: set[int] = set()
        generation = getattr(self._model, "generation_config", None)
        for holder in (tokenizer, config, generation):
            found = getattr(holder, "eos_token_id", None)
            ends.update([found] if isinstance(found, int) else found or ())
        ends |= {idx for name in _END_NAMES if (idx := self.vocabulary.find(name)) is not None}
        special: set[Any] = set(tokenizer.all_special_ids) | {
            idx for idx, token in tokenizer.added_tokens_decoder.items() if token.special
        }
        # Tables are often padded beyond the tokenizer's ids.
        rows = self._model.get_output_embeddings().weight.shape[0]
        special |= set(range(len(tokenizer), rows))
        special -= {*ends, self.vocabulary.slot}
        return frozenset(ends), np.array(
            sorted(i for i in special if i is not None and i < rows), dtype=np.intp
        )


def _count_token_bytes(config: PreTrainedConfig, item_bytes: int) -> int:
    """Return the bytes of one token's keys and values; 0 for a model that does not say."""
    num_layers = getattr(config, "num_hidden_layers", 0)
    num_heads = getattr(config, "num_attention_heads", 0)
    head_size = getattr(config, "head_dim", None) or getattr(config, "hidden_size", 0) // max(
        1, num_heads
    )
    num_kept = getattr(config, "num_key_value_heads", None) or num_heads
    return 2 * num_layers * num_kept * head_size * item_bytes


class _HfVocabulary:
    """A tokenizer of transformers; see ``Vocabulary``."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, is_seq2seq: bool) -> None:
        self._engine: Any = tokenizer.backend_tokenizer
        self._is_special = frozenset(tokenizer.all_special_ids) | {
            idx for idx, token in tokenizer.added_tokens_decoder.items() if token.special
        }
        self._lock = threading.Lock()  # the engine's flag is set for each text
        template = tokenizer.chat_template
        self.chat_template = template if isinstance(template, str) and not is_seq2seq else None
        # What it puts before a text by itself is what its model was trained with.
        ids = tokenizer("x")["input_ids"]
        adds_bos = bool(ids) and ids[0] == tokenizer.bos_token_id
        self.bos = str(tokenizer.bos_token) if adds_bos else ""
        self.eos = str(tokenizer.eos_token or "")
        fim = (tuple(map(self.find, names)) for names in _FIM_NAMES)
        found = next((ids for ids in fim if None not in ids), None)
        self.fim = FimIds(*found) if found and not is_seq2seq else None  # pyright: ignore
        slots = (self.find(name) for name in _SLOT_NAMES)
        self.slot = next((idx for idx in slots if idx is not None), None) if is_seq2seq else None

    def find(self, token: str) -> int | None:
        """Return the id of a token, None if there is none of that name."""
        return self._engine.token_to_id(token)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return ids; see ``Vocabulary``."""
        with self._lock:
            self._engine.encode_special_tokens = not special
            return self._engine.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return text; see ``Vocabulary``."""
        ordinary = [int(idx) for idx in ids if int(idx) not in self._is_special]
        return self._engine.decode(ordinary, skip_special_tokens=False)
