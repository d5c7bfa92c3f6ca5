"""Decoding models that are not ours: prompt ids in, steps of ids out, hypotheses side by side.

A runtime implements ``CausalEngine``: it reads the prompt once, keeps its state (keys and
values) between hypotheses and between requests, and gives logits.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from jupyt5.model.decoding import Step
from jupyt5.model.sampling import Sampler

__all__ = ["CausalEngine", "CausalRequest", "FimIds", "Vocabulary", "decode_causal"]

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FimIds:
    """Ids that part a fill-in-the-middle prompt: prefix text, suffix text, then the middle."""

    prefix: int
    suffix: int
    middle: int


class Vocabulary(Protocol):
    """A model's own tokenizer, as far as prompts need it."""

    @property
    def bos(self) -> str:
        """Text of the token that begins a prompt; empty if the model wants none."""
        ...

    @property
    def eos(self) -> str:
        """Text of the token that ends a text."""
        ...

    @property
    def chat_template(self) -> str | None:
        """Jinja template of a chat model."""
        ...

    @property
    def fim(self) -> FimIds | None:
        """Fill-in-the-middle ids, where the tokenizer has them."""
        ...

    @property
    def slot(self) -> int | None:
        """Id for the missing text in the source of an encoder-decoder model."""
        ...

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Return ids; text that looks like a special token is one only if ``special``."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return text without special tokens; bytes that make no character yet are U+FFFD."""
        ...


class CausalEngine(Protocol):
    """A loaded causal model. One request at a time."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its tokenizer."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens that prompt and completion may have together."""
        ...

    @property
    def end_ids(self) -> Set[int]:
        """Ids that end a completion."""
        ...

    @property
    def banned_ids(self) -> npt.NDArray[np.integer]:
        """Special ids that are no part of a text and do not end it."""
        ...

    def make_room(self, num_prompt: int, max_tokens: int) -> int:
        """Make room for a prompt and hypotheses of that length.

        Returns:
            How many hypotheses fit beside each other.

        Raises:
            CheckpointError: If not even one does.
        """
        ...

    def read(self, prompt_ids: Sequence[int], cancel: threading.Event) -> Logits | None:
        """Read a prompt, reusing what is known of it; return logits_V, None if cancelled."""
        ...

    def fork(self, n: int) -> None:
        """Make ``n`` continuations of the prompt that was read."""
        ...

    def step(self, ids: Mapping[int, int]) -> dict[int, Logits]:
        """Add one id to each continuation named; return its logits_V."""
        ...

    def settle(self) -> None:
        """Drop the continuations; the prompt's state, and what may serve again, is kept."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalRequest:
    """One prompt and how to draw from it; fields as in ``DecodeRequest``."""

    prompt_ids: Sequence[int]
    n: int
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    seed: int


def decode_causal(
    engine: CausalEngine, request: CausalRequest, stopped: Set[int], cancel: threading.Event
) -> Iterator[Step]:
    """Draw hypotheses, as many beside each other as fit; greedy decoding gives just one.

    Args:
        engine: What gives logits. It must not serve another request meanwhile.
        request: What to draw.
        stopped: Hypotheses that the caller has ended, by what their text says; it may grow.
        cancel: Ends the iteration within one step, while the prompt is read, too.
    """
    num_left = 1 if request.temperature == 0 else request.n
    width = engine.make_room(len(request.prompt_ids), request.max_tokens)
    sampler = Sampler(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        seed=request.seed,
        banned_ids=engine.banned_ids,
    )
    for first in range(0, num_left, width):
        logits_V = engine.read(request.prompt_ids, cancel)
        if logits_V is None:
            return
        wave = range(first, min(first + width, num_left))
        engine.fork(len(wave))
        try:
            logits = dict.fromkeys(wave, logits_V)
            yield from _decode_wave(engine, sampler, logits, request.max_tokens, (stopped, cancel))
        finally:
            engine.settle()
        if cancel.is_set():
            return


def _decode_wave(
    engine: CausalEngine,
    sampler: Sampler,
    logits: dict[int, Logits],
    max_tokens: int,
    ends: tuple[Set[int], threading.Event],
) -> Iterator[Step]:
    stopped, cancel = ends
    first = min(logits)
    for position in range(max_tokens):
        chosen: dict[int, int] = {}
        for idx, logits_V in logits.items():
            if cancel.is_set():
                return
            token_id, log_prob = sampler.draw(logits_V, idx)
            is_end = token_id in engine.end_ids
            finished = is_end or position + 1 == max_tokens
            yield Step(idx, None if is_end else token_id, log_prob, finished)
            if not finished and idx not in stopped:
                chosen[idx - first] = token_id
        if not chosen or cancel.is_set():
            return
        logits = {first + slot: each for slot, each in engine.step(chosen).items()}
