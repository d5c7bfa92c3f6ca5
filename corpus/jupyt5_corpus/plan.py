"""The middle of a build: what only the keys of all notebooks together can tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from jupyt5_corpus.filters import exact_duplicates, holdout, removal_of
from jupyt5_corpus.row import Key, Removal
from jupyt5_corpus.split import Families, side_of
from jupyt5_corpus.stages import Layout, UnitPlan, read_removals
from jupyt5_corpus.tables import iter_keys

__all__ = ["CorpusPlan", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPlan:
    """Decisions about the whole corpus; ``for_unit`` gives those a worker needs.

    Attributes:
        copies: Content hash → detail, for equal copies of what the holdout removed.
        clusters: Content hash → cluster, for exact duplicates.
        families: Repository → family and side, for every repository of the input.
    """

    layout: Layout
    copies: Mapping[str, str]
    clusters: Mapping[str, exact_duplicates.Cluster]
    families: Mapping[str, tuple[str, str]]

    def for_unit(self, unit_idx: int) -> UnitPlan:
        """Look up every row of one unit."""
        removals: dict[int, Removal] = {}
        clusters: dict[int, str] = {}
        repos: set[str] = set()
        for key in iter_keys(self.layout.rows(unit_idx), unit_idx):
            repos.add(key.repo)
            removal = self._judge(key)
            if removal is not None:
                removals[key.row_idx] = removal
            elif key.content_hash in self.clusters:
                clusters[key.row_idx] = key.content_hash
        families = {repo: self.families[repo] for repo in sorted(repos)}
        return UnitPlan(removals=removals, clusters=clusters, families=families)

    def _judge(self, key: Key) -> Removal | None:
        if key.content_hash in self.copies:
            detail = self.copies[key.content_hash]
            return removal_of(key, step=holdout.STEP, reason="holdout_copy", detail=detail)
        cluster = self.clusters.get(key.content_hash)
        if cluster is None or cluster.keeper == key:
            return None
        keeper = cluster.keeper
        place = f"{keeper.repo}/{keeper.path}"
        detail = f"same cells as {place}{f' at {keeper.commit}' if keeper.commit else ''}"
        return removal_of(key, step=exact_duplicates.STEP, reason="exact_duplicate", detail=detail)


def make_plan(layout: Layout, unit_idxs: Sequence[int]) -> CorpusPlan:
    """Read all keys and decide on copies of held-out notebooks, duplicates and families."""
    removed = [each for idx in unit_idxs for each in read_removals(layout.early_removals(idx))]
    copies = holdout.find_copies(removed)
    kept_keys = (key for key in _all_keys(layout, unit_idxs) if key.content_hash not in copies)
    families = Families()
    for each in chain(_all_keys(layout, unit_idxs), removed):
        families.add(
            each.repo,
            content_hash=each.content_hash if each.is_substantial else None,
            fork_of=each.fork_of,
        )
    return CorpusPlan(
        layout=layout,
        copies=copies,
        clusters=exact_duplicates.find_clusters(kept_keys),
        families={repo: (name, side_of(name)) for repo, name in families.names().items()},
    )


def _all_keys(layout: Layout, unit_idxs: Sequence[int]) -> Iterator[Key]:
    for unit_idx in unit_idxs:
        yield from iter_keys(layout.rows(unit_idx), unit_idx)
