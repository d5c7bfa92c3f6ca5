"""``fake:``, the public test double: fixed answers, optional delays, a step counter.

``fake:`` answers ``pass``. Options, joined with ``&``: ``text=`` (URL-encoded answer),
``slow=MS`` (wait before each step), ``load=MS`` (wait while loading), ``fail`` (raise while
answering), ``echo`` (answer with the previous cell's source).
"""

import re
import threading
import time
from collections.abc import Iterator
from urllib.parse import parse_qsl

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers.base import Chunk, FillRequest, Sampling

__all__ = ["FakeProvider"]

_OPTIONS = {"text", "slow", "load", "fail", "echo"}
_STEP = re.compile(r"\s*\S+|\s+")


class FakeProvider:
    """Streams a fixed answer, one whitespace-separated piece a step, hypotheses in turn.

    ``num_steps`` counts the steps made so far, over all requests.
    """

    def __init__(self, spec: str = "") -> None:
        options = dict(parse_qsl(spec, keep_blank_values=True, strict_parsing=False))
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            message = f"fake: does not know {', '.join(unknown)}. It knows {sorted(_OPTIONS)}."
            raise UsageError(message)
        self.uri = f"fake:{spec}"
        self.num_steps = 0
        self._text = options.get("text", "pass")
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
        """Stream the fixed answer ``n`` times; see ``Provider.generate``."""
        del seed
        if self._fails:
            message = "fake: was asked to fail."
            raise ProviderError(message)
        text = self._text
        if self._echoes and request.target_idx:
            text = request.cells[request.target_idx - 1].source
        pieces = _STEP.findall(text)[: sampling.max_tokens]
        for hypothesis_idx in range(n):
            for piece in pieces:
                if cancel.wait(self._step_s):
                    return
                self.num_steps += 1
                yield Chunk(hypothesis_idx, piece, finished=False)
            yield Chunk(hypothesis_idx, "", finished=True, mean_logprob=0.0)


def _milliseconds(options: dict[str, str], name: str) -> float:
    text = options.get(name, "0")
    if not text.isdigit():
        message = f"fake:{name}={text} is not a number of milliseconds. Write fake:{name}=300."
        raise UsageError(message)
    return int(text) / 1000
