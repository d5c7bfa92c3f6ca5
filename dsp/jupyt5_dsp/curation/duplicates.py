"""The same problem twice: another student's copy, another year's course.

What makes a problem is its test, not the answer somebody gave. Two problems are near-duplicates
if the token 5-grams of their grading cells have a Jaccard similarity of 0.8 or more. Short tests
(``assert x == 5``) say too little: there the text above the solution must be as similar, too.
Two problems of one notebook are never near-duplicates: their author asked for both.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from datasketch import MinHash, MinHashLSH  # pyright: ignore[reportMissingTypeStubs]

from jupyt5_dsp.curation.candidates import Candidate

__all__ = ["find_near_duplicates"]

_THRESHOLD = 0.8
# The index proposes, the exact similarity decides: better to propose too many.
_INDEX_THRESHOLD = 0.6
_NUM_PERM = 128
_SHINGLE = 5
_SHORT_CHARS = 40
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMENT = re.compile(r"#.*")


@dataclass(frozen=True, slots=True)
class _Shape:
    test: frozenset[str]
    question: frozenset[str]
    is_short: bool


def find_near_duplicates(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return, for each near-duplicate, the earlier problem that stands for it, by ``key``.

    The first of its kind stays; a near-duplicate is never compared with another one.
    """
    index = MinHashLSH(threshold=_INDEX_THRESHOLD, num_perm=_NUM_PERM)
    kept: dict[str, _Shape] = {}
    found: dict[str, str] = {}
    order = {candidate.key: at for at, candidate in enumerate(candidates)}
    notebooks = {candidate.key: candidate.notebook for candidate in candidates}
    for candidate in candidates:
        shape = _shape_of(candidate)
        sketch = MinHash(num_perm=_NUM_PERM)
        for shingle in sorted(shape.test):
            sketch.update(shingle.encode())  # pyright: ignore[reportUnknownMemberType]
        keys = cast("list[str]", index.query(sketch))  # pyright: ignore[reportUnknownMemberType]
        near = sorted(keys, key=order.__getitem__)
        elsewhere = (key for key in near if notebooks[key] != candidate.notebook)
        twin = next((key for key in elsewhere if _are_near(shape, kept[key])), None)
        if twin is not None:
            found[candidate.key] = twin
        else:
            kept[candidate.key] = shape
            index.insert(candidate.key, sketch)
    return found


def _are_near(one: _Shape, other: _Shape) -> bool:
    if _jaccard(one.test, other.test) < _THRESHOLD:
        return False
    if one.is_short or other.is_short:
        return _jaccard(one.question, other.question) >= _THRESHOLD
    return True


def _shape_of(candidate: Candidate) -> _Shape:
    cells = candidate.notebook.cells
    test = "\n".join(cells[idx].source for idx in candidate.grading_idxs)
    code = _COMMENT.sub("", test)
    above: list[str] = []
    for cell in reversed(cells[: candidate.cell_idx]):
        if cell.kind != "markdown":
            break
        above.insert(0, cell.source)
    is_short = len("".join(code.split())) < _SHORT_CHARS
    return _Shape(_shingles(code), _shingles("\n".join(above)), is_short)


def _shingles(text: str) -> frozenset[str]:
    tokens = _TOKEN.findall(text)
    last = max(len(tokens) - _SHINGLE + 1, 1)
    return frozenset(" ".join(tokens[at : at + _SHINGLE]) for at in range(last))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)
