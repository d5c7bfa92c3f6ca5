"""Text of a hypothesis as it grows: whole characters only, and nothing from a stop text on."""

from collections.abc import Callable, Sequence

__all__ = ["GrowingText", "StopWatch"]

_REPLACEMENT = "\ufffd"


class GrowingText:
    """Decodes one hypothesis as it grows: a character is shown once all its bytes are there."""

    def __init__(self, decode: Callable[[Sequence[int]], str], known_ids: Sequence[int]) -> None:
        self._decode = decode
        # Decoding starts from ids that are known, so that a character split between them and the
        # first generated id is whole; their own text is not repeated.
        self._ids = list(known_ids)
        self._shown = len(decode(self._ids))
        self._log_prob = 0.0
        self._num_steps = 0

    @property
    def mean_logprob(self) -> float:
        """Mean log-probability a generated id, its end mark included."""
        return self._log_prob / max(1, self._num_steps)

    def add(self, token_id: int | None, log_prob: float | None, *, finished: bool) -> str:
        """Add an id; return the text that has become certain."""
        self._num_steps += 1
        self._log_prob += log_prob or 0.0
        if token_id is not None:
            self._ids.append(token_id)
        text = self._decode(self._ids)
        if not finished:
            text = text.rstrip(_REPLACEMENT)
        delta = text[self._shown :]
        self._shown = max(self._shown, len(text))
        return delta


class StopWatch:
    """Holds back what may be the beginning of a stop text, and ends at a whole one.

    Args:
        stop: The stop texts.
        opens_line: A line begins where the text does, as if a newline stood before it.
    """

    def __init__(self, stop: Sequence[str], *, opens_line: bool = False) -> None:
        self._stop = tuple(stop)
        self._held = "\n" if opens_line else ""
        self._num_hidden = len(self._held)
        self.is_stopped = False

    def add(self, delta: str, *, finished: bool) -> str:
        """Add text; return what of it is certain to be part of the answer."""
        text = self._held + delta
        places = [place for place in map(text.find, self._stop) if place >= 0]
        if places:
            self.is_stopped = True
            self._held = ""
            return self._show(text[: min(places)])
        num_held = 0 if finished else max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - num_held :]
        return self._show(text[: len(text) - num_held])

    def _show(self, text: str) -> str:
        shown = text[self._num_hidden :]
        self._num_hidden = max(0, self._num_hidden - len(text))
        return shown


def _overlap(text: str, stop: str) -> int:
    """Return how much of the end of a text is the beginning of the stop text."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
