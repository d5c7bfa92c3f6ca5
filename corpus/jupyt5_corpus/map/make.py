"""From a corpus folder to the page: sample, words, vectors, places, clusters."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jupyt5.errors import CorpusError, UsageError
from jupyt5.files import write_atomic
from jupyt5_corpus.map.chart import Chart, name_cluster
from jupyt5_corpus.map.page import render_page
from jupyt5_corpus.map.places import find_clusters, place
from jupyt5_corpus.map.sample import SampledNotebook, draw_notebooks, iter_sampled
from jupyt5_corpus.map.settings import MIN_NOTEBOOKS, MapSettings
from jupyt5_corpus.map.vectors import notebook_vectors
from jupyt5_corpus.map.words import iter_documents, write_lines
from jupyt5_corpus.shards import require_manifest

__all__ = ["write_map"]


def write_map(folder: Path, out: Path, settings: MapSettings) -> Chart:
    """Draw the map of a corpus.

    Memory holds the drawn notebooks' names, vectors and word counts; cells go to a temporary file.

    Returns:
        What is on the map.

    Raises:
        CorpusError: If the folder holds no corpus, a damaged one, or too few notebooks.
        UsageError: If ``out`` cannot be a file.
        OSError: If ``out`` cannot be written.
    """
    manifest = require_manifest(folder)
    _check_place(out)
    drawn = draw_notebooks(folder, manifest, settings)
    notebooks: list[SampledNotebook] = []
    with tempfile.TemporaryDirectory(prefix="jupyt5-map-") as work:
        lines_path = Path(work) / "cells.txt"
        sampled = iter_sampled(folder, manifest, drawn, settings)
        write_lines(lines_path, _texts(sampled, notebooks))
        vectors_ND = notebook_vectors(lines_path, len(notebooks))
        known_N = np.linalg.norm(vectors_ND, axis=1) > 0
        _check_enough(folder, int(known_N.sum()))
        documents = _documents(lines_path, known_N)
        num_clusters, seed = settings.num_clusters, settings.seed
        clusters = find_clusters(
            vectors_ND[known_N], documents, num_clusters=num_clusters, seed=seed
        )
    placed = [notebook for notebook, known in zip(notebooks, known_N, strict=True) if known]
    chart = Chart(
        notebooks=placed,
        places_N2=place(vectors_ND[known_N], seed=seed),
        clusters=[name_cluster(cluster, placed) for cluster in clusters],
        num_without_words=len(notebooks) - len(placed),
        settings=settings,
    )
    write_atomic(out, render_page(chart))
    return chart


def _check_place(out: Path) -> None:
    if out.is_dir() or not out.resolve().parent.is_dir():
        message = f"{out} cannot be written: it is a folder or lies in none. Choose another --out."
        raise UsageError(message)


def _texts(
    sampled: Iterator[tuple[SampledNotebook, list[str]]], notebooks: list[SampledNotebook]
) -> Iterator[list[str]]:
    """Pass the texts on and keep the notebooks."""
    for notebook, texts in sampled:
        notebooks.append(notebook)
        yield texts


def _documents(lines_path: Path, known_N: NDArray[np.bool_]) -> Iterator[str]:
    for lines, known in zip(iter_documents(lines_path), known_N, strict=True):
        if known:
            yield " ".join(lines)


def _check_enough(folder: Path, num_known: int) -> None:
    if num_known < MIN_NOTEBOOKS:
        message = (
            f"{folder} has {num_known} notebooks with words to go by; a map needs at least "
            f"{MIN_NOTEBOOKS}. Map a larger corpus."
        )
        raise CorpusError(message)
