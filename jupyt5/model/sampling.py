"""Choosing ids from logits: greedy, or a draw after temperature, top-k and then top-p.

B rows, K best ids of each, V ids in all.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["Logits", "Sampler", "choose", "draw_uniforms"]

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Logits = tuple[Ints, Floats]

# Top-p over a whole vocabulary looks at this many best ids first; they nearly always suffice.
_FIRST_LOOK = 512


class Sampler:
    """Draws one id at a time; what a hypothesis draws does not depend on how many there are.

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

    def draw(self, logits_V: Floats, hypothesis_idx: int) -> tuple[int, float]:
        """Draw the next id of a hypothesis.

        Args:
            logits_V: One number an id of the vocabulary.
            hypothesis_idx: Whose turn it is.

        Returns:
            (id, its log-probability in nats before temperature and truncation).
        """
        scores_V = np.array(logits_V, dtype=np.float64)
        scores_V[self._banned_ids] = -np.inf
        uniform = self._stream(hypothesis_idx).random() if self._temperature else 0.0
        ids_B, scores_B = choose(
            _best(scores_V[None], min(self._top_k or 1, scores_V.size)),
            scores_V[None],
            np.asarray([uniform]),
            temperature=self._temperature,
            top_k=self._top_k,
            top_p=self._top_p,
        )
        top = scores_V.max()
        log_total = top + np.log(np.exp(scores_V - top).sum())
        return int(ids_B[0]), float(scores_B[0] - log_total)

    def _stream(self, hypothesis_idx: int) -> np.random.Generator:
        if hypothesis_idx not in self._streams:
            self._streams[hypothesis_idx] = _open_stream(self._seed, hypothesis_idx)
        return self._streams[hypothesis_idx]


def draw_uniforms(seed: int, num_hypotheses: int, length: int) -> Floats:
    """Return one number in [0, 1) for each hypothesis and position, shape (n, length).

    A hypothesis has a stream of its own, so that it doesn't depend on how many others there are.
    """
    return np.stack([_open_stream(seed, idx).random(length) for idx in range(num_hypotheses)])


def choose(
    best: Logits,
    logits_BV: Floats | None,
    uniform_B: Floats,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
) -> tuple[Ints, Floats]:
    """Pick one id a row.

    Args:
        best: Ids and logits of the best, falling, shapes (B, K).
        logits_BV: All logits; needed only where ``top_k`` is 0 or more than K.
        uniform_B: What decides the draw.
        temperature: 0 takes the best.
        top_k: Ids that remain, 0: all.
        top_p: Mass of them that remains.

    Returns:
        Ids and logits of the chosen, shapes (B,).
    """
    ids_BK, logits_BK = best
    if temperature == 0:
        return ids_BK[:, 0], logits_BK[:, 0]
    total_B1 = None
    if 0 < top_k <= ids_BK.shape[1]:
        ids_BK, logits_BK = ids_BK[:, :top_k], logits_BK[:, :top_k]
    elif logits_BV is not None:
        ids_BK, logits_BK, total_B1 = _look(logits_BV, top_k, temperature, top_p)
    mass_BK = np.exp((logits_BK - logits_BK[:, :1]) / temperature)
    before_BK = mass_BK.cumsum(1) - mass_BK
    total_B1 = mass_BK.sum(1, keepdims=True) if total_B1 is None else total_B1
    mass_BK[before_BK >= top_p * total_B1] = 0
    upto_BK = mass_BK.cumsum(1)
    picked_B1 = (upto_BK <= uniform_B[:, None] * upto_BK[:, -1:]).sum(1, keepdims=True)
    picked_B1 = np.minimum(picked_B1, (mass_BK > 0).sum(1, keepdims=True) - 1)
    ids_B1 = np.take_along_axis(ids_BK, picked_B1, 1)
    logits_B1 = np.take_along_axis(logits_BK, picked_B1, 1)
    return ids_B1[:, 0], logits_B1[:, 0]


def _open_stream(seed: int, hypothesis_idx: int) -> np.random.Generator:
    # Seeds of requests may be large or negative; the generator takes no negative ones.
    return np.random.default_rng([seed % (1 << 64), hypothesis_idx])


def _look(
    logits_BV: Floats, top_k: int, temperature: float, top_p: float
) -> tuple[Ints, Floats, Floats | None]:
    """Return as many of the best as a draw can reach, and the mass of all where that is more."""
    num_ids = logits_BV.shape[1]
    if top_k:
        return *_best(logits_BV, min(top_k, num_ids)), None
    peak_B1 = logits_BV.max(1, keepdims=True)
    total_B1 = np.exp((logits_BV - peak_B1) / temperature).sum(1, keepdims=True)
    for count in (_FIRST_LOOK, num_ids):
        ids_BK, logits_BK = _best(logits_BV, min(count, num_ids))
        held_B = np.exp((logits_BK - peak_B1) / temperature).sum(1)
        if (held_B >= top_p * total_B1[:, 0]).all():
            break
    return ids_BK, logits_BK, total_B1


def _best(logits_BV: Floats, count: int) -> Logits:
    if count == 1:  # the first of equals, as everywhere else
        ids_B1 = logits_BV.argmax(axis=1, keepdims=True)
        return ids_B1, np.take_along_axis(logits_BV, ids_B1, 1)
    ids_BK = np.argpartition(logits_BV, -count, axis=1)[:, -count:]
    logits_BK = np.take_along_axis(logits_BV, ids_BK, 1)
    order_BK = np.argsort(-logits_BK, axis=1, kind="stable")
    return np.take_along_axis(ids_BK, order_BK, 1), np.take_along_axis(logits_BK, order_BK, 1)
