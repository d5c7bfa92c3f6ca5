"""Makes the index of benchmark problems: which of their n-grams identify them.

Left out is what proves nothing: n-grams with fewer than four names (tables of numbers), and those
in ``MAX_ORIGINS`` or more unrelated sources, a source being a family of repositories of a reference
corpus, a family of DSP repositories, or a problem. So placeholders, blocks of imports and set
phrases don't count, and no list of them has to be shipped.
"""
# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.benchmark_index import NGRAM_SIZE, BenchmarkIndex
from jupyt5_corpus.benchmark_sources import BenchmarkNotebook, Part
from jupyt5_corpus.fingerprint import fingerprint
from jupyt5_corpus.minhash import NUM_PERMUTATIONS
from jupyt5_corpus.ngrams import Words, hash_ngrams, split_words
from jupyt5_corpus.shards import iter_row_groups, require_manifest, shard_paths

__all__ = ["MAX_ORIGINS", "MIN_NAMES", "ReferenceNotebook", "iter_reference", "make_index"]

MAX_ORIGINS = 3
"""An n-gram in this many unrelated sources is common property."""

MIN_NAMES = 4
"""Words of an n-gram that don't begin with a digit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceNotebook:
    """The cells' sources of a notebook of the reference corpus, and its family."""

    family: str
    sources: Sequence[str]


def iter_reference(folder: Path) -> Iterator[ReferenceNotebook]:
    """Read a finished corpus.

    Raises:
        CorpusError: If the folder holds none, or a damaged one.
    """
    for path in shard_paths(folder, require_manifest(folder)):
        for table in iter_row_groups(path, ["family", "cells"]):
            for row in cast("list[dict[str, object]]", table.to_pylist()):
                cells = cast("list[dict[str, str]]", row["cells"])
                yield ReferenceNotebook(
                    family=cast("str", row["family"]), sources=[cell["source"] for cell in cells]
                )


def make_index(
    parts: Iterable[Part],
    notebooks: Iterable[BenchmarkNotebook],
    reference: Iterable[ReferenceNotebook],
) -> BenchmarkIndex:
    """Make an index.

    Args:
        parts: Of all problems; those of one problem have one origin.
        notebooks: Whole notebooks of the benchmarks.
        reference: Notebooks that tell which n-grams are common.
    """
    part_list = list(parts)
    candidates = [_identifying_ngrams(split_words([part.text])) for part in part_list]
    _add_wholes(part_list, candidates)
    ngrams = np.unique(np.concatenate([np.empty(0, np.uint64), *candidates]))
    num_origins, num_families = _count_origins(part_list, candidates, ngrams, reference)
    kept = ngrams[num_origins < MAX_ORIGINS]
    problems = list(dict.fromkeys(part.problem for part in part_list))
    numbers = {problem: number for number, problem in enumerate(problems)}
    part_ngrams = [np.intersect1d(each, kept, assume_unique=True) for each in candidates]
    bounds, owners = _owners(part_ngrams, kept)
    fingerprints = [(each.name, fingerprint(each.cells).signature) for each in notebooks]
    return BenchmarkIndex(
        ngrams=kept,
        bounds=bounds,
        parts=owners,
        part_problems=np.array([numbers[part.problem] for part in part_list], np.uint16),
        part_sizes=np.array([each.size for each in part_ngrams], np.uint16),
        problems=problems,
        signatures=_stack([each for _, each in fingerprints]),
        notebooks=[name for name, _ in fingerprints],
        about={
            "ngram_size": NGRAM_SIZE,
            "min_names": MIN_NAMES,
            "max_origins": MAX_ORIGINS,
            "num_reference_families": num_families,
            "num_common_ngrams_left_out": ngrams.size - kept.size,
        },
    )


def _stack(signatures: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    return np.array(signatures, np.uint32).reshape(-1, NUM_PERMUTATIONS)


def _add_wholes(parts: list[Part], candidates: list[NDArray[np.uint64]]) -> None:
    """Add to the parts each problem as a whole: its parts may be too short to prove anything."""
    by_problem: dict[str, list[NDArray[np.uint64]]] = {}
    for part, candidate in zip(parts, candidates, strict=True):
        by_problem.setdefault(part.problem, []).append(candidate)
    origins = {part.problem: part.origin for part in parts}
    for problem, of_problem in by_problem.items():
        parts.append(Part(problem=problem, origin=origins[problem], text=""))
        candidates.append(np.unique(np.concatenate(of_problem)))


def _identifying_ngrams(words: Words) -> NDArray[np.uint64]:
    ngrams = hash_ngrams(words, NGRAM_SIZE, short_cells=False)
    num_names = np.zeros(ngrams.first_words.size, np.int64)
    for place in range(NGRAM_SIZE):
        num_names += words.is_name[ngrams.first_words + place]
    return np.unique(ngrams.hashes[num_names >= MIN_NAMES])


def _count_origins(
    parts: Sequence[Part],
    candidates: Sequence[NDArray[np.uint64]],
    ngrams: NDArray[np.uint64],
    reference: Iterable[ReferenceNotebook],
) -> tuple[NDArray[np.int64], int]:
    """Count for each n-gram the unrelated sources that have it; also the reference's families."""
    by_origin: dict[str, list[NDArray[np.intp]]] = {}
    for part, candidate in zip(parts, candidates, strict=True):
        by_origin.setdefault(part.origin, []).append(np.searchsorted(ngrams, candidate))
    by_family: dict[str, list[NDArray[np.intp]]] = {}
    for notebook in reference:
        found = hash_ngrams(split_words(notebook.sources), NGRAM_SIZE, short_cells=False).hashes
        places = np.minimum(np.searchsorted(ngrams, found), max(ngrams.size - 1, 0))
        by_family.setdefault(notebook.family, []).append(places[ngrams[places] == found])
    num_origins = np.zeros(ngrams.size, np.int64)
    for places in (*by_origin.values(), *by_family.values()):
        num_origins[np.unique(np.concatenate(places))] += 1
    return num_origins, len(by_family)


def _owners(
    part_ngrams: Sequence[NDArray[np.uint64]], ngrams: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return for each n-gram the parts that have it, one n-gram after the other, and bounds."""
    places = np.concatenate(
        [np.empty(0, np.intp), *(np.searchsorted(ngrams, each) for each in part_ngrams)]
    )
    sizes = [each.size for each in part_ngrams]
    owners = np.repeat(np.arange(len(part_ngrams)), sizes)[np.argsort(places, kind="stable")]
    counts = np.bincount(places, minlength=ngrams.size)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return bounds.astype(np.uint32), owners.astype(np.uint16)
