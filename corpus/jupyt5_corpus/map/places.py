"""Places on the map (t-SNE), clusters (k-means) and the terms that tell a cluster from the rest."""
# scikit-learn and openTSNE come without types; what is guessed from their defaults is wrong.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jupyt5.console import progress
from jupyt5_corpus.map.vectors import Vectors

__all__ = ["Cluster", "find_clusters", "place"]

_PERPLEXITY = 30
_EXAGGERATION = 12
_STEPS_A_ROUND = 25
# openTSNE's own numbers of steps: 250 with early exaggeration, then 500.
_ROUNDS = [_EXAGGERATION] * 10 + [1] * 20
_MANY = 10_000
"""From here on interpolation (fft) is faster than a tree (bh), says openTSNE."""
_START_DIGITS = 9
"""The start has a standard deviation of 0.0001."""
_NUM_STARTS = 4
_NUM_TERMS = 12
_MAX_TERMS = 30_000
_MIN_NOTEBOOKS = 5
_NOTEBOOKS_A_COUNT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster of notebooks.

    Attributes:
        members: Indices of its notebooks, the nearest to its centre first.
        terms: Words that tell it from the rest, the best first; none for a single cluster.
    """

    members: tuple[int, ...]
    terms: tuple[str, ...]


def place(vectors_ND: Vectors, *, seed: int) -> NDArray[np.float64]:
    """Reduce vectors to places on a plane with t-SNE.

    Returns:
        (notebooks, 2), float64.
    """
    from openTSNE import TSNEEmbedding
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.initialization import pca

    perplexity = min(_PERPLEXITY, (len(vectors_ND) - 1) / 3)
    # Of vectors of length 1, Euclidean neighbours are cosine neighbours.
    affinities = PerplexityBasedNN(
        vectors_ND, perplexity=perplexity, n_jobs=1, random_state=seed, method="annoy"
    )
    # Rounded, for BLAS's last digits depend on the processor, and t-SNE makes much of little.
    start_N2 = pca(vectors_ND.astype(np.float64), random_state=seed).round(_START_DIGITS)
    method = "fft" if len(vectors_ND) >= _MANY else "bh"
    embedding = TSNEEmbedding(
        start_N2, affinities, negative_gradient_method=method, n_jobs=1, random_state=seed
    )
    rounds = progress(_ROUNDS, desc="t-SNE", total=len(_ROUNDS), unit="round")
    for exaggeration in rounds:
        embedding.optimize(_STEPS_A_ROUND, exaggeration=exaggeration, inplace=True)
    return np.array(embedding, np.float64)


def find_clusters(
    vectors_ND: Vectors, documents: Iterable[str], *, num_clusters: int, seed: int
) -> list[Cluster]:
    """Find clusters in the vectors, the largest first, and name each by its terms.

    Args:
        vectors_ND: One vector a notebook.
        documents: Words of each notebook, in the same order; read once.
        num_clusters: How many to find; there are fewer if there are fewer notebooks.
        seed: Of k-means.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    # k-means adds up in threads; one thread adds in one order.
    with threadpool_limits(1):
        means = KMeans(min(num_clusters, len(vectors_ND)), n_init=_NUM_STARTS, random_state=seed)
        distances_NK = means.fit_transform(vectors_ND)
    labels_N = means.labels_
    terms = _find_terms(documents, labels_N, means.n_clusters)
    clusters: list[Cluster] = []
    for idx in range(means.n_clusters):
        members = np.flatnonzero(labels_N == idx)
        if len(members):
            nearest = members[np.argsort(distances_NK[members, idx], kind="stable")]
            clusters.append(Cluster(members=tuple(nearest.tolist()), terms=terms[idx]))
    return sorted(clusters, key=lambda cluster: (-len(cluster.members), cluster.members))


def _find_terms(
    documents: Iterable[str], labels_N: NDArray[np.int32], num_clusters: int
) -> list[tuple[str, ...]]:
    """Return the words with the largest p log(p / q) of each cluster.

    p is the part of the cluster's notebooks that have the word, q that of all notebooks: a word
    scores when many notebooks of the cluster have it and few others.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    few = min(_MIN_NOTEBOOKS, 1 + len(labels_N) // _NOTEBOOKS_A_COUNT)
    counter = CountVectorizer(
        binary=True,
        tokenizer=str.split,
        token_pattern=None,
        lowercase=False,
        stop_words="english",
        min_df=few,
        max_features=_MAX_TERMS,
        dtype=np.int32,
    )
    counts_NT = counter.fit_transform(documents)
    words = counter.get_feature_names_out()
    all_T = np.asarray(counts_NT.sum(axis=0)).ravel() / len(labels_N)
    terms: list[tuple[str, ...]] = []
    for idx in range(num_clusters):
        members_N = labels_N == idx
        part_T = np.asarray(counts_NT[members_N].sum(axis=0)).ravel() / max(members_N.sum(), 1)
        scores_T = part_T * np.log(np.where(part_T > 0, part_T, 1) / all_T)
        best = np.argsort(-scores_T, kind="stable")[:_NUM_TERMS]
        terms.append(tuple(str(words[term]) for term in best if scores_T[term] > 0))
    return terms
