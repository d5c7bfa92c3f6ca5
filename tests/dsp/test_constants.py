"""Passes that only repeat constants of the asserts, told from answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyt5_dsp.constants import repeats_constants

CONTEXT = ("import numpy as np\nfrom math import pi", "xs = [1, 2, 3]\ndef double(x): return 2 * x")


@pytest.mark.parametrize(
    ("source", "grading"),
    [
        ("total = 6", "assert total == 6"),
        ("mean = -2.5", "assert mean == -2.5"),
        ("name = 'Ada'", "assert name == 'Ada'"),
        ("def f(x):\n    'Return it.'\n    return 42", "assert f(6) == 42"),
        ("def f(x):\n    if x == 2:\n        return 4\n    return 9", "assert f(2) == 4"),
        ("def f(x, y):\n    if (x, y) == (1, 2):\n        return 3", "assert f(1, 2) == 3"),
        ("def f(x):\n    return {2: 4, 3: 9}[x]", "assert f(2) == 4"),
        ("def f(x):\n    match x:\n        case 2:\n            return 4", "assert f(2) == 4"),
        ("f = lambda x: 4", "assert f(2) == 4"),
        ("m = np.array([[1, 2], [3, 4]])", "np.testing.assert_equal(m, [[1, 2], [3, 4]])"),
        ("import math\na = math.floor(3.5)", "assert a == 3\nassert 3.5"),
        ("a = 5\nb = a", "assert b == 5"),
        ("xs = [4]\nfor x in xs:\n    y = x", "assert y == 4"),
        ("%matplotlib inline\ntotal = 6", "assert total == 6"),
    ],
)
def test_constants_are_repeated(source: str, grading: str) -> None:
    assert repeats_constants(source, [grading], CONTEXT)


@pytest.mark.parametrize(
    ("source", "grading"),
    [
        ("total = sum(xs)", "assert total == 6"),
        ("def f(x):\n    return 2 * x", "assert f(2) == 4"),
        ("def f(x):\n    if x > 2:\n        return 4\n    return x", "assert f(2) == 4"),
        ("f = lambda x: x + 4", "assert f(0) == 4"),
        ("y = double(3)", "assert double(3) == y"),
        ("xs = xs + [6]", "assert xs[-1] == 6"),
        ("total += 6", "assert total == 6"),
        ("squares = [6 for x in xs]", "assert squares[0] == 6"),
        ("total = 7", "assert total > 6"),  # another value: an answer of its own
        ("x = []", "assert x == []"),
        ("def f(x):\n    return 4 if x == xs else 5", "assert f(0) == 4"),
        ("def f(x, y):\n    return 4 if x == y else 5", "assert f(1, 1) == 4"),
        ("x = 6" + " + 1" * 20_000, "assert x == 6"),
        ("def (", "assert f() == 1"),
        ("", "assert total == 6"),
    ],
)
def test_answers_are_not(source: str, grading: str) -> None:
    assert not repeats_constants(source, [grading], CONTEXT)


def test_true_is_not_one_and_docstrings_are_no_values() -> None:
    assert not repeats_constants("x = True", ["assert x == 1"])
    assert not repeats_constants("def f():\n    '42'\n    return 1", ["assert f() != '42'"])


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_taken(source: str, grading: str) -> None:
    assert repeats_constants(source, [grading], [source]) in {True, False}
