"""Decoding engines: encoder ids in, steps of target ids out. Both know ids only, never text.

An engine encodes the source once and draws all hypotheses from it together. The first ids of
every hypothesis can be forced (the open line before a cursor); forced ids are not repeated in
the steps.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["DecodeRequest", "Engine", "Step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """One source and how to draw from it.

    Attributes:
        source_ids: Encoder ids, shape (S,).
        forced_ids: Ids that each hypothesis begins with.
        n: Hypotheses.
        temperature: 0 is greedy.
        top_p: Nucleus mass in (0, 1], within ``top_k``.
        top_k: 0 keeps the whole vocabulary.
        max_tokens: Longest hypothesis without the forced ids.
        seed: Equal seeds give equal hypotheses on the same machine and engine.
    """

    source_ids: Sequence[int]
    forced_ids: Sequence[int] = ()
    n: int = 1
    temperature: float = 0.8
    top_p: float = 0.95
    top_k: int = 50
    max_tokens: int = 128
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One id of one hypothesis; ``token_id`` is None when it only says that it ended.

    ``log_prob`` is the model's log-probability of the id among all ids that are not special
    (nats, before temperature and truncation) where the engine knows it.
    """

    hypothesis_idx: int
    token_id: int | None
    log_prob: float | None
    finished: bool


class Engine(Protocol):
    """A loaded model."""

    def decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        """Draw hypotheses; end within one step once ``cancel`` is set."""
        ...
