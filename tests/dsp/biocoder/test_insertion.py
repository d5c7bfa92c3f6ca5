"""Where a solution goes, and how far it is indented."""

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.insertion import MARKER, find_slot, indent_member

SOLUTION = 'def f(self):\n    """One\n  two.\n    """\n\n    return 1'


def test_a_solution_at_the_margin_is_taken_as_it_is() -> None:
    slot = find_slot(f"import os\n{MARKER}\nprint(f(0))\n", "t")
    assert not slot.is_member
    assert slot.insert(SOLUTION) == f"import os\n{SOLUTION}\nprint(f(0))\n"


def test_the_first_offset_is_the_margin_too() -> None:
    assert not find_slot(f"{MARKER}\n", "t").is_member


def test_a_member_is_indented_but_not_inside_its_strings() -> None:
    slot = find_slot(f"class A:\n    {MARKER}\nprint(A().f())\n", "t")
    assert slot.is_member
    text = slot.insert(SOLUTION)
    names: dict[str, object] = {"print": lambda *_: None}
    exec(text, names)  # noqa: S102  our own program
    assert '"""One\n  two.\n    """' in text
    assert "\n        return 1" in text
    assert names["A"].f.__doc__ == "One\n  two.\n    "  # pyright: ignore[reportAttributeAccessIssue]


def test_what_cannot_be_read_is_indented_line_by_line() -> None:
    assert indent_member('x = "\ny') == 'x = "\n    y'


@pytest.mark.parametrize("context", ["", MARKER * 2])
def test_there_is_exactly_one_marker(context: str) -> None:
    with pytest.raises(ProblemSetError, match="problem 7 has"):
        find_slot(context, "problem 7")


def test_a_marker_in_a_comment_is_noticed() -> None:
    assert find_slot(f"x = 1\n# {MARKER}\n", "t").is_comment
    assert not find_slot(f"class A:\n    {MARKER}\n", "t").is_comment


@pytest.mark.parametrize("before", ["", '"""About."""\nfrom __future__ import division\n'])
@pytest.mark.parametrize("place", [MARKER, f"class A:\n    {MARKER}"])
def test_what_comes_from_the_future_comes_first(before: str, place: str) -> None:
    future = "from __future__ import (\n    annotations,\n)\n"
    solution = f"{future}import os\n\ndef f(a: b = 0):\n    return os"
    program = find_slot(f"{before}{place}\n", "t").insert(solution)
    names: dict[str, object] = {}
    exec(program, names)  # noqa: S102  our own program
    assert program.count("annotations") == 1
    found = vars(names["A"])["f"] if "class" in place else names["f"]
    assert found(0) is names["os"]  # pyright: ignore[reportCallIssue]


def test_imports_go_behind_those_from_the_future_over_several_lines() -> None:
    before = "from __future__ import (\n    division,\n)\nclass A:\n    "
    program = find_slot(f"{before}{MARKER}\n", "t").insert("import os\ndef f(self): return os")
    assert program.startswith("from __future__ import (\n    division,\n)\nimport os\nclass A:")
    compile(program, "t", "exec")


@pytest.mark.parametrize("solution", ["from __future__ import annotations; x = 1", "y = 1\rx = 2"])
def test_what_shares_a_line_stays(solution: str) -> None:
    assert find_slot(f"{MARKER}\n", "t").insert(solution) == f"{solution}\n"


def test_a_member_knows_its_class() -> None:
    slot = find_slot(f"class A:\n    pass\nclass B(A):\n    x = 1\n    {MARKER}\n", "t")
    assert slot.class_name == "B"
    nested = f"class A:\n    class Inner:\n        x = 1\n    {MARKER}\n"
    assert find_slot(nested, "t").class_name == "A"
    assert find_slot(f"class A: pass\n{MARKER}", "t").class_name == ""


@pytest.mark.parametrize(
    "imports",
    [
        "from json import *\n",
        "from json import (\n    loads,\n)  # all\n\n",
        "import os; from json import loads\n",
        "try:\n    from json import loads\nexcept ImportError:\n    loads = None\n",
        "import sys\nif sys.version_info > (3, 8):\n    from json import loads\n",
        "try:\n    import not_there_at_all\nexcept ImportError:\n    from json import loads\n",
    ],
)
def test_imports_of_a_member_move_to_the_top(imports: str) -> None:
    slot = find_slot(f"class A:\n    {MARKER}\nfound = A().f()\n", "t")
    program = slot.insert(f"{imports}def f(self):\n    return loads('[1]')")
    names: dict[str, object] = {}
    exec(program, names)  # noqa: S102  our own program
    assert names["found"] == [1]
    assert "import" not in program.partition("class A:")[2]


@pytest.mark.parametrize("first", ["x = 1; import os", "if unknown:\n    import os"])
def test_imports_that_do_more_stay_in_the_class(first: str) -> None:
    program = find_slot(f"class A:\n    {MARKER}\n", "t").insert(f"{first}\ndef f(self): pass")
    assert first.replace("\n", "\n    ") in program


def test_imports_of_a_function_stay_where_they_are() -> None:
    assert find_slot(f"x = 1\n{MARKER}\n", "t").insert("import os") == "x = 1\nimport os\n"
