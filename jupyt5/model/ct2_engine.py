# pyright: standard
"""The CTranslate2 engine: int8 weights on the CPU, no torch."""

import atexit
import queue
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import ctranslate2

from jupyt5.errors import CheckpointError
from jupyt5.model.decoding import DecodeRequest, Step
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer

__all__ = ["Ct2Engine"]

_END = "</s>"
_NEVER_GENERATED = [[token] for token in SPECIAL_TOKENS if token != _END]
_OnStep = Callable[[ctranslate2.GenerationStepResult], bool]
_PATIENCE_S = 10.0  # a step takes milliseconds, reading a long source with a large model seconds
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
        self._is_closing = threading.Event()
        self._workers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        _engines.add(self)

    def close(self) -> None:
        """Stop what is being decoded, wait for it, and end the library's threads.

        An interrupt can end ``decode`` before its thread has ended. It waits 10 s at most.
        """
        self._is_closing.set()
        deadline_s = time.monotonic() + _PATIENCE_S
        for worker in list(self._workers):
            _join(worker, max(0.0, deadline_s - time.monotonic()))
        del self._greedy

    def decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        """Draw hypotheses; see ``Engine.decode``."""
        steps: queue.SimpleQueue[Step | BaseException | None] = queue.SimpleQueue()
        stop = threading.Event()
        # The library drops the callback on a thread of its own. Were this engine to go with it,
        # its translator would wait there for the end of that very thread, and abort.
        num_forced, ids, is_closing = len(request.forced_ids), self._ids, self._is_closing

        def on_step(result: ctranslate2.GenerationStepResult) -> bool:
            if result.step >= num_forced:
                token_id = None if result.token == _END else ids[result.token]
                steps.put(Step(result.hypothesis_id, token_id, result.log_prob, result.is_last))
            return stop.is_set() or cancel.is_set() or is_closing.is_set()

        def work() -> None:
            try:
                self._translate(request, on_step)
                steps.put(None)
            except BaseException as exc:
                steps.put(exc)

        worker = threading.Thread(target=work, name="jupyt5-decode", daemon=True)
        self._workers.add(worker)
        try:
            worker.start()
            while (item := steps.get()) is not None:
                if isinstance(item, BaseException):
                    message = f"{self._name} failed while decoding: {item}"
                    raise CheckpointError(message) from item
                if cancel.is_set():
                    break
                yield item
        finally:
            stop.set()
            _join(worker)

    def _translate(self, request: DecodeRequest, on_step: _OnStep) -> None:
        if request.temperature == 0:
            self._run(self._greedy, request, on_step)
            return
        with _SeedTurn(request.seed) as turn:

            def on_sampled(result: ctranslate2.GenerationStepResult) -> bool:
                if result.step >= len(request.forced_ids):
                    turn.end()
                return on_step(result)

            self._run(self._build(), request, on_sampled)

    def _run(
        self, translator: ctranslate2.Translator, request: DecodeRequest, on_step: _OnStep
    ) -> None:
        is_greedy = request.temperature == 0
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

    def _build(self) -> ctranslate2.Translator:
        return ctranslate2.Translator(
            self._name,
            device="cpu",
            compute_type="default",
            inter_threads=1,
            intra_threads=self._num_threads,
            files=dict(self._files),
        )


def _join(worker: threading.Thread, timeout_s: float | None = None) -> None:
    with suppress(RuntimeError):  # an interrupt came before it had started
        worker.join(timeout_s)


class _SeedTurn:
    """The library's seed is global and read when a new thread first samples.

    So a request keeps the turn from setting the seed until its first id is drawn; without it, a
    second request could set its own seed in between.
    """

    _lock = threading.Lock()

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._is_ended = False

    def __enter__(self) -> "_SeedTurn":
        self._lock.acquire()
        ctranslate2.set_random_seed(self._seed % (1 << 31))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the next request set its seed; does nothing the second time."""
        if not self._is_ended:
            self._is_ended = True
            self._lock.release()


_engines: "weakref.WeakSet[Ct2Engine]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End the library's threads while Python lives.

    A thread of the library that calls Python, or lets go of its callback, while the interpreter
    shuts down aborts the process.
    """
    with _ignore_interrupts():
        for engine in list(_engines):
            engine.close()


@contextmanager
def _ignore_interrupts() -> Generator[None]:
    """Let no second Ctrl-C break off the wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if handler is not None:  # None: was set by other means than Python's
            signal.signal(signal.SIGINT, handler)
