"""Guesses for the next ids, copied from the source: what followed the same ids there.

The decoder checks a guess in one call, so what is generated stays what it would have been without,
up to the last bits of float sums (prompt look-up decoding, here over the encoder's ids:
neighbouring cells).
"""

from collections.abc import Sequence

__all__ = ["SourceCopier"]

_NGRAM = 3
_LONGEST = 7
# A call on more ids costs more, so guessing ends where too few of the guesses hold.
_LEAST_RATE = 0.5
_TRIAL = 12


class SourceCopier:
    """Finds the last ids of one hypothesis in its source, and remembers how well that went."""

    def __init__(self, source_ids: Sequence[int], stop_ids: frozenset[int]) -> None:
        """Index a source.

        Args:
            source_ids: Encoder ids, shape (S,).
            stop_ids: Special ids: a guess ends before the first of them.
        """
        self._source = tuple(source_ids)
        self._stop = stop_ids
        # Later places win: they are nearer to the target.
        self._places = {
            self._source[end - _NGRAM : end]: end for end in range(_NGRAM, len(self._source) + 1)
        }
        self.num_guessed = 0
        self.num_held = 0

    def guess(self, ids: Sequence[int], room: int) -> list[int]:
        """Return at most ``room`` ids that may follow ``ids``; none where nothing matches."""
        if self.num_guessed >= _TRIAL and self.num_held < _LEAST_RATE * self.num_guessed:
            return []
        place = self._places.get(tuple(ids[-_NGRAM:]))
        if place is None:
            return []
        guessed: list[int] = []
        for token_id in self._source[place : place + min(room, _LONGEST)]:
            if token_id in self._stop:
                break
            guessed.append(token_id)
        return guessed

    def note(self, num_guessed: int, num_held: int) -> None:
        """Count a checked guess."""
        self.num_guessed += num_guessed
        self.num_held += num_held
