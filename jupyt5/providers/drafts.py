"""From a provider's raw chunks to cleaned text: the one place where hypotheses are cleaned."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from jupyt5.hypotheses import clean_hypothesis
from jupyt5.providers.base import FillRequest, Provider, Sampling

__all__ = ["Draft", "stream_drafts"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A hypothesis so far: ``text`` is cleaned and cumulative, ``raw`` is the model's own."""

    hypothesis_idx: int
    text: str
    raw: str
    finished: bool
    mean_logprob: float | None = None


def stream_drafts(
    provider: Provider,
    request: FillRequest,
    *,
    n: int,
    sampling: Sampling,
    seed: int,
    cancel: threading.Event,
) -> Iterator[Draft]:
    """Stream hypotheses as cleaned, cumulative text.

    Raises:
        ContextError: If nothing around the target has any text.
        ProviderError: If the model fails.
    """
    request.require_context()
    following = tuple(cell.source for cell in request.cells[request.target_idx + 1 :][:1])
    raws: dict[int, str] = {}
    for chunk in provider.generate(request, n, sampling, seed, cancel):
        idx = chunk.hypothesis_idx
        raws[idx] = raws.get(idx, "") + chunk.text_delta
        text = clean_hypothesis(
            raws[idx],
            prefix=request.prefix,
            suffix=request.suffix,
            following=following,
            kind=request.kind,
        )
        yield Draft(idx, text, raws[idx], chunk.finished, chunk.mean_logprob)
