"""Signatures, pairs within bands, and which notebook of a cluster stays."""

import random

import numpy as np
import pytest

from jupyt5_corpus import near_duplicates
from jupyt5_corpus.fingerprint import fingerprint
from jupyt5_corpus.minhash import (
    MIN_NGRAMS,
    NO_KEY,
    NUM_BANDS,
    NUM_PERMUTATIONS,
    NUM_ROWS,
    THRESHOLD,
    band_key,
    estimate_similarity,
    sign,
)
from jupyt5_corpus.near_duplicates import (
    Quality,
    choose_representatives,
    find_neighbours,
    find_pairs,
    merge_pairs,
    rank_by_quality,
    without,
)
from jupyt5_corpus.ngrams import mix


def random_sets(similarity: float, *, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of n-gram hashes with that Jaccard similarity."""
    values = mix(np.arange(3 * size, dtype=np.uint64) + np.uint64(seed * 3 * size))
    num_shared = round(2 * size * similarity / (1 + similarity))
    return values[:size], values[size - num_shared : 2 * size - num_shared]


def all_pairs(signatures: np.ndarray) -> np.ndarray:
    columns = [signatures[:, NUM_ROWS * band : NUM_ROWS * (band + 1)] for band in range(NUM_BANDS)]
    return merge_pairs(find_pairs(band_key(each), signatures) for each in columns)


def signatures_of(*groups: tuple[float, int], seed: int = 0) -> np.ndarray:
    """Groups of notebooks; each is its similarity to a common one and its size."""
    made: list[np.ndarray] = []
    for group_idx, (similarity, count) in enumerate(groups):
        base = mix(np.arange(400, dtype=np.uint64) + np.uint64(1_000_000 * (group_idx + 1 + seed)))
        num_own = round(400 * (1 - similarity) / (1 + similarity))
        for copy_idx in range(count):
            own = mix(base[:num_own] + np.uint64(1 + copy_idx)) if num_own else base[:0]
            made.append(sign(np.concatenate([base[num_own:], own])))
    return np.array(made)


@pytest.mark.parametrize("similarity", [0.0, 0.3, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("size", [20, 300, 5000])
def test_the_estimate_is_unbiased_and_as_sharp_as_112_values_allow(similarity, size):
    estimates = []
    for seed in range(40):
        ones, others = random_sets(similarity, size=size, seed=seed)
        true = np.intersect1d(ones, others).size / np.union1d(ones, others).size
        estimates.append(float(estimate_similarity(sign(ones), sign(others))) - true)
    allowed = 4 * np.sqrt(0.25 / NUM_PERMUTATIONS / 40)
    assert abs(np.mean(estimates)) < allowed
    assert np.std(estimates) < 1.4 * np.sqrt(0.25 / NUM_PERMUTATIONS)


def test_too_small_sets_are_never_similar_not_even_to_themselves():
    small = sign(mix(np.arange(MIN_NGRAMS - 1, dtype=np.uint64)))
    enough = sign(mix(np.arange(MIN_NGRAMS, dtype=np.uint64)))
    assert estimate_similarity(small, small) == 0.0
    assert estimate_similarity(enough, enough) == 1.0
    assert band_key(np.array([small, enough])[:, :NUM_ROWS]).tolist().count(NO_KEY) == 1
    assert all_pairs(np.array([small, small, enough, enough])).tolist() == [[2, 3]]


def test_a_fingerprint_counts_n_grams_once_and_cells_by_themselves(make):
    cells = make.cells("a b c d e f", "a b c d e f", "x y", ("markdown", ""))
    assert fingerprint(cells).num_ngrams == 3
    other_order = fingerprint(make.cells("x y", "a b c d e f"))
    assert other_order.num_ngrams == 3


def test_pairs_are_the_similar_ones_and_do_not_depend_on_bands_or_order():
    signatures = signatures_of((0.95, 5), (0.9, 3), (0.3, 6), (1.0, 4))
    pairs = all_pairs(signatures)
    groups = [0] * 5 + [1] * 3 + [2] * 6 + [3] * 4
    assert all(groups[one] == groups[other] and one < other for one, other in pairs.tolist())
    # Two copies at 0.95 of one text are about 0.9 similar to each other.
    assert {groups[one] for one, _ in pairs.tolist()} == {0, 1, 3}
    similarities = estimate_similarity(signatures[pairs[:, 0]], signatures[pairs[:, 1]])
    assert (similarities >= THRESHOLD).all()
    order = np.random.default_rng(0).permutation(len(signatures))
    again = all_pairs(signatures[order])
    renamed = np.sort(order[again], axis=1)
    assert sorted(renamed.tolist()) == pairs.tolist()


@pytest.mark.parametrize(("num_equal", "is_pair"), [(8, False), (78, False), (79, True)])
def test_a_shared_bucket_is_not_enough(num_equal, is_pair):
    signatures = np.arange(2 * NUM_PERMUTATIONS, dtype=np.uint32).reshape(2, NUM_PERMUTATIONS)
    signatures[1, :num_equal] = signatures[0, :num_equal]
    pairs = find_pairs(band_key(signatures[:, :NUM_ROWS]), signatures)
    assert pairs.tolist() == ([[0, 1]] if is_pair else [])


def test_a_crowded_bucket_takes_no_square_of_comparisons(monkeypatch):
    count = 0

    def counting(ones, others):
        nonlocal count
        count += len(ones)
        return estimate_similarity(ones, others)

    monkeypatch.setattr(near_duplicates, "estimate_similarity", counting)
    signatures = np.repeat(signatures_of((1.0, 1)), 5000, axis=0)
    pairs = find_pairs(band_key(signatures[:, :NUM_ROWS]), signatures)
    assert count == 4999
    assert pairs.tolist() == [[0, other] for other in range(1, 5000)]
    # Whichever is the best, all others go for it, though they were paired with the first only.
    ranks = np.random.default_rng(1).permutation(5000).astype(np.uint32)
    chosen = choose_representatives(pairs, ranks, signatures)
    assert set(chosen.tolist()) == {int(np.argmin(ranks))}


def edited_notebooks(make, fraction: float, *, in_one_stretch: bool) -> np.ndarray:
    """Signatures of 60 notebooks and then of the same with that fraction of words replaced."""
    rng = random.Random(5)
    originals = [[f"w{rng.randrange(20_000)}" for _ in range(600)] for _ in range(60)]
    copies: list[list[str]] = []
    for words in originals:
        start, length = rng.randrange(300), round(600 * fraction)
        places = range(start, start + length) if in_one_stretch else rng.sample(range(600), length)
        changed = set(places)
        copies.append([f"new{idx}" if idx in changed else word for idx, word in enumerate(words)])
    texts = [[" ".join(words[:250]), " ".join(words[250:])] for words in originals + copies]
    return np.array([fingerprint(make.cells(*each)).signature for each in texts])


@pytest.mark.parametrize(
    ("fraction", "in_one_stretch", "least", "most"),
    [
        (0.01, False, 59, 60),
        (0.01, True, 60, 60),
        (0.05, True, 57, 60),
        (0.2, True, 1, 40),
        (0.2, False, 0, 0),
        (0.5, True, 0, 2),
        (0.5, False, 0, 0),
    ],
)
def test_edited_notebooks_are_found_while_they_are_similar(
    make, fraction, in_one_stretch, least, most
):
    pairs = all_pairs(edited_notebooks(make, fraction, in_one_stretch=in_one_stretch)).tolist()
    assert all(other == one + 60 for one, other in pairs)
    assert least <= len(pairs) <= most


UNLIKE = np.arange(40 * NUM_PERMUTATIONS, dtype=np.uint32).reshape(40, NUM_PERMUTATIONS)
"""Signatures of notebooks no two of which are similar."""


def test_what_stays_is_no_pair_and_what_goes_is_similar_to_what_it_went_for():
    rng = random.Random(0)
    for _ in range(50):
        num = 30
        edges = {tuple(sorted(rng.sample(range(num), 2))) for _ in range(40)}
        pairs = merge_pairs([np.array(sorted(edges), np.uint32)])
        ranks = np.array(rng.sample(range(num), num), np.uint32)
        chosen = choose_representatives(pairs, ranks, UNLIKE).tolist()
        stays = {idx for idx in range(num) if chosen[idx] == idx}
        assert not any(one in stays and other in stays for one, other in edges)
        for idx in set(range(num)) - stays:
            assert chosen[idx] in stays
            assert tuple(sorted((idx, chosen[idx]))) in edges
            assert ranks[chosen[idx]] < ranks[idx]


def test_a_chain_does_not_become_one_cluster():
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.uint32)
    chosen = choose_representatives(pairs, np.array([2, 0, 3, 1, 4], np.uint32), UNLIKE)
    assert chosen.tolist() == [1, 1, 1, 3, 3]


@pytest.mark.parametrize("num", [0, 1, 3])
def test_no_pairs_at_all(num):
    none = merge_pairs([])
    ranks = np.arange(num, dtype=np.uint32)
    assert choose_representatives(none, ranks, UNLIKE).tolist() == [*range(num)]
    assert find_pairs(np.zeros(num, np.uint64), np.zeros((num, 112), np.uint32)).size == 0
    copies, origins = find_neighbours(none, np.zeros(num, np.bool_))
    assert copies.size == origins.size == 0


def test_neighbours_of_held_out_notebooks_are_one_step_away():
    pairs = np.array([[0, 1], [1, 2], [2, 3], [1, 4], [0, 5], [4, 5]], np.uint32)
    is_held = np.isin(np.arange(6), [0, 4])
    copies, origins = find_neighbours(pairs, is_held)
    assert (copies.tolist(), origins.tolist()) == ([1, 5], [0, 0])
    assert without(pairs, np.isin(np.arange(6), [0, 1])).tolist() == [[2, 3], [4, 5]]


QUALITY = ("is_unwanted", "is_fork", "is_old_version", "is_checkpoint", "is_markdown_focused")


def quality_of(**columns: list[int]) -> Quality:
    size = len(next(iter(columns.values())))
    flags = {name: np.array(columns.get(name, [0] * size), np.bool_) for name in QUALITY}
    return Quality(
        **flags,
        num_ngrams=np.array(columns.get("num_ngrams", [0] * size), np.uint32),
        tie_breaker=np.array(columns.get("tie_breaker", range(size)), np.uint64),
    )


@pytest.mark.parametrize(
    ("columns", "best"),
    [
        ({"is_unwanted": [1, 0], "is_fork": [0, 1]}, 1),
        ({"is_fork": [1, 0], "is_old_version": [0, 1]}, 1),
        ({"is_old_version": [1, 0], "is_checkpoint": [0, 1]}, 1),
        ({"is_checkpoint": [1, 0], "is_markdown_focused": [1, 0]}, 1),
        ({"is_markdown_focused": [0, 1], "num_ngrams": [9, 1]}, 1),
        ({"num_ngrams": [5, 7], "tie_breaker": [0, 1]}, 1),
        ({"tie_breaker": [7, 3]}, 1),
        ({"tie_breaker": [3, 3]}, 0),
    ],
)
def test_the_first_difference_in_quality_decides(columns, best):
    assert rank_by_quality(quality_of(**columns)).tolist().index(0) == best
