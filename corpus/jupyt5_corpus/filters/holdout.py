"""Step ``holdout``: remove notebooks of held-out repositories, and copies of held-out text.

A notebook goes when its repository, or the one it was forked from, is on a list (letter case
aside); when its content hash is; or when one of its cells is, exactly. Cells with fewer than 40
characters, white space aside, are not compared: ``plt.show()`` is nobody's secret.
Afterwards, with all notebooks known, their equal and near copies go too, and what is left of
repositories that consist mostly of such notebooks (``find_forks``).
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.content import cell_sha256, is_substantial
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.row import Removal, Row

__all__ = ["STEP", "find_forks", "hold_out", "quote", "redacted"]

STEP = "holdout"
_MIN_FORK_NOTEBOOKS = 2
_MAX_QUOTED_CHARS = 300


def hold_out(row: Row, holdouts: Holdouts, *, rules_dir: Path | None = None) -> Row | Removal:
    """Remove the row if a holdout list names its repository, its content or one of its cells.

    Args:
        row: The notebook.
        holdouts: What to look for.
        rules_dir: See ``redacted``, for the cell that is quoted.
    """
    match = _match_repo(row, holdouts) or _match_text(row, holdouts, rules_dir)
    if match is None:
        return row
    reason, detail = match
    return removal_of(row, step=STEP, reason=reason, detail=detail)


def find_forks(repos: NDArray[np.uint32], is_held: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Find repositories that are forks of held-out ones by their content.

    A repository counts as one when more than half of its notebooks, and at least two, are held
    out: by a list, or as equal or near copies of what is.

    Args:
        repos: Repository number of every notebook that could be read.
        is_held: Whether the notebook is held out.

    Returns:
        Repository numbers, ascending.
    """
    num_notebooks = np.bincount(repos)
    num_held = np.bincount(repos[is_held], minlength=num_notebooks.size)
    is_fork = (num_held >= _MIN_FORK_NOTEBOOKS) & (2 * num_held > num_notebooks)
    return np.flatnonzero(is_fork).astype(np.uint32)


def redacted(row: Row, rules_dir: Path | None) -> Row:
    """Return the row as it may be quoted.

    Args:
        row: The notebook, whole: half a secret would not be known for one.
        rules_dir: Compiled rules of the detectors of secrets; None to quote the row as it is.
    """
    if rules_dir is None:
        return row
    from jupyt5_corpus.filters.secrets import redact

    return redact(row, rules_dir=rules_dir)


def quote(text: str) -> str:
    """Return a text in one line, cut after 300 characters, as removals quote it."""
    line = " ".join(text[: 4 * _MAX_QUOTED_CHARS].split())
    return line if len(line) <= _MAX_QUOTED_CHARS else f"{line[:_MAX_QUOTED_CHARS]}…"


def _match_repo(row: Row, holdouts: Holdouts) -> tuple[str, str] | None:
    source = holdouts.repos.get(row.repo.lower())
    if source is not None:
        return "holdout_repo", f"{source}: repository {row.repo}"
    if row.fork_of is not None:
        source = holdouts.repos.get(row.fork_of.lower())
        if source is not None:
            return "holdout_repo", f"{source}: fork of {row.fork_of}"
    return None


def _match_text(row: Row, holdouts: Holdouts, rules_dir: Path | None) -> tuple[str, str] | None:
    source = holdouts.contents.get(row.content_hash)
    if source is not None:
        return "holdout_content", f"{source}: content {row.content_hash}"
    if not holdouts.cells:
        return None
    for cell_idx, cell in enumerate(row.cells):
        if not is_substantial([cell.source]):
            continue
        digest = cell_sha256(cell.source)
        source = holdouts.cells.get(digest)
        if source is not None:
            quoted = quote(redacted(row, rules_dir).cells[cell_idx].source)
            return "holdout_cell", f"{source}: cell {cell_idx} is {digest}: {quoted}"
    return None
