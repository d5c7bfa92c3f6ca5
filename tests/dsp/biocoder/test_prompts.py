"""The five prompt forms."""

from dataclasses import replace

import pytest

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.prompts import FORMS, estimate_tokens, list_necessary, make_prompt
from jupyt5_dsp.biocoder.records import BioProblem

CONTEXT = '''import os
import numpy as np
LIMIT = 3
UNUSED = 4
def helper(x):
    return x + LIMIT
def long_helper(x, y):
    """Do much.

    More words.
    """
    a = 1
    a = 2
    a = 3
    a = 4
    a = 5
    return a
class Box:
    size = 2
    def other(self):
        return 0
    <<insert solution here>>
def main():
    np.random.seed(<|int;range=0,10000|>)
    print(Box().f(1))
if __name__ == "__main__":
    main()
'''
PROBLEM = BioProblem(
    task_id="t",
    language="python",
    function="f",
    signature="def f(self, x)",
    golden="def f(self, x):\n    return helper(x) + self.size",
    summary="Write f.\nIt adds é.",
    context=CONTEXT,
)
JAVA = BioProblem(
    task_id="j",
    language="java",
    function="f",
    signature="int f(int a)",
    golden="int f(int a) { return Used.of(a) + count; }",
    summary="Add.",
    surroundings=("class Used {}", "class Other {}", "private int count;\nprivate int rest;"),
)


def test_summary_only() -> None:
    assert make_prompt(PROBLEM, "summary-only").text == (
        "Write f.\nIt adds  .\n\ndef f(self, x):\n"
    )


def test_uncommented_has_code_then_summary_then_header() -> None:
    text = make_prompt(PROBLEM, "uncommented").text
    assert text.startswith("import os\nimport numpy as np\nLIMIT = 3\nUNUSED = 4\ndef helper(x):")
    assert text.endswith(
        "\n\n# Do not write comments.\n# Write f.\n# It adds  .\n\ndef f(self, x):\n"
    )
    assert "class Box:\n    size = 2\n    def other(self):" in text


def test_order_is_imports_globals_functions_classes() -> None:
    text = make_prompt(PROBLEM, "uncommented").text
    places = [text.index(word) for word in ("import os", "LIMIT", "def helper", "class Box")]
    assert places == sorted(places)


def test_long_functions_are_described_only() -> None:
    text = make_prompt(PROBLEM, "uncommented").text
    assert "a = 3" not in text
    assert "def long_helper(x, y):" in text
    for word in ("Do much.", "Parameters: x, y.", "Returns: a value."):
        assert word in text
    assert "More words" not in text


def test_summary_at_bottom_has_the_context_as_comment() -> None:
    text = make_prompt(PROBLEM, "summary-bottom").text
    assert text.startswith("# Do not write comments.\n# import os\n")
    assert text.endswith("\n\n# Write f.\n# It adds  .\n\ndef f(self, x):\n")
    code = [line for line in text.split("\n") if line and not line.startswith("#")]
    assert code == ["def f(self, x):"]


def test_summary_at_top_repeats_it_at_the_bottom_in_python_only() -> None:
    text = make_prompt(PROBLEM, "summary-top").text
    assert text.count("# Write f.") == 2
    assert text.index("# Write f.") < text.index("# import os")
    java = make_prompt(JAVA, "summary-top").text
    assert java.count("Add.") == 1
    assert java.index("Add.") < java.index("// class Used")
    assert java.endswith("int f(int a) {\n")


def test_necessary_only_has_what_the_reference_needs() -> None:
    text = make_prompt(PROBLEM, "necessary-only").text
    for word in ("LIMIT = 3", "def helper", "class Box", "size = 2"):
        assert word in text
    for word in ("UNUSED", "long_helper", "other", "numpy"):
        assert word not in text
    assert list_necessary(JAVA) == ("class Used {}", "private int count;")


@pytest.mark.parametrize("form", FORMS)
def test_no_prompt_shows_the_test_or_the_solution(form: str) -> None:
    text = make_prompt(PROBLEM, form).text
    for word in ("main", "seed", "<|", "<<insert", "helper(x) + self.size"):
        assert word not in text
    assert text.isascii()


@pytest.mark.parametrize("form", ["uncommented", "summary-bottom", "summary-top"])
def test_lines_of_context_are_cut_from_their_end(form: str) -> None:
    whole = make_prompt(PROBLEM, form)
    assert (whole.num_lines_cut, whole.exceeded) == (0, "")
    smaller = make_prompt(PROBLEM, form, budget_tokens=whole.num_tokens - 1)
    assert smaller.num_tokens <= whole.num_tokens - 1
    assert smaller.num_lines_cut >= 1
    assert "import os" in smaller.text
    assert smaller.text.endswith("# It adds  .\n\ndef f(self, x):\n")
    assert not smaller.exceeded


def test_a_prompt_that_never_fits_says_so() -> None:
    prompt = make_prompt(PROBLEM, "summary-top", budget_tokens=5, count_tokens=lambda text: 99)
    assert prompt.exceeded == "token limit exceeded 99 > 5"
    assert "import os" not in prompt.text


def test_tokens_are_estimated_from_bytes() -> None:
    assert [estimate_tokens(text) for text in ("", "a" * 7, "é" * 7)] == [0, 2, 4]


def test_forms_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="summary-top"):
        make_prompt(PROBLEM, "best")
    with pytest.raises(UsageError, match="Java"):
        make_prompt(JAVA, "summary-bottom")


def test_a_context_that_cannot_be_parsed_leaves_the_summary() -> None:
    broken = replace(PROBLEM, context="def (\n<<insert solution here>>")
    assert make_prompt(broken, "summary-top").text.endswith("def f(self, x):\n")


HELPED = """import secret_source
def aid(x):
    return BASE + x
class Node:
    def value(self):
        return DEEP
TABLE = (1, 2)
def f(x):
    return aid(x) + Node().value() + TABLE[0] + shown(x) + secret_source.x"""
HELPED_CONTEXT = """BASE = 3
DEEP = 4
SPARE = 5
def shown(x):
    return x
def aid(x):
    return "as in the answer"
<<insert solution here>>
print(f(1))
"""
HELPED_MEMBER = """TABLE = (1, 2)
def aid(self, x):
    return BASE + self.size
def f(self, x):
    return self.aid(x) + self.TABLE[0] + self.other()"""
HELPED_MEMBER_CONTEXT = """BASE = 3
SPARE = 5
class Box:
    size = 2
    def other(self):
        return self.size
    <<insert solution here>>
    def last(self):
        return 1
print(Box().f(1))
"""


@pytest.mark.parametrize("form", FORMS)
def test_helpers_in_the_reference_are_part_of_the_answer(form: str) -> None:
    plain = replace(PROBLEM, signature="def f(x)", golden=HELPED, context=HELPED_CONTEXT)
    member = replace(PROBLEM, golden=HELPED_MEMBER, context=HELPED_MEMBER_CONTEXT)
    given = replace(plain, surroundings=("BASE = 3", *HELPED.split("\nclass")[:1], "SPARE = 5"))
    texts = [make_prompt(one, form).text for one in (plain, member, given)]
    for text in texts:
        for word in ("aid", "Node", "TABLE", "as in the answer", "+ x", "secret"):
            assert word not in text, word
    if form == "summary-only":
        return
    # What the reference and its helpers need is shown, and more where all is.
    for text in texts[:2]:
        assert "BASE = 3" in text
        assert ("SPARE = 5" in text) is (form != "necessary-only")
    assert "DEEP = 4" in texts[0]
    assert "def shown(x):" in texts[0]
    assert "size = 2" in texts[1]
    assert "def other(self):" in texts[1]
    assert ("def last(self):" in texts[1]) is (form != "necessary-only")


def test_a_class_that_holds_nothing_but_the_answer_is_shown_empty() -> None:
    context = "class Box(dict):\n    <<insert solution here>>\nprint(Box().f(1))\n"
    text = make_prompt(replace(PROBLEM, context=context), "uncommented").text
    assert text.startswith("class Box(dict):\n    ...\n\n")
