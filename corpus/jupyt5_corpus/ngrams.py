"""Words of notebooks and hashes of n-grams of words, as arrays: no Python loop over words.

A word is a run of letters, digits and underscores, in lower case; a Chinese or Japanese character
is a word by itself, since these scripts set no blanks. Everything else only separates. An n-gram
never crosses from one cell into another. Hashes are 64-bit, equal on every machine, and no
protection against somebody who wants them to collide.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_WORDS", "Ngrams", "Words", "hash_ngrams", "mix", "split_words"]

MAX_WORDS = 1_000_000
"""Words of a notebook that are looked at; bounds the memory that a hostile one takes (0.2 GB)."""

_PIECE_CHARS = 1 << 20
_PART, _SINGLE = 1, 2
_TABLE_SIZE = 0x10000
_SINGLES = ((0x2E80, 0x3130), (0x3190, 0xA000), (0xF900, 0xFB00))
"""Code points of Han characters and kana."""

_NUM_POWERS = 1024
_BASE = 0x9E3779B97F4A7C15
"""Odd 64-bit constant (2^64 / golden ratio) of splitmix64, whose finaliser ``mix`` is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """All words of a notebook, in order.

    Attributes:
        hashes: One hash a word.
        starts: Where each begins, in characters of its cell.
        ends: Where it ends, exclusive.
        cell_idxs: The cell it stands in, ascending.
        is_name: Whether it begins with a letter or an underscore.
    """

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    cell_idxs: NDArray[np.int64]
    is_name: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ngrams:
    """N-grams in order of appearance: their hashes and the index of the first word of each."""

    hashes: NDArray[np.uint64]
    first_words: NDArray[np.int64]


def split_words(texts: Sequence[str]) -> Words:
    """Split the cells of a notebook into words.

    Args:
        texts: The cells' sources. Words after the first ``MAX_WORDS`` are left out.
    """
    parts: list[Words] = []
    num_words = 0
    for pieces in _group(texts):
        part = _split(pieces)
        parts.append(part)
        num_words += part.hashes.size
        if num_words >= MAX_WORDS:
            break
    if len(parts) == 1 and num_words <= MAX_WORDS:
        return parts[0]
    parts = parts or [_split([])]
    return Words(
        hashes=np.concatenate([part.hashes for part in parts])[:MAX_WORDS],
        starts=np.concatenate([part.starts for part in parts])[:MAX_WORDS],
        ends=np.concatenate([part.ends for part in parts])[:MAX_WORDS],
        cell_idxs=np.concatenate([part.cell_idxs for part in parts])[:MAX_WORDS],
        is_name=np.concatenate([part.is_name for part in parts])[:MAX_WORDS],
    )


def hash_ngrams(words: Words, size: int, *, short_cells: bool) -> Ngrams:
    """Hash every n-gram of ``size`` words that stands in one cell.

    Args:
        words: A notebook's words.
        size: Words in an n-gram, >= 1.
        short_cells: Whether all words of a cell with fewer than ``size`` make one n-gram too.
    """
    num_words = words.hashes.size
    cells = words.cell_idxs
    ends = np.searchsorted(cells, cells, side="right")
    lengths = np.minimum(ends - np.arange(num_words), size)
    is_kept = lengths == size
    if short_cells:
        is_kept[:1] = True
        is_kept[1:] |= cells[1:] != cells[:-1]
    first_words = np.flatnonzero(is_kept)
    lengths = lengths[first_words]
    hashes = np.zeros(first_words.size, np.uint64)
    padded = np.concatenate([words.hashes, np.zeros(size, np.uint64)])
    for place in range(size):
        terms = padded[first_words + place] * _odd_constant(place)
        if short_cells:
            terms *= (lengths > place).astype(np.uint64)
        hashes += terms
    return Ngrams(hashes=mix(hashes), first_words=first_words)


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the values over 64 bits, one to one (the finaliser of splitmix64)."""
    mixed = values + np.uint64(_BASE)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


@cache
def _odd_constant(place: int) -> np.uint64:
    return mix(np.array([place], np.uint64))[0] | np.uint64(1)


def _group(texts: Sequence[str]) -> Iterator[list[tuple[int, int, str]]]:
    """Yield (cell, offset in the cell, text) in groups of bounded size; long cells are cut."""
    group: list[tuple[int, int, str]] = []
    num_chars = 0
    for cell_idx, text in enumerate(texts):
        for offset in range(0, len(text), _PIECE_CHARS):
            piece = text if len(text) <= _PIECE_CHARS else text[offset : offset + _PIECE_CHARS]
            if group and num_chars + len(piece) > _PIECE_CHARS:
                yield group
                group, num_chars = [], 0
            group.append((cell_idx, offset, piece))
            num_chars += len(piece) + 1
    if group:
        yield group


def _split(pieces: Sequence[tuple[int, int, str]]) -> Words:
    codes = _codes("\n".join([text for _, _, text in pieces]))
    kinds = _kinds()[codes]
    is_part = kinds == _PART
    goes_on = np.zeros(codes.size, np.bool_)
    goes_on[1:] = is_part[1:] & is_part[:-1]
    is_word = kinds > 0
    starts = np.flatnonzero(is_word & ~goes_on)
    goes_on[:-1] = goes_on[1:]
    goes_on[-1:] = False
    ends = np.flatnonzero(is_word & ~goes_on) + 1
    lengths = ends - starts
    letters = _lower()[codes[is_word]]
    first_letters = np.cumsum(lengths) - lengths
    places = np.arange(letters.size) - np.repeat(first_letters, lengths)
    terms = letters * _powers()[places & (_NUM_POWERS - 1)]
    sums = np.add.reduceat(terms, first_letters) if starts.size else np.zeros(0, np.uint64)
    bounds = np.cumsum(np.array([0, *(len(text) + 1 for _, _, text in pieces)]))[:-1]
    piece_idxs = np.searchsorted(bounds, starts, side="right") - 1
    shifts = np.array([offset for _, offset, _ in pieces], np.int64) - bounds
    return Words(
        hashes=mix(sums),
        starts=starts + shifts[piece_idxs],
        ends=ends + shifts[piece_idxs],
        cell_idxs=np.array([cell_idx for cell_idx, _, _ in pieces], np.int64)[piece_idxs],
        is_name=~_digits()[codes[starts]],
    )


def _codes(text: str) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Return code points; those above U+FFFF (emoji, above all) become a separator."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.minimum(codes, _TABLE_SIZE - 1).astype(np.uint16)


@cache
def _kinds() -> NDArray[np.uint8]:
    kinds = np.array([chr(code).isalnum() for code in range(_TABLE_SIZE)], np.uint8) * _PART
    kinds[ord("_")] = _PART
    for first, end in _SINGLES:
        kinds[first:end] *= _SINGLE
    return kinds


@cache
def _lower() -> NDArray[np.uint64]:
    lower = [chr(code).lower() for code in range(_TABLE_SIZE)]
    # One is added so that no letter counts as 0; what has no single lower case stays.
    codes = [ord(text) if len(text) == 1 else code for code, text in enumerate(lower)]
    return np.array(codes, np.uint64) + np.uint64(1)


@cache
def _digits() -> NDArray[np.bool_]:
    return np.array([chr(code).isdigit() for code in range(_TABLE_SIZE)], np.bool_)


@cache
def _powers() -> NDArray[np.uint64]:
    """Powers of an odd number; words longer than the table use it again and again."""
    return np.cumprod(np.full(_NUM_POWERS, _BASE, np.uint64))
