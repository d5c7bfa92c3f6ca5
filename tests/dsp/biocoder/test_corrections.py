"""From a completion to a solution."""

from dataclasses import replace
from textwrap import indent

import pytest

from jupyt5_dsp.biocoder.corrections import Corrected, assemble, correct
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
        (indent(WHOLE, "    "), WHOLE, ()),
        (f"    Sure!\n{indent(WHOLE, '    ')}", WHOLE, ("text before the function removed",)),
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


MEMBER = "@cached\ndef f(self):\n    return 1"
IN_CLASS = (
    f"import os\n\n\nclass A(B):\n    x = 2\n\n{indent(MEMBER, '    ')}\n\n    def g(self): ...\n"
)


@pytest.mark.parametrize("completion", [IN_CLASS, f"\n{IN_CLASS}", IN_CLASS.replace("A(B)", "C")])
def test_a_member_comes_out_of_its_class(completion: str) -> None:
    assert assemble(PROBLEM, completion, class_name="A") == f"import os\n{MEMBER}"
    # A function of that name in some class is not the function at the top of a module.
    assert assemble(PROBLEM, completion).startswith("@cached\ndef f(a):\n")


def test_a_member_in_its_class_needs_no_repair() -> None:
    assert correct(PROBLEM, IN_CLASS, class_name="A") == Corrected(f"import os\n{MEMBER}", ())


def test_a_body_may_have_a_class_of_its_own() -> None:
    body = "    class A:\n        def f(self): pass\n    return A"
    assert assemble(PROBLEM, body, class_name="A") == f"@cached\ndef f(a):\n{body}"


def test_a_member_brings_what_the_test_program_lacks() -> None:
    own = "def own(self):\n    return self.given()"
    uses = "def f(self):\n    return self.own()"
    members = "\n".join([f"{own}\n\n{uses}", "def given(self): ...", "def other(self): ..."])
    problem = replace(PROBLEM, context="class A:\n    def given(self): return 1\n    <<insert>>")
    text = f"class A:\n{indent(members, '    ')}"
    assert assemble(problem, text, class_name="A") == f"{own}\n{uses}"
    assert correct(problem, text, class_name="A").repairs == ()
