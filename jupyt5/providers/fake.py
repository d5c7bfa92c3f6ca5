"""``fake:``, the public test double: fixed answers, optional delays, a step counter.

``fake:`` answers ``pass``. Options, joined with ``&``: ``text=`` (URL-encoded answer; several of
them are answered in turn, by hypothesis and seed), ``logprob=`` (of the first answer; each
further one is as much less likely),
``slow=MS`` (wait before each step), ``load=MS`` (wait while loading), ``fail`` (raise while
answering), ``echo`` (answer with the previous cell's source).
"""

import re
import threading
import time
from collections.abc import Iterator
from urllib.parse import parse_qsl

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers.base import Chunk, FillRequest, Preview, Sampling
from jupyt5.providers.texts import estimate_tokens, find_window

__all__ = ["FakeProvider"]

_OPTIONS = {"text", "logprob", "slow", "load", "fail", "echo"}
_STEP = re.compile(r"\s*\S+|\s+")


class FakeProvider:
    """Streams a fixed answer, one whitespace-separated piece a step, hypotheses in turn.

    ``num_steps`` counts the steps made so far, over all requests.
    """

    def __init__(self, spec: str = "") -> None:
        pairs = parse_qsl(spec, keep_blank_values=True, strict_parsing=False)
        options = dict(pairs)
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            message = f"fake: does not know {', '.join(unknown)}. It knows {sorted(_OPTIONS)}."
            raise UsageError(message)
        self.uri = f"fake:{spec}"
        self.num_steps = 0
        self._texts = [value for name, value in pairs if name == "text"] or ["pass"]
        self._logprob = _number(options, "logprob")
        self._step_s = _milliseconds(options, "slow")
        self._fails = "fail" in options
        self._echoes = "echo" in options
        time.sleep(_milliseconds(options, "load"))

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream the fixed answers, ``n`` of them; see ``Provider.generate``."""
        if self._fails:
            message = "fake: was asked to fail."
            raise ProviderError(message)
        for hypothesis_idx in range(n):
            text = self._texts[(hypothesis_idx + seed) % len(self._texts)]
            if self._echoes and request.target_idx:
                text = request.cells[request.target_idx - 1].source
            for piece in _STEP.findall(text)[: sampling.max_tokens]:
                if cancel.wait(self._step_s):
                    return
                self.num_steps += 1
                yield Chunk(hypothesis_idx, piece, finished=False)
            logprob = self._logprob * (hypothesis_idx + 1)
            yield Chunk(hypothesis_idx, "", finished=True, mean_logprob=logprob)

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return the sources of the cells that a model would see; see ``Provider.preview``."""
        del sampling
        sources = [
            request.prefix + request.suffix
            if idx == request.target_idx
            else request.cells[idx].source
            for idx in find_window(request)
        ]
        text = "\n\n".join(sources)
        return Preview(text, estimate_tokens(text), is_estimate=True)


def _number(options: dict[str, str], name: str) -> float:
    text = options.get(name, "0")
    try:
        return float(text)
    except ValueError:
        message = f"fake:{name}={text} is not a number. Write fake:{name}=-0.5."
        raise UsageError(message) from None


def _milliseconds(options: dict[str, str], name: str) -> float:
    text = options.get(name, "0")
    if not text.isdigit():
        message = f"fake:{name}={text} is not a number of milliseconds. Write fake:{name}=300."
        raise UsageError(message)
    return int(text) / 1000
