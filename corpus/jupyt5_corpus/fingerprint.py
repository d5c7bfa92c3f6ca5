"""What the steps over text need of a notebook, computed once: words and MinHash signature."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.minhash import distinct_ngrams, sign
from jupyt5_corpus.ngrams import Words, split_words
from jupyt5_corpus.row import CellText

__all__ = ["Fingerprint", "fingerprint"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fingerprint:
    """A notebook's words, its signature (see ``minhash``) and how many n-grams that stands for."""

    words: Words
    signature: NDArray[np.uint32]
    num_ngrams: int


def fingerprint(cells: Sequence[CellText]) -> Fingerprint:
    """Compute the fingerprint of a notebook's cells."""
    words = split_words([cell.source for cell in cells])
    distinct = distinct_ngrams(words)
    return Fingerprint(words=words, signature=sign(distinct), num_ngrams=distinct.size)
