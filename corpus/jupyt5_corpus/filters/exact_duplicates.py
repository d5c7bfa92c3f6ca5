"""Step ``exact_duplicates``: of notebooks with equal cells, keep one.

Equal means the same ``content_hash``, in whatever repository. The one that stays does not depend
on the order of the input; the first difference decides: no later step would drop it (licence), it
is no known fork, the newest commit before older versions, outside ``.ipynb_checkpoints``; then the
alphabetically smallest repository, the shortest path, and a hash of repository, path and commit.
"""

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.keys import Keys

__all__ = ["STEP", "choose_keepers", "rank_by_preference"]

STEP = "exact_duplicates"


def rank_by_preference(keys: Keys, is_unwanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return each notebook's rank, 0 for the first choice; no two ranks are equal.

    Args:
        keys: With repositories numbered in alphabetical order.
        is_unwanted: Whether a later step would drop the notebook.
    """
    order = np.lexsort(
        (
            # The same file given twice: any of the two would do, but it must be a fixed one.
            keys["row"],
            keys["unit"],
            keys["place_hash"],
            keys["path_chars"],
            keys["repo"],
            keys["is_checkpoint"],
            keys["is_old_version"],
            keys["is_fork"],
            is_unwanted,
        )
    )
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.arange(order.size)
    return ranks


def choose_keepers(
    contents: NDArray[np.int64], ranks: NDArray[np.int64], is_candidate: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return for each content the index of the notebook that stays, -1 where none is a candidate.

    Args:
        contents: Number of each notebook's content, from 0.
        ranks: See ``rank_by_preference``.
        is_candidate: Which notebooks may stay.
    """
    keepers = np.full(int(contents.max(initial=-1)) + 1, -1, np.int64)
    candidates = np.flatnonzero(is_candidate)
    # From the last choice to the first, so that the first is what remains written.
    candidates = candidates[np.argsort(-ranks[candidates])]
    keepers[contents[candidates]] = candidates
    return keepers
