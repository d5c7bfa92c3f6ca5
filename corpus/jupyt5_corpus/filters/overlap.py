"""Step ``overlap``: remove notebooks that hold problems of a benchmark, whole or edited.

A notebook goes when it is nearly equal to a benchmark notebook (estimated similarity >= 0.7), or
when it shares enough n-grams of 8 words with problems. Enough is what chance, quotations and
common idioms do not reach: n-grams of at least four names, which no three unrelated sources
have in common (``benchmark_making``), and of these

- 20 of one problem, or
- 6 that are two thirds of a problem or of a part of it (question, solution, tests), or
- 40 of problems of one benchmark together.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus.benchmark_index import NGRAM_SIZE, BenchmarkIndex
from jupyt5_corpus.filters import removal_of
from jupyt5_corpus.filters.holdout import quote, redacted
from jupyt5_corpus.fingerprint import Fingerprint
from jupyt5_corpus.minhash import THRESHOLD, estimate_similarity
from jupyt5_corpus.ngrams import Ngrams, Words, hash_ngrams, split_words
from jupyt5_corpus.row import Removal, Row

__all__ = [
    "MIN_OF_BENCHMARK",
    "MIN_OF_PART",
    "MIN_OF_PROBLEM",
    "MIN_PART_FRACTION",
    "STEP",
    "Overlap",
    "find_overlap",
    "hold_out_overlap",
]

STEP = "overlap"

# In 15,597 notebooks of 162 repositories the most that innocent ones shared was 13 n-grams of one
# problem (the words for the digits), 5 that were half of a part, and 13 of one benchmark.
MIN_OF_PROBLEM = 20
MIN_OF_PART = 6
MIN_PART_FRACTION = 2 / 3
MIN_OF_BENCHMARK = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What was found, and where: the problem with most n-grams, the longest stretch of words.

    Attributes:
        problem_idx: Index into the index's problems.
        num_ngrams: Distinct n-grams of that problem in the notebook.
        cell_idx: Cell of the stretch.
        start: Where it begins, in characters of the cell's source.
        end: Where it ends, exclusive.
    """

    problem_idx: int
    num_ngrams: int
    cell_idx: int
    start: int
    end: int


def hold_out_overlap(
    row: Row, fingerprint: Fingerprint, index: BenchmarkIndex, *, rules_dir: Path | None = None
) -> Row | Removal:
    """Remove the row if it is, or holds, what the index was made from.

    Args:
        row: The notebook.
        fingerprint: Of its cells as they are in ``row``.
        index: What to look for.
        rules_dir: See ``holdout.redacted``, for the text that is quoted.
    """
    near = _find_near_copy(fingerprint.signature, index)
    if near is not None:
        return removal_of(row, step=STEP, reason="holdout_near_copy", detail=near)
    overlap = find_overlap(fingerprint.words, index)
    if overlap is None:
        return row
    quoted = quote(_find_text(row, overlap, index, rules_dir))
    benchmark = index.benchmarks[index.problem_benchmarks[overlap.problem_idx]]
    detail = (
        f"{benchmark}: {overlap.num_ngrams} n-grams of {NGRAM_SIZE} words of "
        f"{index.problems[overlap.problem_idx]}; cell {overlap.cell_idx}: {quoted}"
    )
    return removal_of(row, step=STEP, reason="holdout_overlap", detail=detail)


def find_overlap(words: Words, index: BenchmarkIndex) -> Overlap | None:
    """Return what the notebook shares with benchmark problems, None if it is not enough."""
    ngrams = hash_ngrams(words, NGRAM_SIZE, short_cells=False)
    places, found = index.find(ngrams.hashes)
    if found.size < MIN_OF_PART:
        return None
    distinct = np.unique(found)
    # One entry for each distinct n-gram and part that has it.
    firsts, ends = index.bounds[np.stack([distinct, distinct + 1])].astype(np.intp)
    counts = ends - firsts
    owners = np.repeat(np.arange(distinct.size), counts)
    shifts = firsts - (np.cumsum(counts) - counts)
    parts = index.parts[np.arange(owners.size) + shifts[owners]].astype(np.intp)
    problem_idx = _choose_problem(owners, parts, index)
    if problem_idx is None:
        return None
    of_problem = distinct[np.unique(owners[index.part_problems[parts] == problem_idx])]
    cell_idx, start, end = _longest_stretch(places[np.isin(found, of_problem)], ngrams, words)
    return Overlap(
        problem_idx=problem_idx,
        num_ngrams=of_problem.size,
        cell_idx=cell_idx,
        start=start,
        end=end,
    )


def _find_text(row: Row, overlap: Overlap, index: BenchmarkIndex, rules_dir: Path | None) -> str:
    """Return the text to quote, without the secrets in it."""
    cells = redacted(row, rules_dir).cells
    source = cells[overlap.cell_idx].source
    if source == row.cells[overlap.cell_idx].source:
        return source[overlap.start : overlap.end]
    # Placeholders have moved the place: search what is left, or quote the cell from its beginning.
    again = find_overlap(split_words([cell.source for cell in cells]), index)
    if again is None or again.cell_idx != overlap.cell_idx:
        return source
    return source[again.start : again.end]


def _choose_problem(
    owners: NDArray[np.intp], parts: NDArray[np.intp], index: BenchmarkIndex
) -> int | None:
    """Return the problem with most n-grams among those that are certainly there."""
    num_problems = len(index.problems)
    pairs = np.unique(owners * num_problems + index.part_problems[parts])
    of_problem = np.bincount(pairs % num_problems, minlength=num_problems)
    of_part = np.bincount(parts, minlength=index.part_sizes.size)
    is_part = (of_part >= MIN_OF_PART) & (of_part >= MIN_PART_FRACTION * index.part_sizes)
    is_certain = of_problem >= MIN_OF_PROBLEM
    is_certain[index.part_problems[is_part]] = True
    if not is_certain.any():
        is_certain = _benchmark_is_certain(pairs, index)
    if not is_certain.any():
        return None
    return int(np.argmax(np.where(is_certain, of_problem, -1)))


def _benchmark_is_certain(pairs: NDArray[np.intp], index: BenchmarkIndex) -> NDArray[np.bool_]:
    """Tell of each problem whether the notebook has enough n-grams of its benchmark."""
    owners, problems = np.divmod(pairs, len(index.problems))
    num_benchmarks = len(index.benchmarks)
    distinct = np.unique(owners * num_benchmarks + index.problem_benchmarks[problems])
    of_benchmark = np.bincount(distinct % num_benchmarks, minlength=num_benchmarks)
    return (of_benchmark >= MIN_OF_BENCHMARK)[index.problem_benchmarks]


def _find_near_copy(signature: NDArray[np.uint32], index: BenchmarkIndex) -> str | None:
    if not len(index.notebooks):
        return None
    similarities = estimate_similarity(index.signatures, signature)
    best = int(np.argmax(similarities))
    if similarities[best] < THRESHOLD:
        return None
    benchmark, _, place = index.notebooks[best].partition(": ")
    return f"{benchmark}: estimated similarity {similarities[best]:.2f} with {place}"


def _longest_stretch(
    places: NDArray[np.intp], ngrams: Ngrams, words: Words
) -> tuple[int, int, int]:
    """Return cell, start and end of the longest run of words that overlapping n-grams cover."""
    firsts = ngrams.first_words[places]
    cells = words.cell_idxs[firsts]
    breaks = (np.diff(firsts) > NGRAM_SIZE) | (np.diff(cells) != 0)
    begins = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    ends = np.concatenate([begins[1:], [firsts.size]]) - 1
    longest = int(np.argmax(firsts[ends] - firsts[begins]))
    first, last = firsts[begins[longest]], firsts[ends[longest]] + NGRAM_SIZE - 1
    return int(words.cell_idxs[first]), int(words.starts[first]), int(words.ends[last])
