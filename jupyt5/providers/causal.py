"""Causal models as providers: the prompt that suits the model, then decoding and stop rules."""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from jupyt5.errors import CheckpointError, ProviderError
from jupyt5.infilling import render_messages, render_prompt
from jupyt5.model.causal import CausalEngine, CausalRequest, decode_causal
from jupyt5.providers.base import Chunk, FillRequest, Preview, Sampling
from jupyt5.providers.chat import render_chat
from jupyt5.providers.growing import GrowingText, StopWatch
from jupyt5.providers.texts import count_omitted, plan_text

__all__ = ["CausalProvider"]

# Tokens of cells in a prompt unless the request says how many: reading is what costs on a CPU, and
# C = 3 cells rarely need more.
_BUDGET_TOKENS = 1024
_MARGIN_TOKENS = 128  # the words around the cells

_CHAT_STOPS = {"code": ("\n```",)}
_NUM_KNOWN = 4  # ids of the prompt that a decoder sees, for spaces and split characters
_POLL_S = 0.02


class CausalProvider:
    """Fills cells with a causal model: FIM where it can, else as a chat, else by continuing.

    One request decodes at a time; others wait, and can be cancelled while they do.
    """

    def __init__(self, uri: str, engine: CausalEngine) -> None:
        self.uri = uri
        self._engine = engine
        self._vocabulary = engine.vocabulary
        self._lock = threading.Lock()

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream hypotheses; see ``Provider.generate``. Greedy decoding gives just one."""
        prompt_ids, stop = self.render(request, budget_tokens=self._find_budget(request, sampling))
        decode = CausalRequest(
            prompt_ids=prompt_ids,
            n=n,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=max(1, min(sampling.max_tokens, self._engine.max_tokens - len(prompt_ids))),
            seed=seed,
        )
        with self._turn(cancel) as is_ours:
            if is_ours:
                yield from self._decode(decode, stop, cancel)

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return the prompt, fill-in-the-middle marks included; see ``Provider.preview``."""
        budget_tokens = self._find_budget(request, sampling)
        ids, _ = self.render(request, budget_tokens=budget_tokens)
        fim, marks = self._vocabulary.fim, {self._vocabulary.slot: "<mask>"}
        if fim is not None:
            marks |= {fim.prefix: "<prefix>", fim.suffix: "<suffix>", fim.middle: "<middle>"}
        pieces: list[str] = []
        start = 0
        for end, token_id in enumerate(ids):
            if token_id in marks:
                pieces += [self._vocabulary.decode(ids[start:end]), f"\n{marks[token_id]}\n"]
                start = end + 1
        pieces.append(self._vocabulary.decode(ids[start:]))
        num_left_out = count_omitted(request, self._count, budget_tokens=budget_tokens)
        return Preview("".join(pieces).strip("\n"), len(ids), num_left_out)

    def _count(self, text: str) -> int:
        return len(self._vocabulary.encode(text))

    def _find_budget(self, request: FillRequest, sampling: Sampling) -> int:
        room = self._engine.max_tokens - sampling.max_tokens - _MARGIN_TOKENS
        return max(64, min(request.prompt_tokens or _BUDGET_TOKENS, room))

    def render(
        self, request: FillRequest, *, budget_tokens: int
    ) -> tuple[list[int], tuple[str, ...]]:
        """Return (prompt ids, texts that end a completion) of a request."""
        vocabulary = self._vocabulary
        plan, texts = plan_text(request, self._count, budget_tokens=budget_tokens)
        fim, template = vocabulary.fim, vocabulary.chat_template
        if template and not (fim and request.kind == "code"):
            messages = render_messages(plan, texts, prefill=True)
            pieces = render_chat(template, messages, bos=vocabulary.bos, eos=vocabulary.eos)
            ids = [
                token_id
                for text, special in pieces
                for token_id in vocabulary.encode(text, special=special)
            ]
            return ids, _CHAT_STOPS.get(request.kind, ())
        slot = vocabulary.slot
        prompt = render_prompt(plan, texts, infill=bool(fim) or slot is not None)
        begin = vocabulary.encode(vocabulary.bos, special=True)
        before, after = vocabulary.encode(prompt.before), vocabulary.encode(prompt.after)
        if slot is not None:
            end = vocabulary.encode(vocabulary.eos, special=True)
            return [*begin, *before, slot, *after, *end], prompt.stop
        if fim is None:
            return [*begin, *before], prompt.stop
        return [*begin, fim.prefix, *before, fim.suffix, *after, fim.middle], prompt.stop

    def _decode(
        self, request: CausalRequest, stop: tuple[str, ...], cancel: threading.Event
    ) -> Iterator[Chunk]:
        # An encoder-decoder model begins a text of its own.
        known_ids = request.prompt_ids[-_NUM_KNOWN:] if self._vocabulary.slot is None else ()
        opens_line = self._vocabulary.decode(request.prompt_ids[-1:]).endswith("\n")
        texts: dict[int, GrowingText] = {}
        watches: dict[int, StopWatch] = {}
        stopped: set[int] = set()
        try:
            for step in decode_causal(self._engine, request, stopped, cancel):
                idx = step.hypothesis_idx
                text = texts.setdefault(idx, GrowingText(self._vocabulary.decode, known_ids))
                watch = watches.setdefault(idx, StopWatch(stop, opens_line=opens_line))
                delta = text.add(step.token_id, step.log_prob, finished=step.finished)
                delta = watch.add(delta, finished=step.finished)
                finished = step.finished or watch.is_stopped
                if watch.is_stopped:
                    stopped.add(idx)
                yield Chunk(idx, delta, finished, text.mean_logprob if finished else None)
        except CheckpointError as exc:
            raise ProviderError(str(exc)) from exc

    @contextmanager
    def _turn(self, cancel: threading.Event) -> Generator[bool]:
        """Wait for the engine; False if cancelled before it was free."""
        while not self._lock.acquire(timeout=_POLL_S):
            if cancel.is_set():
                yield False
                return
        try:
            yield True
        finally:
            self._lock.release()
