"""Choosing ids from logits, and guesses copied from the source: no model needed."""

import numpy as np
import pytest

from jupyt5.model.copying import SourceCopier
from jupyt5.model.sampling import choose, draw_uniforms

LOGITS_BV = np.log(np.array([[0.1, 0.5, 0.4], [0.2, 0.2, 0.6]], np.float32))


def best(logits_BV: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ids_BK = np.argsort(-logits_BV, axis=1)
    return ids_BK, np.take_along_axis(logits_BV, ids_BK, 1)


def frequencies(*, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> np.ndarray:
    """Choose at evenly spread numbers; return how often each id of each row was chosen."""
    counts = np.zeros(LOGITS_BV.shape)
    for uniform in (np.arange(2000) + 0.5) / 2000:
        ids_B, logits_B = choose(
            best(LOGITS_BV),
            LOGITS_BV,
            np.array([uniform, uniform]),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        assert np.array_equal(logits_B, LOGITS_BV[[0, 1], ids_B])
        counts[[0, 1], ids_B] += 1
    return counts / 2000


def test_a_draw_has_the_model_s_probabilities() -> None:
    assert frequencies() == pytest.approx(np.exp(LOGITS_BV), abs=2e-3)
    assert frequencies(top_k=3) == pytest.approx(np.exp(LOGITS_BV), abs=2e-3)


def test_temperature_comes_before_top_k_and_top_p() -> None:
    squared = np.array([0.25, 0.16]) / 0.41
    assert frequencies(temperature=0.5, top_k=2)[0] == pytest.approx([0, *squared], abs=2e-3)
    # 0.5² / (0.5² + 0.4² + 0.1²) = 0.595 is more than 0.59, 0.5 is not.
    assert frequencies(temperature=0.5, top_p=0.59)[0] == pytest.approx([0, 1, 0])
    assert frequencies(top_p=0.59)[0] == pytest.approx([0, 5 / 9, 4 / 9], abs=2e-3)


def test_top_p_counts_within_top_k() -> None:
    # Of the two best, 0.5 / 0.9 = 0.56: enough for 0.55, though it is 0.5 of all.
    assert frequencies(top_k=2, top_p=0.55)[0] == pytest.approx([0, 1, 0])


def test_greedy_takes_the_best() -> None:
    assert frequencies(temperature=0).tolist() == [[0, 1, 0], [0, 0, 1]]


def test_the_edges_of_the_numbers_choose_something() -> None:
    for uniform in (0.0, np.nextafter(1, 0)):
        ids_B, _ = choose(
            best(LOGITS_BV), None, np.full(2, uniform), temperature=1.0, top_k=2, top_p=1.0
        )
        assert set(ids_B) <= {0, 1, 2}


def test_a_flat_distribution_is_looked_at_whole() -> None:
    """Top-p over more ids than the first look takes: no id is lost."""
    logits_BV = np.zeros((1, 3000), np.float32)
    drawn = {
        int(
            choose(
                best(logits_BV),
                logits_BV,
                np.array([uniform]),
                temperature=1.0,
                top_k=0,
                top_p=0.95,
            )[0][0]
        )
        for uniform in (np.arange(3000) + 0.5) / 3000
    }
    assert len(drawn) == pytest.approx(2850, abs=2)


def test_a_hypothesis_s_numbers_do_not_depend_on_the_others() -> None:
    assert np.array_equal(draw_uniforms(3, 5, 8)[:2], draw_uniforms(3, 2, 8))
    assert not np.array_equal(draw_uniforms(3, 1, 8), draw_uniforms(4, 1, 8))
    assert len(np.unique(draw_uniforms(3, 5, 8))) == 40
    for seed in (-1, 1 << 70):  # `jupyt5 fill --seed` takes any
        assert np.array_equal(draw_uniforms(seed, 2, 8)[:1], draw_uniforms(seed, 1, 8))


def test_guesses_follow_the_last_place_of_the_same_ids() -> None:
    copier = SourceCopier([5, 6, 7, 8, 9, 5, 6, 7, 10, 11, 2, 12], frozenset({2}))
    assert copier.guess([1, 5, 6, 7], 5) == [10, 11]
    assert copier.guess([5, 6, 7], 1) == [10]
    assert copier.guess([6, 7, 8], 3) == [9, 5, 6]
    assert copier.guess([7, 6, 5], 3) == []
    assert copier.guess([6, 7], 3) == []


def test_guessing_ends_where_it_fails() -> None:
    copier = SourceCopier([5, 6, 7, 8], frozenset())
    copier.note(11, 0)
    assert copier.guess([5, 6, 7], 5) == [8]
    copier.note(1, 0)
    assert copier.guess([5, 6, 7], 5) == []
    copier.note(12, 12)
    assert copier.guess([5, 6, 7], 5) == [8]
