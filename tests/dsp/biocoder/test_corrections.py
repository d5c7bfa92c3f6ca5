"""From a completion to a solution."""

import pytest

from jupyt5_dsp.biocoder.corrections import assemble, correct
from jupyt5_dsp.biocoder.records import BioProblem

PROBLEM = BioProblem(
    task_id="t", language="python", function="f", signature="@cached\ndef f(a)", golden=""
)
JAVA = BioProblem(task_id="j", language="java", function="f", signature="int f(int a)", golden="")
WHOLE = "@cached\ndef f(a):\n    return 1"


def test_a_body_gets_its_header() -> None:
    assert assemble(PROBLEM, "    return 1") == WHOLE
    # As a model goes on from the end of the header's line.
    assert assemble(PROBLEM, "\n    return 1") == WHOLE.replace(":\n", ":\n\n")
    assert assemble(JAVA, "return 1; }") == "int f(int a) {\nreturn 1; }"


@pytest.mark.parametrize(
    "whole", [WHOLE, "x = 1\nasync def f(a): pass", "def f(b):\n    pass", "def f (a): pass"]
)
def test_a_whole_function_is_taken_as_it_is(whole: str) -> None:
    assert assemble(PROBLEM, whole) == whole


def test_a_function_with_a_longer_name_is_another_one() -> None:
    assert assemble(PROBLEM, "    def ff(): pass") == "@cached\ndef f(a):\n    def ff(): pass"


@pytest.mark.parametrize(
    ("completion", "solution", "repairs"),
    [
        ("    return 1", WHOLE, ()),
        (WHOLE, WHOLE, ()),
        ("return 1", WHOLE, ("body indented",)),
        (f"Sure!\n```python\n{WHOLE}\n```\nDone.", WHOLE, ("fence removed",)),
        (f"Task: write f.\n{WHOLE}", WHOLE, ("text before the function removed",)),
        (f"{WHOLE}\n\nThat was it.", WHOLE + "\n", ("end cut",)),
        ("    return 1  # é", f"{WHOLE}  #  ", ("characters outside ASCII replaced",)),
        ("    return (", "@cached\ndef f(a):\n    return (", ()),
    ],
)
def test_repairs(completion: str, solution: str, repairs: tuple[str, ...]) -> None:
    corrected = correct(PROBLEM, completion)
    assert corrected.solution == solution
    assert corrected.repairs == repairs
