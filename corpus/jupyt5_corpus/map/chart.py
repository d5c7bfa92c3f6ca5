"""What a map shows, before it is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.map.places import Cluster
from jupyt5_corpus.map.sample import SampledNotebook
from jupyt5_corpus.map.settings import MapSettings

__all__ = ["Chart", "NamedCluster", "name_cluster"]

_NUM_EXAMPLES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCluster:
    """A cluster and what a reader needs to make sense of it.

    Attributes:
        members: Indices of its notebooks, the nearest to its centre first.
        terms: Words that tell it from the rest, the best first.
        markdown_fraction: Mean over its notebooks.
        examples: Indices of the notebooks nearest to its centre, of different repositories as far
            as there are enough.
    """

    members: Sequence[int]
    terms: Sequence[str]
    markdown_fraction: float
    examples: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Notebooks, their places and clusters.

    Attributes:
        notebooks: The notebooks.
        places_N2: Their places, (notebooks, 2).
        clusters: The largest first.
        num_without_words: Notebooks that were drawn but have no words to go by.
        settings: How it was made.
    """

    notebooks: Sequence[SampledNotebook]
    places_N2: NDArray[np.float64]
    clusters: Sequence[NamedCluster]
    num_without_words: int
    settings: MapSettings

    def summarise(self) -> dict[str, object]:
        """Return numbers, terms and examples for a machine to read."""
        return {
            "num_notebooks": len(self.notebooks),
            "num_without_words": self.num_without_words,
            "settings": asdict(self.settings),
            "clusters": [self._describe(cluster) for cluster in self.clusters],
        }

    def _describe(self, cluster: NamedCluster) -> Mapping[str, object]:
        examples = [self.notebooks[idx] for idx in cluster.examples]
        return {
            "num_notebooks": len(cluster.members),
            "markdown_fraction": cluster.markdown_fraction,
            "terms": list(cluster.terms),
            "examples": [f"{notebook.repo}/{notebook.path}" for notebook in examples],
        }


def name_cluster(cluster: Cluster, notebooks: Sequence[SampledNotebook]) -> NamedCluster:
    """Add to a cluster its part of Markdown and examples."""
    fractions = [notebooks[idx].markdown_fraction for idx in cluster.members]
    firsts: dict[str, int] = {}
    for idx in cluster.members:
        firsts.setdefault(notebooks[idx].repo, idx)
    examples = list(firsts.values())[:_NUM_EXAMPLES]
    others = [idx for idx in cluster.members if idx not in examples]
    return NamedCluster(
        members=cluster.members,
        terms=cluster.terms,
        markdown_fraction=round(sum(fractions) / len(fractions), 3),
        examples=examples + others[: _NUM_EXAMPLES - len(examples)],
    )
