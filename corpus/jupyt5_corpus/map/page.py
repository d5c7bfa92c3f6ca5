"""The page: one file with its own style, script and data, that asks nothing of a network."""

import base64
import hashlib
import importlib.resources
import zlib
from collections.abc import Mapping

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5_corpus.map.chart import Chart

__all__ = ["render_page"]

_FULL_SCALE = 65_535


def render_page(chart: Chart) -> bytes:
    """Make the page.

    Texts from notebooks are in it only as packed data; its script writes them as text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("jupyt5_corpus.map", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _read_asset("map.css"), _read_asset("map.js")
    page = environment.get_template("page.html").render(
        chart=chart,
        policy=Markup(_make_policy(style, script)),
        style=Markup(style),
        script=Markup(script),
        data=_pack(_make_data(chart)),
    )
    return page.encode()


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


def _read_asset(name: str) -> str:
    return (importlib.resources.files("jupyt5_corpus.map") / name).read_text(encoding="utf-8")


def _make_policy(style: str, script: str) -> str:
    """Allow this one style sheet and this one script; nothing is loaded, sent or evaluated."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
