"""What a provider is: a planned request in, chunks of text out."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from jupyt5.errors import ContextError, UsageError
from jupyt5.notebook import Cell

__all__ = ["Chunk", "FillRequest", "Preview", "Provider", "ProviderInfo", "Sampling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRequest:
    """A target cell among its notebook's cells.

    Attributes:
        cells: All cells that may serve as context, in notebook order, the target included.
        target_idx: Index of the target in ``cells``.
        prefix: Text of the target before the slot (before the cursor).
        suffix: Text of the target after it.
        num_context_cells: C, cells before the target that the model sees.
        num_following_cells: Cells after the target that it sees.
        skip_blank: Leave blank and raw cells out before counting; False counts literally.
        prompt_tokens: Most tokens of cells in the prompt; None for what the provider finds quick.
            A model's own limit holds in any case.
    """

    cells: tuple[Cell, ...]
    target_idx: int
    prefix: str = ""
    suffix: str = ""
    num_context_cells: int = 3
    num_following_cells: int = 1
    skip_blank: bool = True
    prompt_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the indices.

        Raises:
            UsageError: If the target is not one of the cells, or a count is out of range.
        """
        if not 0 <= self.target_idx < len(self.cells):
            message = (
                f"There is no cell {self.target_idx}: the notebook has {len(self.cells)} cells, "
                "counted from 0."
            )
            raise UsageError(message)
        if self.num_context_cells < 0 or self.num_following_cells < 0:
            message = "The numbers of context and following cells must be 0 or more."
            raise UsageError(message)
        if self.prompt_tokens is not None and self.prompt_tokens < 1:
            message = f"A prompt of {self.prompt_tokens} tokens is none. Allow it 1 or more."
            raise UsageError(message)

    @property
    def kind(self) -> str:
        """Kind of the target cell: its domain."""
        return self.cells[self.target_idx].kind

    def require_context(self) -> None:
        """Refuse a request that gives a model nothing to work from.

        Raises:
            ContextError: If no other cell and no prefix or suffix has any text.
        """
        others = (cell.source for idx, cell in enumerate(self.cells) if idx != self.target_idx)
        if not any(text.strip() for text in (self.prefix, self.suffix, *others)):
            message = (
                f"Cell {self.target_idx} has nothing around it to work from. "
                "Write a Markdown cell above it that says what it should do."
            )
            raise ContextError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How hypotheses are drawn. The defaults are the paper's, plus top-k for speed on CPUs.

    Attributes:
        temperature: 0 is greedy decoding.
        top_p: Nucleus mass in (0, 1]; applied after ``top_k``.
        top_k: Most likely tokens kept at each step; 0 keeps all.
        max_tokens: Longest hypothesis, in tokens.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    top_k: int = 50
    max_tokens: int = 128

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            UsageError: If a setting is out of range; names it and its value.
        """
        checks = {
            "temperature": 0 <= self.temperature <= 10,
            "top_p": 0 < self.top_p <= 1,
            "top_k": self.top_k >= 0,
            "max_tokens": self.max_tokens >= 1,
        }
        for name, is_fine in checks.items():
            if not is_fine:
                message = (
                    f"{name} = {getattr(self, name)} is out of range. Use temperature 0..10, "
                    "top_p in (0, 1], top_k >= 0, max_tokens >= 1."
                )
                raise UsageError(message)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next piece of one hypothesis.

    ``mean_logprob`` (nats per token) comes with the last chunk where the provider knows it.
    """

    hypothesis_idx: int
    text_delta: str
    finished: bool
    mean_logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What a model would be given for a request, for people to read.

    Attributes:
        text: The whole prompt, marks included.
        num_tokens: Its length.
        num_left_out: Tokens of cells for which there was no room.
        is_estimate: Whether both are estimated from bytes: the tokenizer is not at hand.
    """

    text: str
    num_tokens: int
    num_left_out: int = 0
    is_estimate: bool = False


class Provider(Protocol):
    """Anything that can answer a ``FillRequest``.

    One whose model runs elsewhere may have an attribute ``has_died``: where that is true, it
    answers no more, and who keeps providers loads it again.
    """

    @property
    def uri(self) -> str:
        """The URI that names this provider, as results record it."""
        ...

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream ``n`` hypotheses; stop within one decoding step once ``cancel`` is set.

        A cancelled generation just ends, without final chunks.

        Raises:
            ProviderError: If the model fails.
        """
        ...

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return what ``generate`` would give the model; nothing is generated or sent."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """A provider as listings show it."""

    uri: str
    available: bool
    detail: str
