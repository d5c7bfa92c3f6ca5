"""Step ``exact_duplicates``: of notebooks with equal cells, keep one.

Equal means the same ``content_hash``, in whatever repository. The one that stays does not depend
on the order of the input: first those that are no known fork, then the newest commit before older
versions, then those outside ``.ipynb_checkpoints``; among these the smallest (repo, path, commit).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jupyt5_corpus.row import Key

__all__ = ["STEP", "Cluster", "find_clusters"]

STEP = "exact_duplicates"
_CHECKPOINTS = ".ipynb_checkpoints"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Notebooks with one content: the one that is kept, and how many there are."""

    keeper: Key
    num_members: int


def find_clusters(keys: Iterable[Key]) -> Mapping[str, Cluster]:
    """Return, by content hash, every group of two or more equal notebooks."""
    clusters: dict[str, Cluster] = {}
    for key in keys:
        known = clusters.get(key.content_hash)
        if known is None:
            clusters[key.content_hash] = Cluster(key, 1)
            continue
        keeper = min(known.keeper, key, key=_preference)
        clusters[key.content_hash] = Cluster(keeper, known.num_members + 1)
    return {digest: cluster for digest, cluster in clusters.items() if cluster.num_members > 1}


def _preference(key: Key) -> tuple[object, ...]:
    return (
        key.fork_of is not None,
        key.is_old_version,
        _CHECKPOINTS in key.path.split("/"),
        key.repo,
        key.path,
        key.commit or "",
        # The same file given twice: any of the two would do, but it must be a fixed one.
        key.unit_idx,
        key.row_idx,
    )
