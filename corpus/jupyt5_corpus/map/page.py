"""The page: one file with its own style, script and data, that asks nothing of a network."""

import base64
import zlib
from collections.abc import Mapping

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5 import pages
from jupyt5_corpus.map.chart import Chart

__all__ = ["render_page"]

_FULL_SCALE = 65_535


def render_page(chart: Chart) -> bytes:
    """Make the page.

    Texts from notebooks are in it only as packed data; its script writes them as text.
    """
    values = {"chart": chart, "data": _pack(_make_data(chart))}
    return pages.render_page("jupyt5_corpus.map", values, style="map.css", script="map.js")


def _make_data(chart: Chart) -> dict[str, object]:
    """Return columns of all notebooks, drawn in a random order so that none is always on top."""
    order_N = np.random.default_rng(0).permutation(len(chart.notebooks))
    order: list[int] = order_N.tolist()
    ranks_N = np.argsort(order_N)
    cluster_N = np.zeros(len(order), np.int64)
    for cluster_idx, cluster in enumerate(chart.clusters):
        cluster_N[list(cluster.members)] = cluster_idx
    notebooks = [chart.notebooks[idx] for idx in order]
    repos = sorted({notebook.repo for notebook in notebooks})
    repo_idx = {repo: idx for idx, repo in enumerate(repos)}
    scaled_N2 = _scale(chart.places_N2)[order_N]
    return {
        "x": scaled_N2[:, 0].tolist(),
        "y": scaled_N2[:, 1].tolist(),
        "markdown": [round(notebook.markdown_fraction, 3) for notebook in notebooks],
        "cluster": cluster_N[order_N].tolist(),
        "title": [notebook.title for notebook in notebooks],
        "path": [notebook.path for notebook in notebooks],
        "repo": [repo_idx[notebook.repo] for notebook in notebooks],
        "repos": repos,
        "clusters": [
            {
                "terms": cluster.terms,
                "markdown": cluster.markdown_fraction,
                "examples": ranks_N[list(cluster.examples)].tolist(),
            }
            for cluster in chart.clusters
        ],
    }


def _scale(places_N2: NDArray[np.float64]) -> NDArray[np.int64]:
    """Fit places into a square of 65,535, keeping their proportions."""
    lowest_2, highest_2 = places_N2.min(axis=0), places_N2.max(axis=0)
    span = float((highest_2 - lowest_2).max()) or 1.0
    margins_2 = (span - (highest_2 - lowest_2)) / 2
    return np.rint((places_N2 - lowest_2 + margins_2) / span * _FULL_SCALE).astype(np.int64)


def _pack(data: Mapping[str, object]) -> str:
    return base64.b64encode(zlib.compress(orjson.dumps(data), 9)).decode()
