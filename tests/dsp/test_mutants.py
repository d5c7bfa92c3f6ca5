"""Wrong answers on purpose."""

import pytest

from jupyt5_dsp.mutants import binds_names, make_none_mutant, reads_names


@pytest.mark.parametrize(
    ("source", "mutant"),
    [
        ("def add(a, b):\n    return a + b", "def add(a, b):\n    return None"),
        ("import math\nx = math.pi", "import math\nx = None"),
        ("x, y = 1, 2\nprint(x)", "x = None\ny = None"),
        (
            "class A:\n    n = 3\n    def f(self):\n        return 1",
            "class A:\n    n = None\n\n    def f(self):\n        return None",
        ),
        ("%matplotlib inline\nx = 1", "x = None"),
        ("with open('a') as f:\n    d = f.read()", "f = None\nd = None"),
    ],
)
def test_everything_is_none(source: str, mutant: str) -> None:
    assert make_none_mutant(source) == mutant


@pytest.mark.parametrize("source", ["", "# nothing", "import math", "print(1)", "def broken("])
def test_nothing_to_empty(source: str) -> None:
    assert make_none_mutant(source) is None


def test_names() -> None:
    assert binds_names("import a.b\nfrom c import d as e\nf = 1\ndef g():\n    h = 2") == {
        "a",
        "e",
        "f",
        "g",
    }
    assert reads_names("assert g(f) == 1") == {"g", "f"}
    assert reads_names("broken(") == frozenset()
