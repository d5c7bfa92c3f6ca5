"""When do two outputs say the same? Decided by the evaluator, never inside a sample's process.

``exact`` is the published rule: equal after blanks at both ends are stripped. Rosalind's problems
have rules of their own where the site accepts more than one text.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["RULES", "Difference", "compare", "describe_difference"]

_TOLERANCE = 1e-3  # absolute; what rosalind.info accepts for decimal numbers
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where an output is not what was expected; lines are counted from 1."""

    line_number: int
    expected: str
    found: str


def compare(expected: str, found: str, rule: str = "exact") -> bool:
    """Return whether ``found`` is an answer where ``expected`` is one.

    Args:
        expected: Output of the reference.
        found: Output of the hypothesis.
        rule: ``exact``; ``numbers``: word for word, decimal numbers within 0.001; ``lines``: the
            same lines in any order; ``words``: the same words in any order.
    """
    return RULES[rule](expected, found)


def describe_difference(expected: str, found: str) -> Difference | None:
    """Return the first line that differs; None if none does."""
    own, other = expected.strip().splitlines(), found.strip().splitlines()
    for idx in range(max(len(own), len(other))):
        left = own[idx] if idx < len(own) else ""
        right = other[idx] if idx < len(other) else ""
        if left != right or (idx < len(own)) != (idx < len(other)):
            return Difference(idx + 1, left[:_SHOWN_CHARS], right[:_SHOWN_CHARS])
    return None


def _is_same_text(expected: str, found: str) -> bool:
    return expected.strip() == found.strip()


def _has_same_numbers(expected: str, found: str) -> bool:
    own, other = expected.split(), found.split()
    return len(own) == len(other) and all(map(_is_close, own, other))


def _is_close(left: str, right: str) -> bool:
    if left == right:
        return True
    try:
        numbers = float(left), float(right)
    except ValueError:
        return False
    # Whole numbers are counts and positions: near is wrong.
    if not {".", "e", "E"} & {*left, *right}:
        return False
    return all(map(math.isfinite, numbers)) and abs(numbers[0] - numbers[1]) <= _TOLERANCE


def _has_same_lines(expected: str, found: str) -> bool:
    own, other = expected.strip().splitlines(), found.strip().splitlines()
    return Counter(line.strip() for line in own) == Counter(line.strip() for line in other)


def _has_same_words(expected: str, found: str) -> bool:
    return Counter(expected.split()) == Counter(found.split())


RULES: dict[str, Callable[[str, str], bool]] = {
    "exact": _is_same_text,
    "numbers": _has_same_numbers,
    "lines": _has_same_lines,
    "words": _has_same_words,
}
