"""Step ``holdout``: remove notebooks of held-out repositories, and copies of held-out text.

A notebook goes when its repository, or the one it was forked from, is on a list (letter case
aside); when its content hash is; or when one of its cells is, exactly. Cells with fewer than 40
characters, white space aside, are not compared: ``plt.show()`` is nobody's secret.
Afterwards, with all notebooks known, equal copies of the removed ones go too (``find_copies``).
"""

from collections.abc import Iterable, Mapping

from jupyt5_corpus.content import cell_sha256, is_substantial
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.row import Removal, Row

__all__ = ["STEP", "find_copies", "hold_out"]

STEP = "holdout"


def hold_out(row: Row, holdouts: Holdouts) -> Row | Removal:
    """Remove the row if a holdout list names its repository, its content or one of its cells."""
    match = _match_repo(row, holdouts) or _match_text(row, holdouts)
    if match is None:
        return row
    reason, detail = match
    return removal_of(row, step=STEP, reason=reason, detail=detail)


def find_copies(removals: Iterable[Removal]) -> Mapping[str, str]:
    """Return content hash → detail for what the step removed, to find equal copies elsewhere."""
    origins: dict[str, Removal] = {}
    for removal in removals:
        if removal.step != STEP or removal.content_hash is None or not removal.is_substantial:
            continue
        known = origins.get(removal.content_hash)
        if known is None or (removal.repo, removal.path) < (known.repo, known.path):
            origins[removal.content_hash] = removal
    return {
        content_hash: f"same content as {origin.repo}/{origin.path} ({origin.detail})"
        for content_hash, origin in origins.items()
    }


def _match_repo(row: Row, holdouts: Holdouts) -> tuple[str, str] | None:
    source = holdouts.repos.get(row.repo.lower())
    if source is not None:
        return "holdout_repo", f"{source}: repository {row.repo}"
    if row.fork_of is not None:
        source = holdouts.repos.get(row.fork_of.lower())
        if source is not None:
            return "holdout_repo", f"{source}: fork of {row.fork_of}"
    return None


def _match_text(row: Row, holdouts: Holdouts) -> tuple[str, str] | None:
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
            return "holdout_cell", f"{source}: cell {cell_idx} is {digest}"
    return None
