"""fastText: a vector for each word, and their mean for each cell and notebook."""
# fasttext comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jupyt5.console import progress
from jupyt5.errors import CorpusError
from jupyt5_corpus.map.words import iter_documents

__all__ = ["Vectors", "notebook_vectors"]

Vectors = NDArray[np.float32]

_DIM = 64
_EPOCHS = 3
_MIN_COUNT = 5
_NOTEBOOKS_A_COUNT = 200

logger = logging.getLogger(__name__)


def notebook_vectors(lines_path: Path, num_notebooks: int) -> Vectors:
    """Train fastText on a file of cells and average its vectors for each notebook.

    Args:
        lines_path: What ``words.write_lines`` wrote.
        num_notebooks: Notebooks in it.

    Returns:
        (notebooks, 64), float32, less their mean and of length 1; a notebook without a known word
        has 0.

    Raises:
        CorpusError: If there are no words to learn from.
    """
    model = _train(lines_path, num_notebooks)
    vectors_ND = np.zeros((num_notebooks, _DIM), np.float32)
    documents = progress(
        iter_documents(lines_path), desc="Averaging", total=num_notebooks, unit="notebook"
    )
    for idx, lines in enumerate(documents):
        if lines:
            vectors_ND[idx] = np.mean([model.get_sentence_vector(line) for line in lines], axis=0)
    known_N = vectors_ND.any(axis=1)
    if not known_N.any():
        return vectors_ND
    vectors_ND[known_N] -= vectors_ND[known_N].mean(axis=0)
    lengths_N1 = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    return np.divide(vectors_ND, lengths_N1, out=vectors_ND, where=lengths_N1 > 0)


def _train(lines_path: Path, num_notebooks: int):  # noqa: ANN202 (fasttext has no types)
    import fasttext

    logger.info("Training fastText on the cells of %d notebooks.", num_notebooks)
    try:
        # Whole words: on 14,000 notebooks, character n-grams took twice the time and put spelling
        # before meaning (nearest to "satellite" was "crfsuite", without them it is "imagery").
        # One thread: with more, they race and no run is like the other.
        return fasttext.train_unsupervised(
            str(lines_path),
            model="cbow",
            dim=_DIM,
            epoch=_EPOCHS,
            minCount=min(_MIN_COUNT, 1 + num_notebooks // _NOTEBOOKS_A_COUNT),
            minn=0,
            maxn=0,
            thread=1,
            verbose=2 if sys.stderr.isatty() else 0,
        )
    except (RuntimeError, ValueError) as exc:
        message = f"fastText cannot learn from these notebooks: {exc} Map a larger corpus."
        raise CorpusError(message) from exc
