"""Drawing ids from logits: temperature, then top-k, then top-p; one seeded stream a hypothesis."""

import numpy as np
import numpy.typing as npt

__all__ = ["Sampler"]

# Enough that its mass nearly always reaches top-p; else the whole vocabulary is sorted.
_FIRST_LOOK = 512

_Floats = npt.NDArray[np.floating]


class Sampler:
    """Draws ids; what a hypothesis draws does not depend on how many there are.

    Args:
        temperature: 0 picks the likeliest id.
        top_p: Nucleus mass in (0, 1], within ``top_k``.
        top_k: Likeliest ids kept; 0 keeps all.
        seed: Equal seeds draw equally from equal logits.
        banned_ids: Never drawn, and without a share in log-probabilities.
    """

    def __init__(
        self,
        *,
        temperature: float,
        top_p: float,
        top_k: int,
        seed: int,
        banned_ids: npt.NDArray[np.integer],
    ) -> None:
        self._temperature = temperature
        self._top_p = top_p
        self._top_k = top_k
        self._seed = seed
        self._banned_ids = banned_ids
        self._streams: dict[int, np.random.Generator] = {}

    def draw(self, logits_V: _Floats, hypothesis_idx: int) -> tuple[int, float]:
        """Draw the next id of a hypothesis.

        Args:
            logits_V: One number an id of the vocabulary.
            hypothesis_idx: Whose turn it is.

        Returns:
            (id, its log-probability in nats before temperature and truncation).
        """
        scores_V = np.array(logits_V, dtype=np.float64)
        scores_V[self._banned_ids] = -np.inf
        if self._temperature == 0:
            chosen = int(scores_V.argmax())
        else:
            chosen = self._sample(scores_V / self._temperature, hypothesis_idx)
        top = scores_V.max()
        log_total = top + np.log(np.exp(scores_V - top).sum())
        return chosen, float(scores_V[chosen] - log_total)

    def _sample(self, scores_V: _Floats, hypothesis_idx: int) -> int:
        num_ids = scores_V.size
        kept_K = _take_top(scores_V, self._top_k or _FIRST_LOOK)
        weights_K = np.exp(scores_V[kept_K] - scores_V[kept_K[0]])
        total = weights_K.sum()
        if not self._top_k:
            total = np.exp(scores_V - scores_V[kept_K[0]]).sum()
            if weights_K.sum() < self._top_p * total and kept_K.size < num_ids:
                kept_K = _take_top(scores_V, num_ids)
                weights_K = np.exp(scores_V[kept_K] - scores_V[kept_K[0]])
        before_K = weights_K.cumsum() - weights_K
        weights_K[before_K >= self._top_p * total] = 0.0
        ends_K = weights_K.cumsum()
        draw = self._stream(hypothesis_idx).random() * ends_K[-1]
        place = int((ends_K <= draw).sum())
        return int(kept_K[min(place, kept_K.size - 1)])

    def _stream(self, hypothesis_idx: int) -> np.random.Generator:
        if hypothesis_idx not in self._streams:
            # Seeds of requests may be large or negative; the generator takes neither.
            entropy = [self._seed % (1 << 64), hypothesis_idx]
            self._streams[hypothesis_idx] = np.random.default_rng(entropy)
        return self._streams[hypothesis_idx]


def _take_top(scores_V: _Floats, k: int) -> npt.NDArray[np.intp]:
    """Return the ids of the k largest scores, falling."""
    num_ids = scores_V.size
    top_K = np.argpartition(scores_V, -k)[-k:] if k < num_ids else np.arange(num_ids)
    return top_K[np.argsort(-scores_V[top_K], kind="stable")]
