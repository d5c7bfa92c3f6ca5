# pyright: standard
"""The llama.cpp engine: GGUF files on the CPU, through llama-cpp-python's bindings.

Keys and values stay in the library between requests: a prompt is read from where it differs from
the one before, and all hypotheses share those of the prompt. States of earlier prompts (another
notebook's, say) are kept aside and taken back when they fit better.
"""

import ctypes
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jupyt5.errors import CheckpointError
from jupyt5.model.causal import FimIds, Logits
from jupyt5.model.shared_prefix import count_shared

__all__ = ["LlamaEngine"]

logger = logging.getLogger(__name__)

# The bindings are ctypes; their declared types are not those of the values that they return, and
# the package is optional.
llama_cpp: Any = import_module("llama_cpp")
_Handle = Any

_NUM_CELLS = 4096  # of the state, shared by all hypotheses; more where a request needs more
_NUM_MORE = 1024
_MAX_PARALLEL = 16
_BATCH = 512
_PROMPT = 0  # sequence of the prompt; continuations are the sequences from 1 on

_WORTH_SWAPPING = 32  # tokens of a kept state that pay for copying it
_ASIDE_BYTES = 256 << 20

_ERROR, _CONTINUED = 4, 5  # levels of the library's log
_last_errors: deque[str] = deque(maxlen=3)


@llama_cpp.llama_log_callback
def _on_log(level: int, text: bytes, _user_data: object) -> None:
    line = text.decode("utf-8", "replace").strip()
    if level == _ERROR and line:
        _last_errors.append(line)
    if level != _CONTINUED and line:
        logger.debug("%s", line)


class LlamaEngine:
    """One GGUF model and its state; see ``CausalEngine``."""

    def __init__(self, path: Path, *, num_threads: int = 0) -> None:
        """Load a file.

        Args:
            path: A .gguf file of a decoder-only model.
            num_threads: CPU threads; 0 takes as many as the process may use.

        Raises:
            CheckpointError: If the file is missing, damaged, or of an unknown architecture.
        """
        llama_cpp.llama_log_set(_on_log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        _last_errors.clear()
        params = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise CheckpointError(_explain(path))
        self.vocabulary = _LlamaVocabulary(self._model)
        num_trained = llama_cpp.llama_model_n_ctx_train(self._model)
        self.max_tokens = num_trained if num_trained > 0 else _NUM_CELLS
        self._path = path
        self._num_threads = num_threads or _count_cpus()
        self._num_cells = _NUM_CELLS
        self._context = self._open(_NUM_CELLS)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(_BATCH, 0, 1)
        self._num_vocab = llama_cpp.llama_vocab_n_tokens(self.vocabulary.handle)
        self.end_ids, self.banned_ids = self.vocabulary.sort_special(self._num_vocab)
        self._prompt: list[int] = []
        self._last: tuple[list[int], Logits] | None = None  # prompt read last, logits after it
        self._continuations: list[list[int]] = []
        self._aside: deque[tuple[list[int], npt.NDArray[np.uint8]]] = deque()

    def make_room(self, num_prompt: int, max_tokens: int) -> int:
        """Make the state larger if need be; see ``CausalEngine``.

        Raises:
            CheckpointError: If the model cannot take so many tokens, or the memory is short.
        """
        wanted = num_prompt + max_tokens
        if wanted > self.max_tokens:
            raise CheckpointError(self._refuse(wanted))
        if wanted > self._num_cells:
            self._grow(min(-(-wanted // _NUM_MORE) * _NUM_MORE, self.max_tokens))
        return min(_MAX_PARALLEL, (self._num_cells - num_prompt) // max_tokens)

    def read(self, prompt_ids: Sequence[int], cancel: threading.Event) -> Logits | None:
        """Read a prompt from where it differs from what is known; see ``CausalEngine``.

        Raises:
            CheckpointError: If the library fails, or the prompt is too long for it.
        """
        wanted = list(prompt_ids)
        if len(wanted) >= self.max_tokens:
            raise CheckpointError(self._refuse(len(wanted)))
        if self._last and self._last[0] == wanted == self._prompt[: len(wanted)]:
            # Not read again: in a batch of another size the numbers would differ a little.
            self._forget(len(wanted))
            if self._prompt == wanted:
                return self._last[1]
        self._choose_state(wanted)
        # The last id is read again where all are known: logits are only made while reading.
        start = min(count_shared(self._prompt, wanted), len(wanted) - 1)
        self._forget(start)
        part: list[int] = []
        for begin in range(len(self._prompt), len(wanted), _BATCH):
            part = wanted[begin : begin + _BATCH]
            entries = [(token, begin + i, _PROMPT) for i, token in enumerate(part)]
            if not self._read_batch(entries, cancel):
                self._forget(begin)
                return None
            self._prompt += part
        self._last = (wanted, self._get_logits(len(part) - 1))
        return self._last[1]

    def fork(self, n: int) -> None:
        """Make continuations, which share the prompt's keys and values; see ``CausalEngine``."""
        self._continuations = [[] for _ in range(n)]
        for slot in range(n):
            llama_cpp.llama_memory_seq_cp(self._memory, _PROMPT, slot + 1, -1, -1)

    def step(self, ids: Mapping[int, int]) -> dict[int, Logits]:
        """Add one id to each continuation named, all in one pass; see ``CausalEngine``."""
        entries = [
            (token, len(self._prompt) + len(self._continuations[slot]), slot + 1)
            for slot, token in ids.items()
        ]
        if not self._decode(entries, range(len(entries))):
            message = "llama.cpp stopped while decoding."
            raise CheckpointError(message)
        for slot, token in ids.items():
            self._continuations[slot].append(token)
        return {slot: self._get_logits(row) for row, slot in enumerate(ids)}

    def settle(self) -> None:
        """Keep the first continuation behind the prompt, for it may be accepted."""
        if not self._continuations:
            return
        kept = self._continuations[0]
        if kept:
            start = len(self._prompt)
            llama_cpp.llama_memory_seq_cp(self._memory, 1, _PROMPT, start, -1)
            self._prompt += kept
        for slot in range(len(self._continuations)):
            llama_cpp.llama_memory_seq_rm(self._memory, slot + 1, -1, -1)
        self._continuations = []

    def close(self) -> None:
        """Free the library's memory; the engine is of no use afterwards."""
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            llama_cpp.llama_model_free(self._model)
        self._context = self._model = None

    def __del__(self) -> None:
        if getattr(self, "_batch", None) is not None:
            self.close()

    def _read_batch(self, entries: Sequence[tuple[int, int, int]], cancel: threading.Event) -> bool:
        """Run a batch that takes long; False if cancelled, while the library was at it, too.

        The library works on a thread of its own: it asks at each node of its graph whether to
        go on, and Ctrl-C must not fall into that callback, which no exception can leave.
        """
        stop = threading.Event()
        outcome: list[bool | CheckpointError] = []

        def work() -> None:
            try:
                outcome.append(self._decode(entries, [len(entries) - 1], (cancel, stop)))
            except CheckpointError as exc:
                outcome.append(exc)

        on_node = llama_cpp.ggml_abort_callback(lambda _data: cancel.is_set() or stop.is_set())
        llama_cpp.llama_set_abort_callback(self._context, on_node, ctypes.c_void_p(0))
        worker = threading.Thread(target=work, name="jupyt5-read", daemon=True)
        worker.start()
        try:
            worker.join()
        finally:
            stop.set()
            worker.join()
            never = llama_cpp.ggml_abort_callback(0)
            llama_cpp.llama_set_abort_callback(self._context, never, ctypes.c_void_p(0))
        (found,) = outcome
        if isinstance(found, CheckpointError):
            raise found
        return found

    def _grow(self, num_cells: int) -> None:
        """Take a larger state; what was read is read again."""
        _last_errors.clear()
        larger = self._try_open(num_cells)
        if not larger:
            reason = " ".join(_last_errors) or "llama.cpp gave no reason"
            message = (
                f"There is no room for {num_cells} tokens: {reason}. Give fewer context cells, or "
                "ask for fewer prompt tokens."
            )
            raise CheckpointError(message)
        llama_cpp.llama_free(self._context)
        self._context, self._num_cells = larger, num_cells
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._prompt, self._last = [], None

    def _refuse(self, num_tokens: int) -> str:
        return (
            f"Prompt and answer need {num_tokens} tokens and the model takes {self.max_tokens}. "
            "Give fewer context cells, or ask for shorter answers."
        )

    def _open(self, num_cells: int) -> _Handle:
        context = self._try_open(num_cells)
        if not context:
            raise CheckpointError(_explain(self._path))
        return context

    def _try_open(self, num_cells: int) -> _Handle:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = num_cells
        params.n_batch = params.n_ubatch = _BATCH
        params.n_seq_max = _MAX_PARALLEL + 1
        params.n_threads = params.n_threads_batch = self._num_threads
        params.kv_unified = True  # continuations share the prompt's cells
        return llama_cpp.llama_init_from_model(self._model, params)

    def _decode(
        self,
        entries: Sequence[tuple[int, int, int]],
        rows: Sequence[int],
        ends: Sequence[threading.Event] = (),
    ) -> bool:
        """Run (id, position, sequence) entries; False if ended. ``rows`` get logits."""
        batch = self._batch
        batch.n_tokens = len(entries)
        for row, (token, position, sequence) in enumerate(entries):
            batch.token[row] = token
            batch.pos[row] = position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = sequence
            batch.logits[row] = 0
        for row in rows:
            batch.logits[row] = 1
        status = llama_cpp.llama_decode(self._context, batch)
        if status == 0:
            return True
        if any(end.is_set() for end in ends):
            return False
        message = f"llama.cpp could not decode (status {status}). {' '.join(_last_errors)}".strip()
        raise CheckpointError(message)

    def _get_logits(self, row: int) -> Logits:
        pointer = llama_cpp.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(pointer, shape=(self._num_vocab,)).copy()

    def _forget(self, start: int) -> None:
        """Drop the prompt's state from a position on; all of it where only that is possible."""
        if llama_cpp.llama_memory_seq_rm(self._memory, _PROMPT, start, -1):
            del self._prompt[start:]
            return
        llama_cpp.llama_memory_seq_rm(self._memory, _PROMPT, -1, -1)
        self._prompt = []

    def _choose_state(self, wanted: Sequence[int]) -> None:
        """Take back the state of an earlier prompt if it shares more with the new one."""
        shared = count_shared(self._prompt, wanted)
        if len(self._prompt) - shared >= _WORTH_SWAPPING:
            self._put_aside()
        best = max(self._aside, key=lambda kept: count_shared(kept[0], wanted), default=None)
        if best is None or count_shared(best[0], wanted) < shared + _WORTH_SWAPPING:
            return
        ids, state = best
        self._forget(0)
        pointer = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        if llama_cpp.llama_state_seq_set_data(self._context, pointer, state.size, _PROMPT):
            self._prompt = list(ids)

    def _put_aside(self) -> None:
        size = llama_cpp.llama_state_seq_get_size(self._context, _PROMPT)
        others = [kept for kept in self._aside if not _begins_with(self._prompt, kept[0])]
        state = np.empty(size, dtype=np.uint8)
        pointer = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        if size > _ASIDE_BYTES or not llama_cpp.llama_state_seq_get_data(
            self._context, pointer, size, _PROMPT
        ):
            return
        self._aside = deque([*others, (list(self._prompt), state)])
        while sum(kept.size for _, kept in self._aside) > _ASIDE_BYTES:
            self._aside.popleft()


class _LlamaVocabulary:
    """The tokenizer inside a GGUF file; see ``Vocabulary``."""

    slot = None

    def __init__(self, model: _Handle) -> None:
        self.handle = llama_cpp.llama_model_get_vocab(model)
        template = llama_cpp.llama_model_chat_template(model, None)
        self.chat_template = template.decode("utf-8", "replace") if template else None
        adds_bos = llama_cpp.llama_vocab_get_add_bos(self.handle)
        self.bos = self._name(llama_cpp.llama_vocab_bos(self.handle)) if adds_bos else ""
        self.eos = self._name(llama_cpp.llama_vocab_eos(self.handle))
        fim = [
            get(self.handle)
            for get in (
                llama_cpp.llama_vocab_fim_pre,
                llama_cpp.llama_vocab_fim_suf,
                llama_cpp.llama_vocab_fim_mid,
            )
        ]
        self.fim = FimIds(*fim) if min(fim) >= 0 else None

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return ids; see ``Vocabulary``."""
        data = text.encode("utf-8", "replace")
        if not data:
            return []
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self.handle, data, len(data), ids, len(ids), False, special
        )
        return list(ids[:count])

    def decode(self, ids: Sequence[int]) -> str:
        """Return text; see ``Vocabulary``."""
        return b"".join(map(self._piece, ids)).decode("utf-8", "replace")

    def sort_special(self, num_vocab: int) -> tuple[frozenset[int], npt.NDArray[np.intp]]:
        """Return (ids that end a text, other special ids)."""
        ends = {i for i in range(num_vocab) if llama_cpp.llama_vocab_is_eog(self.handle, i)}
        special = {i for i in range(num_vocab) if llama_cpp.llama_vocab_is_control(self.handle, i)}
        return frozenset(ends), np.array(sorted(special - ends), dtype=np.intp)

    def _piece(self, token_id: int) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        size = llama_cpp.llama_token_to_piece(self.handle, token_id, buffer, 64, 0, False)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = llama_cpp.llama_token_to_piece(self.handle, token_id, buffer, -size, 0, False)
        return buffer.raw[:size]

    def _name(self, token_id: int) -> str:
        text = llama_cpp.llama_vocab_get_text(self.handle, token_id) if token_id >= 0 else b""
        return text.decode("utf-8", "replace") if text else ""


def _count_cpus() -> int:
    """Return how many CPUs this process may use, where the platform tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begins_with(ids: Sequence[int], beginning: Sequence[int]) -> bool:
    return count_shared(ids, beginning) == len(beginning)


def _explain(path: Path) -> str:
    reason = " ".join(_last_errors) or "llama.cpp gave no reason"
    return f"{path} cannot be loaded: {reason}. Give the path of a GGUF file of a causal model."
