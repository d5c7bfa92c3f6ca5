# pyright: standard
"""The CTranslate2 engine: int8 weights on the CPU, no torch."""

import atexit
import queue
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import ctranslate2

from jupyt5.errors import CheckpointError
from jupyt5.model.decoding import DecodeRequest, Step
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer

__all__ = ["Ct2Engine"]

_END = "</s>"
_NEVER_GENERATED = [[token] for token in SPECIAL_TOKENS if token != _END]
_MODEL_NAMES = ("config.json", "model.bin", "shared_vocabulary.json")


class Ct2Engine:
    """Decodes with one CTranslate2 model.

    The library seeds a random generator per worker thread when the thread first samples, so each
    request that samples gets a translator of its own, built from the files held in memory: that
    is what makes a seed count.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, num_threads: int = 0) -> None:
        """Load a folder.

        Args:
            folder: As written by ``export_ctranslate2``.
            tokenizer: The folder's tokenizer.
            num_threads: CPU threads of one request; 0 leaves the library's choice.

        Raises:
            CheckpointError: If the folder is incomplete or not a CTranslate2 model.
        """
        self._tokens = tokenizer.tokens
        self._ids = {token: idx for idx, token in enumerate(tokenizer.tokens)}
        self._num_threads = num_threads
        self._name = str(folder)
        try:
            self._files = {name: (folder / name).read_bytes() for name in _MODEL_NAMES}
            self._greedy = self._build()
        except (OSError, RuntimeError, ValueError) as exc:
            message = f"{folder} cannot be loaded: {exc}. Export the checkpoint again."
            raise CheckpointError(message) from exc
        self._seed_lock = threading.Lock()
        self._is_closing = threading.Event()
        _engines.add(self)

    def close(self) -> None:
        """Stop what is being decoded and end the library's threads."""
        self._is_closing.set()
        del self._greedy

    def decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        """Draw hypotheses; see ``Engine.decode``."""
        steps: queue.SimpleQueue[Step | BaseException | None] = queue.SimpleQueue()
        stop = threading.Event()

        num_forced = len(request.forced_ids)

        def on_step(result: ctranslate2.GenerationStepResult) -> bool:
            if result.step >= num_forced:
                token_id = None if result.token == _END else self._ids[result.token]
                steps.put(Step(result.hypothesis_id, token_id, result.log_prob, result.is_last))
            return stop.is_set() or cancel.is_set() or self._is_closing.is_set()

        def work() -> None:
            try:
                self._translate(request, on_step)
                steps.put(None)
            except BaseException as exc:
                steps.put(exc)

        worker = threading.Thread(target=work, name="jupyt5-decode", daemon=True)
        worker.start()
        try:
            while (item := steps.get()) is not None:
                if isinstance(item, BaseException):
                    message = f"{self._name} failed while decoding: {item}"
                    raise CheckpointError(message) from item
                if cancel.is_set():
                    break
                yield item
        finally:
            stop.set()
            worker.join()

    def _translate(self, request: DecodeRequest, on_step: object) -> None:
        is_greedy = request.temperature == 0
        translator = self._greedy if is_greedy else self._build_seeded(request.seed)
        forced = [self._tokens[idx] for idx in request.forced_ids]
        translator.translate_batch(
            [[self._tokens[idx] for idx in request.source_ids]],
            target_prefix=[forced] if forced else None,
            beam_size=1,
            num_hypotheses=1 if is_greedy else request.n,
            max_input_length=0,
            max_decoding_length=request.max_tokens + len(forced),
            sampling_topk=1 if is_greedy else request.top_k,
            sampling_topp=request.top_p,
            sampling_temperature=1.0 if is_greedy else request.temperature,
            suppress_sequences=_NEVER_GENERATED,
            return_scores=True,
            callback=on_step,
        )

    def _build_seeded(self, seed: int) -> ctranslate2.Translator:
        with self._seed_lock:
            ctranslate2.set_random_seed(seed % (1 << 31))
            return self._build()

    def _build(self) -> ctranslate2.Translator:
        return ctranslate2.Translator(
            self._name,
            device="cpu",
            compute_type="default",
            inter_threads=1,
            intra_threads=self._num_threads,
            files=dict(self._files),
        )


_engines: "weakref.WeakSet[Ct2Engine]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End the library's threads while Python lives.

    A thread of the library that lets go of its callback while the interpreter shuts down aborts
    the process.
    """
    for engine in list(_engines):
        engine.close()
