"""Words and n-grams, against a plain implementation with a regular expression."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyt5_corpus import ngrams
from jupyt5_corpus.ngrams import Words, hash_ngrams, mix, split_words

PLAIN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[0-9A-Za-z_\u00c0-\u00ff\u0400-\u04ff]+")
TEXTS = st.lists(
    st.text(st.sampled_from("ab_Z9 .\n\0äÖЖ漢字、🙂\ud800\x85"), max_size=40), max_size=5
)
HASHES = [
    "464278019c5bae8f",
    "c4daa511d1713190",
    "77067a6c7a8f620b",
    "ef69a025ceed94d1",
    "5a469fb8fb2ef689",
]
NGRAM_HASHES = ["9c13083f681f5509", "5214efddb73ee00f", "b30521593fa21926"]


def spans(words: Words) -> list[tuple[int, int, int]]:
    columns = (words.cell_idxs, words.starts, words.ends)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def plain_spans(texts: list[str]) -> list[tuple[int, int, int]]:
    return [
        (cell_idx, match.start(), match.end())
        for cell_idx, text in enumerate(texts)
        for match in PLAIN.finditer(text)
    ]


@given(TEXTS)
def test_words_are_those_of_a_regular_expression(texts):
    words = split_words(texts)
    assert spans(words) == plain_spans(texts)
    names = [texts[cell][start:end].lower() for cell, start, end in spans(words)]
    assert len(set(words.hashes.tolist())) == len(set(names))
    assert words.is_name.tolist() == [not name[0].isdigit() for name in names]


@given(TEXTS, st.integers(1, 4), st.booleans())
def test_ngrams_are_equal_exactly_when_their_words_are(texts, size, short_cells):
    words = split_words(texts)
    made = hash_ngrams(words, size, short_cells=short_cells)
    expected: list[tuple[int, tuple[str, ...]]] = []
    place = 0
    for cell_idx, text in enumerate(texts):
        cell = [text[start:end].lower() for cell, start, end in spans(words) if cell == cell_idx]
        expected += [
            (place + idx, tuple(cell[idx : idx + size])) for idx in range(len(cell) - size + 1)
        ]
        if short_cells and 0 < len(cell) < size:
            expected.append((place, tuple(cell)))
        place += len(cell)
    assert made.first_words.tolist() == [first for first, _ in expected]
    texts_of: dict[int, set[tuple[str, ...]]] = {}
    for value, (_, ngram) in zip(made.hashes.tolist(), expected, strict=True):
        texts_of.setdefault(value, set()).add(ngram)
    assert all(len(found) == 1 for found in texts_of.values())
    assert len(texts_of) == len({ngram for _, ngram in expected})


def test_hashes_are_the_same_in_every_version():
    """Shipped indexes hold them: a change here makes all of them useless."""
    words = split_words(["Sum of squares", "漢字"])
    assert [f"{value:016x}" for value in words.hashes.tolist()] == HASHES
    made = hash_ngrams(words, 2, short_cells=False)
    assert [f"{value:016x}" for value in made.hashes.tolist()] == NGRAM_HASHES


def test_order_matters_and_case_does_not():
    one, two, three = (
        hash_ngrams(split_words([text]), 3, short_cells=False).hashes.tolist()
        for text in ("a = b + c", "A(b, C)", "b a c")
    )
    assert one == two
    assert one != three


def test_long_cells_are_cut_and_hostile_ones_bounded(monkeypatch):
    monkeypatch.setattr(ngrams, "_PIECE_CHARS", 8)
    text = "ab cd ef gh ij kl"
    assert spans(split_words([text, text])) == [
        (cell, start, end)
        for cell in (0, 1)
        for start, end in [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 16), (16, 17)]
    ]
    monkeypatch.setattr(ngrams, "MAX_WORDS", 9)
    assert split_words([text, text]).hashes.size == 9


@pytest.mark.parametrize("texts", [[], [""], ["", "\n"], ["🙂"]])
def test_no_words_is_no_error(texts):
    words = split_words(texts)
    assert words.hashes.size == 0
    assert hash_ngrams(words, 5, short_cells=True).hashes.size == 0


def test_a_word_longer_than_the_table_of_powers_is_a_word():
    one, two = split_words(["x" * 5000, "x" * 5001]).hashes.tolist()
    assert one != two


def test_mixing_is_one_to_one():
    values = np.arange(100_000, dtype=np.uint64)
    assert np.unique(mix(values)).size == values.size
