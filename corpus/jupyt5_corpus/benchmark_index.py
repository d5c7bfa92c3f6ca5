"""The index of benchmark problems that notebooks are searched for: hashes and names, no text.

Each problem has parts (its question, its solution, its tests …, and the whole); a part is a set of
n-grams of ``NGRAM_SIZE`` words. Beside them stand the MinHash signatures of whole benchmark
notebooks. The bundled index is made by ``jupyt5-corpus make-overlap-index``, see
``benchmark_making``.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Self, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5.errors import CorpusError

__all__ = ["BUNDLED_NAME", "NGRAM_SIZE", "BenchmarkIndex", "bundled_data", "load_bundled"]

BUNDLED_NAME = "benchmarks.npz"
NGRAM_SIZE = 8
"""Words in an n-gram: the shorter, the more edits it survives and the more often it is chance."""

_FILTER_BITS = 22


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BenchmarkIndex:
    """What to look for.

    Attributes:
        ngrams: Sorted distinct n-gram hashes, (G,).
        bounds: Where each n-gram's parts begin in ``parts``, (G + 1,).
        parts: For each n-gram the parts that have it.
        part_problems: Problem of each part, (P,).
        part_sizes: Number of n-grams of each part, (P,).
        problems: Names such as ``HumanEval/32``; what precedes the first slash is the benchmark.
        signatures: Signatures of benchmark notebooks, (S, 112).
        notebooks: Names of these notebooks, such as ``DSP: owner/repo/path.ipynb``.
        about: How the index was made.
        benchmarks: Names of the benchmarks.
        problem_benchmarks: Benchmark of each problem.
    """

    ngrams: NDArray[np.uint64]
    bounds: NDArray[np.uint32]
    parts: NDArray[np.uint16]
    part_problems: NDArray[np.uint16]
    part_sizes: NDArray[np.uint16]
    problems: Sequence[str]
    signatures: NDArray[np.uint32]
    notebooks: Sequence[str]
    about: Mapping[str, object]
    benchmarks: Sequence[str] = field(init=False)
    problem_benchmarks: NDArray[np.intp] = field(init=False)
    _filter: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Derive the benchmarks, and a table that spares most n-grams the search."""
        names = [name.partition("/")[0] for name in self.problems]
        benchmarks = sorted(set(names))
        object.__setattr__(self, "benchmarks", benchmarks)
        idxs = np.array([benchmarks.index(name) for name in names], np.intp)
        object.__setattr__(self, "problem_benchmarks", idxs)
        table = np.zeros(1 << _FILTER_BITS, np.bool_)
        table[_leading_bits(self.ngrams)] = True
        object.__setattr__(self, "_filter", table)

    def find(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Find hashes: which of them are in the index (their places), and where in it."""
        places = np.flatnonzero(self._filter[_leading_bits(hashes)])
        found = np.searchsorted(self.ngrams, hashes[places])
        found = np.minimum(found, max(self.ngrams.size - 1, 0))
        is_hit = self.ngrams[found] == hashes[places]
        return places[is_hit], found[is_hit]

    def dump(self) -> bytes:
        """Return the file: the same index gives the same bytes."""
        sink = io.BytesIO()
        np.savez_compressed(
            sink,
            ngrams=self.ngrams,
            bounds=self.bounds,
            parts=self.parts,
            part_problems=self.part_problems,
            part_sizes=self.part_sizes,
            signatures=self.signatures,
            names=_json_array(
                {
                    "problems": list(self.problems),
                    "notebooks": list(self.notebooks),
                    "about": dict(self.about),
                }
            ),
        )
        return sink.getvalue()

    @classmethod
    def load(cls, data: bytes, *, name: str = BUNDLED_NAME) -> Self:
        """Read what ``dump`` wrote.

        Raises:
            CorpusError: If it is damaged or was made for other n-grams.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                names = cast("dict[str, object]", orjson.loads(arrays["names"].tobytes()))
                index = cls(
                    ngrams=arrays["ngrams"],
                    bounds=arrays["bounds"],
                    parts=arrays["parts"],
                    part_problems=arrays["part_problems"],
                    part_sizes=arrays["part_sizes"],
                    signatures=arrays["signatures"],
                    problems=cast("list[str]", names["problems"]),
                    notebooks=cast("list[str]", names["notebooks"]),
                    about=cast("dict[str, object]", names["about"]),
                )
        except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as exc:
            message = (
                f"Benchmark index {name} cannot be read ({exc}). Make it anew with "
                "jupyt5-corpus make-overlap-index."
            )
            raise CorpusError(message) from exc
        if index.about.get("ngram_size") != NGRAM_SIZE:
            message = (
                f"Benchmark index {name} holds n-grams of {index.about.get('ngram_size')} words, "
                f"not {NGRAM_SIZE}. Make it anew with jupyt5-corpus make-overlap-index."
            )
            raise CorpusError(message)
        return index


def bundled_data() -> bytes:
    """Return the bytes of the index that ships with the package."""
    return (files("jupyt5_corpus") / "holdouts" / BUNDLED_NAME).read_bytes()


@cache
def load_bundled() -> BenchmarkIndex:
    """Read the index that ships with the package, once a process."""
    return BenchmarkIndex.load(bundled_data())


def _leading_bits(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    return (hashes >> np.uint64(64 - _FILTER_BITS)).astype(np.intp)


def _json_array(value: object) -> NDArray[np.uint8]:
    return np.frombuffer(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), np.uint8)
