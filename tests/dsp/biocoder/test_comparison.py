"""When two outputs say the same."""

import pytest

from jupyt5_dsp.biocoder.comparison import compare, describe_difference, put_zeros


@pytest.mark.parametrize(
    ("rule", "expected", "found", "same"),
    [
        ("exact", "\n a b \n", "a b", True),
        ("exact", "a b", "a  b", False),
        ("exact", "1.0", "1.00", False),
        ("numbers", "0.786", "0.7859951603145796", True),
        ("numbers", "0.786", "0.788", False),
        ("numbers", "x 1.5\ny 2.5", "x 1.5 y 2.5", True),
        ("numbers", "1.5 2.5", "2.5 1.5", False),
        ("numbers", "1.5", "1.5 2.5", False),
        ("numbers", "100", "100.0005", True),
        ("numbers", "100", "101", False),
        ("numbers", "3.26e-21", "0.0", False),
        ("numbers", "3.26e-21", "0", False),
        ("numbers", "3.26e-21", "3.2601e-21", True),
        ("numbers", "3.26e-21", "3.27e-21", False),
        ("numbers", "-0.0005", "0.0005", False),
        ("numbers", "-0.0005", "-0.0005001", True),
        ("numbers", "0.001", "0.0015", True),
        ("numbers", "0.0", "0.0009", True),
        ("numbers", "nan", "nan", True),
        ("numbers", "1.0", "nan", False),
        ("numbers", "a.b", "a.c", False),
        ("lines", "a b\nc", "c\na b", True),
        ("lines", "a\na\nb", "a\nb\nb", False),
        ("lines", "a b", "b a", False),
        ("words", "a b\nc", "c b a", True),
        ("words", "a a b", "a b b", False),
    ],
)
def test_rules(rule: str, expected: str, found: str, same: bool) -> None:
    assert compare(expected, found, rule) is same


def test_whole_numbers_must_be_equal() -> None:
    assert not compare("9007199254740993", "9007199254740992", "numbers")


def test_the_first_line_that_differs_is_told() -> None:
    differs = describe_difference("a\nb\nc", "a\nx\nc\n")
    assert differs is not None
    assert (differs.line_number, differs.expected, differs.found) == (2, "b", "x")
    longer = describe_difference("a", "a\nb")
    assert longer is not None
    assert (longer.line_number, longer.expected, longer.found) == (2, "", "b")
    assert describe_difference("a\n", "a") is None


def test_zeros_take_the_places_of_decimal_numbers_only() -> None:
    assert put_zeros("A 1.5e-3\n7 -0.25 a.b nan") == "A 0.0 7 0.0 a.b nan"
