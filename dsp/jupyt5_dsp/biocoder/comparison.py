"""When do two outputs say the same? Decided by the evaluator, never inside a sample's process.

``exact`` is the published rule: equal after blanks at both ends are stripped. Rosalind's problems
have rules of their own where the site accepts more than one text.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["RULES", "Difference", "compare", "describe_difference", "put_zeros"]

# What rosalind.info accepts for decimal numbers: absolute; relative for numbers nearer to zero,
# which zero would be close to otherwise.
_TOLERANCE = 1e-3
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
        rule: ``exact``; ``numbers``: word for word, decimal numbers within 0.001, or within a
            thousandth of a number nearer to zero than that; ``lines``: the same lines in any
            order; ``words``: the same words in any order.
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


def put_zeros(text: str) -> str:
    """Return a text with 0.0 for each decimal number: an answer that is known without work."""
    return " ".join("0.0" if _is_decimal(word) else word for word in text.split())


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
    near = abs(numbers[0])
    tolerance = _TOLERANCE * near if 0 < near < _TOLERANCE else _TOLERANCE
    return all(map(math.isfinite, numbers)) and abs(numbers[0] - numbers[1]) <= tolerance


def _is_decimal(word: str) -> bool:
    try:
        return math.isfinite(float(word)) and bool({".", "e", "E"} & {*word})
    except ValueError:
        return False


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
