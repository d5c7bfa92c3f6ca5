"""The middle of a build: what only the keys of all notebooks together can tell.

The plan reads keys, repositories and pairs of near-duplicates, never a notebook. It leaves for
each unit a list of decisions about its rows (``DECISION``) and a table of its repositories.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5.files import write_atomic
from jupyt5_corpus import near_duplicates
from jupyt5_corpus.filters import exact_duplicates, holdout
from jupyt5_corpus.keys import (
    HELD,
    KEPT,
    Joined,
    Keys,
    RepoFacts,
    group_contents,
    read_keys,
    read_repos,
)
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.split import Families, side_of

__all__ = [
    "CLUSTER",
    "COPY",
    "DECISION",
    "EXACT",
    "FORK",
    "NEAR",
    "NEAR_COPY",
    "PlanRules",
    "contents_to_compare",
    "make_plan",
]

CLUSTER, EXACT, NEAR, COPY, NEAR_COPY, FORK = range(1, 7)
"""Stays and others went for it; goes: equal to another, similar to another, equal to a held-out
notebook, similar to one, in a repository most of whose notebooks are held out."""

DECISION = np.dtype(
    [
        ("row", "<u4"),
        ("action", "u1"),
        ("other_unit", "<u4"),
        ("other_row", "<u4"),
        ("other_state", "u1"),
    ]
)
"""One row about which there is something to say, and the notebook it was compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """What the recipe asks of the plan.

    Attributes:
        drop_exact: Whether exact duplicates go.
        drop_near: Whether near-duplicates go.
        drop_held: Whether copies of held-out notebooks go.
        is_wanted: Whether a later step would let a licence pass.
    """

    drop_exact: bool
    drop_near: bool
    drop_held: bool
    is_wanted: Callable[[str | None], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repos:
    """The corpus's repositories in alphabetical order, and the number of each."""

    names: Sequence[str]
    numbers: Mapping[str, int]
    licences: Sequence[tuple[str, str] | None]
    forks: Mapping[str, str]


class _Decisions:
    """What happens to each notebook, and the other one that it is compared with."""

    def __init__(self, keys: Keys) -> None:
        self._is_kept = keys["state"] == KEPT
        self.actions = np.zeros(keys.size, np.uint8)
        self.others = np.full(keys.size, -1, np.int64)

    @property
    def is_left(self) -> NDArray[np.bool_]:
        """Tell which notebooks stay so far."""
        return self._is_kept & (self.actions == 0)

    def drop(self, chosen: NDArray[np.bool_], action: int, others: NDArray[np.int64]) -> None:
        """Drop the chosen notebooks, as far as they are left."""
        chosen = chosen & self.is_left
        self.actions[chosen] = action
        self.others[chosen] = others[chosen]

    def mark_clusters(self) -> None:
        """Mark those that stay and for which others went."""
        went = (self.actions == EXACT) | (self.actions == NEAR)
        is_cluster = np.zeros(self.actions.size, np.bool_)
        is_cluster[self.others[went]] = True
        self.actions[is_cluster & self.is_left] = CLUSTER


def make_plan(
    layout: Layout, num_units: int, *, num_bands: int, rules: PlanRules
) -> Mapping[str, object]:
    """Decide about the whole corpus and write the decisions for each unit.

    Returns:
        How many repositories came in.

    Raises:
        OSError: If a file cannot be read or written.
    """
    keys = read_keys([layout.keys(unit_idx) for unit_idx in range(num_units)])
    repos = _join_repos(_iter_facts(layout, num_units))
    bounds = np.searchsorted(keys["unit"], np.arange(num_units + 1))
    for unit_idx, facts in enumerate(_iter_facts(layout, num_units)):
        here = slice(bounds[unit_idx], bounds[unit_idx + 1])
        numbers = np.array([repos.numbers[repo] for repo in facts], np.uint32)
        keys["repo"][here] = numbers[keys["repo"][here]]
    pairs = near_duplicates.merge_pairs(
        np.load(layout.edges(band_idx), allow_pickle=False) for band_idx in range(num_bands)
    )
    is_wanted = np.array([rules.is_wanted(pair and pair[0]) for pair in repos.licences], np.bool_)
    signatures = None
    if rules.drop_near:
        paths = [layout.signatures(unit_idx) for unit_idx in range(num_units)]
        signatures = Joined(paths, contents_to_compare(keys))
    decisions = _decide(keys, pairs, rules, is_wanted[keys["repo"]], signatures=signatures)
    _write_decisions(layout, keys, bounds, decisions)
    families = _name_families(repos, keys)
    for unit_idx, facts in enumerate(_iter_facts(layout, num_units)):
        table = {repo: _describe_repo(repo, repos, families) for repo in facts}
        write_atomic(layout.repo_plan(unit_idx), orjson.dumps(table))
    return {"num_repositories": len(families)}


def contents_to_compare(keys: Keys) -> NDArray[np.int64]:
    """Return one notebook of each content, in the order of the contents' numbers."""
    order, starts = group_contents(keys)
    return order[starts[:-1]]


def _decide(
    keys: Keys,
    pairs: NDArray[np.uint32],
    rules: PlanRules,
    is_wanted: NDArray[np.bool_],
    *,
    signatures: Joined | None,
) -> _Decisions:
    decisions = _Decisions(keys)
    contents = _number_contents(keys)
    ranks = exact_duplicates.rank_by_preference(keys, ~is_wanted)
    if rules.drop_held:
        is_held = (keys["state"] == HELD) & keys["is_substantial"]
        origins = exact_duplicates.choose_keepers(contents, ranks, is_held)
        _drop_held(decisions, keys, contents, pairs, origins)
    if rules.drop_exact:
        keepers = exact_duplicates.choose_keepers(contents, ranks, decisions.is_left)
        is_keeper = np.zeros(keys.size, np.bool_)
        is_keeper[keepers[keepers >= 0]] = True
        decisions.drop(~is_keeper, EXACT, keepers[contents])
        if signatures is not None:
            quality = _rate(keys, keepers, ranks, ~is_wanted)
            chosen = _choose_among_similar(keepers, pairs, quality, signatures)
            decisions.drop(chosen[contents] != keepers[contents], NEAR, chosen[contents])
    decisions.mark_clusters()
    return decisions


def _drop_held(
    decisions: _Decisions,
    keys: Keys,
    contents: NDArray[np.int64],
    pairs: NDArray[np.uint32],
    origins: NDArray[np.int64],
) -> None:
    """Drop copies of held-out notebooks; ``origins`` has the held-out one of each content."""
    decisions.drop(origins[contents] >= 0, COPY, origins[contents])
    near_origins = np.full(origins.size, -1, np.int64)
    copies, sources = near_duplicates.find_neighbours(pairs, origins >= 0)
    near_origins[copies] = origins[sources]
    decisions.drop(near_origins[contents] >= 0, NEAR_COPY, near_origins[contents])
    is_held = (keys["state"] == HELD) | (decisions.actions > 0)
    forks = holdout.find_forks(keys["repo"], is_held)
    decisions.drop(np.isin(keys["repo"], forks), FORK, np.full(keys.size, -1, np.int64))


def _number_contents(keys: Keys) -> NDArray[np.int64]:
    """Return the number of each notebook's content."""
    order, starts = group_contents(keys)
    contents = np.empty(keys.size, np.int64)
    contents[order] = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    return contents


def _rate(
    keys: Keys, keepers: NDArray[np.int64], ranks: NDArray[np.int64], is_unwanted: NDArray[np.bool_]
) -> near_duplicates.Quality:
    """Describe the notebook that is left of each content; others have no pairs and don't matter."""
    nodes = np.maximum(keepers, 0)
    of_nodes = keys[nodes]
    return near_duplicates.Quality(
        is_unwanted=is_unwanted[nodes],
        is_fork=of_nodes["is_fork"],
        is_old_version=of_nodes["is_old_version"],
        is_checkpoint=of_nodes["is_checkpoint"],
        is_markdown_focused=of_nodes["is_markdown_focused"],
        num_ngrams=of_nodes["num_ngrams"],
        tie_breaker=ranks[nodes].astype(np.uint64),
    )


def _choose_among_similar(
    keepers: NDArray[np.int64],
    pairs: NDArray[np.uint32],
    quality: near_duplicates.Quality,
    signatures: Joined,
) -> NDArray[np.int64]:
    """Return for each content the notebook that stays for it; -1 where nothing is left of it."""
    is_left = keepers >= 0
    pairs = near_duplicates.without(pairs, ~is_left)
    ranks = near_duplicates.rank_by_quality(quality)
    chosen = near_duplicates.choose_representatives(pairs, ranks, signatures)
    return np.where(is_left, keepers[chosen], -1)


def _write_decisions(
    layout: Layout,
    keys: Keys,
    bounds: NDArray[np.int64],
    plan: _Decisions,
) -> None:
    actions, others = plan.actions, plan.others
    for unit_idx, (start, end) in enumerate(pairwise(bounds.tolist())):
        chosen = start + np.flatnonzero(actions[start:end])
        decisions = np.zeros(chosen.size, DECISION)
        decisions["row"] = keys["row"][chosen]
        decisions["action"] = actions[chosen]
        has_other = others[chosen] >= 0
        other = others[chosen][has_other]
        for field in ("unit", "row", "state"):
            decisions[f"other_{field}"][has_other] = keys[field][other]
        with layout.whole(layout.decisions(unit_idx)) as path, path.open("wb") as stream:
            np.save(stream, decisions, allow_pickle=False)


def _iter_facts(layout: Layout, num_units: int) -> Iterator[Mapping[str, RepoFacts]]:
    """Read the units' tables of repositories one after the other; all would be much memory."""
    for unit_idx in range(num_units):
        yield read_repos(layout.repos(unit_idx))


def _join_repos(facts_of_units: Iterable[Mapping[str, RepoFacts]]) -> _Repos:
    all_names: set[str] = set()
    forks: dict[str, str] = {}
    licences: dict[str, tuple[str, str]] = {}
    found: dict[str, tuple[str, str]] = {}
    # Few licences for many repositories: each is kept once.
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for facts in facts_of_units:
        all_names.update(facts)
        for repo, fact in facts.items():
            if fact.fork_of is not None:
                forks[repo] = fact.fork_of
            if fact.licence is not None:
                licences.setdefault(repo, known.setdefault(fact.licence, fact.licence))
            if fact.found_licence is not None:
                licence = known.setdefault(fact.found_licence, fact.found_licence)
                found.setdefault(repo, licence)
    names = sorted(all_names)
    return _Repos(
        names=names,
        numbers={repo: number for number, repo in enumerate(names)},
        licences=[licences.get(repo) or found.get(repo) for repo in names],
        forks=forks,
    )


def _name_families(repos: _Repos, keys: Keys) -> Mapping[str, str]:
    """Return repository → family, from equal contents and forks."""
    families = Families()
    for repo in repos.names:
        families.add(repo, fork_of=repos.forks.get(repo))
    substantial = keys[keys["is_substantial"]]
    order, starts = group_contents(substantial)
    is_first = np.zeros(order.size, np.bool_)
    is_first[starts[:-1]] = True
    repo_idxs = substantial["repo"][order]
    ties = np.stack([repo_idxs[:-1], repo_idxs[1:]], axis=1)[~is_first[1:]]
    for tie in np.unique(ties, axis=0):
        families.join(repos.names[int(tie[0])], repos.names[int(tie[1])])
    return families.names()


def _describe_repo(repo: str, repos: _Repos, families: Mapping[str, str]) -> Mapping[str, object]:
    family = families[repo]
    licence = repos.licences[repos.numbers[repo]]
    return {"family": family, "split": side_of(family), "licence": licence}
