"""Wrong answers on purpose."""

import ast

import pytest

from jupyt5_dsp.mutants import binds_names, make_mutants, make_none_mutant, reads_names


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


@pytest.mark.parametrize(
    ("source", "idea", "mutant"),
    [
        ("x = a + b", "operator changed", "x = a - b"),
        ("x += b", "operator changed", "x -= b"),
        ("x = a < b", "comparison changed", "x = a <= b"),
        ("x = a and b", "connective changed", "x = a or b"),
        ("if a:\n    b()", "condition negated", "if not a:\n    b()"),
        ("x = -a", "sign dropped", "x = +a"),
        ("x = 3", "constant changed", "x = 4"),
        ("x = True", "constant changed", "x = False"),
        ("x = 'abc'", "constant changed", "x = 'ab'"),
        ("def f():\n    return 1", "None returned", "def f():\n    return None"),
        ("x = a", "None assigned", "x = None"),
        ("f(a, b)", "arguments swapped", "f(b, a)"),
        ("f(a, key=b)", "keyword dropped", "f(a)"),
        ("x = a\ny = b", "statement removed", "x = a\npass"),
        ("for a in b:\n    c()", "statement removed", "for a in b:\n    pass"),
    ],
)
def test_one_mistake(source: str, idea: str, mutant: str) -> None:
    found = {(one.idea, one.source) for one in make_mutants(source, number=100, seed=0)}
    assert (idea, mutant) in found


_SOURCE = (
    "def mean(values, skip=0):\n    total = sum(values[skip:])\n    return total / len(values)"
)


def test_mutants_differ_and_are_drawn_by_the_seed() -> None:
    everything = make_mutants(_SOURCE, number=1000, seed=1)
    sources = [mutant.source for mutant in everything]
    assert len(sources) == len({_SOURCE, *sources}) - 1 > 5
    for source in sources:
        ast.parse(source)
    drawn = make_mutants(_SOURCE, number=3, seed=1)
    assert drawn == everything[:3] == make_mutants(_SOURCE, number=3, seed=1)
    assert make_mutants(_SOURCE, number=3, seed=2) != drawn


@pytest.mark.parametrize("source", ["", "# nothing", "def broken("])
def test_no_place_for_a_mistake(source: str) -> None:
    assert make_mutants(source, number=5, seed=0) == []
