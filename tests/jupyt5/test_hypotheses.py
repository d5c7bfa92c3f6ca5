"""Casebook A1 to A3, each row a test: what a model says, and what goes into the cell."""

import ast

import pytest

from jupyt5.hypotheses import clean_hypothesis

A1_ROWS = {
    "python fence": ("```python\nn = 3\n```", "n = 3"),
    "prose after": ("```py\nn = 3\n```\nThat sets n.", "n = 3"),
    "tildes and prose before": ("Sure:\n~~~Python\nn = 3\n~~~", "n = 3"),
    "opening fence lost": ("n = 3\n```", "n = 3"),
    "two blocks": ("```python\na = 1\n```\nand\n```python\nb = a\n```", "a = 1"),
    "fences in a string": ("doc = '''\n```\nx\n```\n'''", "doc = '''\n```\nx\n```\n'''"),
    "single backticks": (
        "sql = 'select `id` from t'\nrun(sql)",
        "sql = 'select `id` from t'\nrun(sql)",
    ),
    "fence on the code's line": ("```n = 3```", "n = 3"),
    "fence on the sentence's line": ("Sure: ```python\nn = 3```", "n = 3"),
    "closing fence not yet there": ("```python\nn = 3", "n = 3"),
    "half a closing fence": ("```python\nn = 3\n``", "n = 3"),
    "half an info string": ("```pyth", ""),
    "no info, prose around": ("Here you go\n```\nn = 3\n```\nDone.", "n = 3"),
    "opening fence lost, prose after": ("n = 3\n```\nThat sets n.", "n = 3"),
    "shell block first": ("```bash\npip install a\n```\nthen\n```py\nn = 3\n```", "n = 3"),
    "only a shell block": ("```bash\n!ls\n```", "!ls"),
    "fences in a string in a block": (
        "```python\ndoc = '''\n```\nx\n```\n'''\n```",
        "doc = '''\n```\nx\n```\n'''",
    ),
    "open string in a block": ("```python\ndoc = '''\nx\n```", "doc = '''\nx"),
    "longer outer fence": ("````python\ns = 1\n```\n````", "s = 1"),
    "blank lines in the block": ("```python\n\nn = 3\n\n```", "n = 3"),
    "Windows newlines": ("```python\r\nn = 3\r\n```\r\n", "n = 3"),
    "fence in a comment": ("# not a ``` fence\nn = 3", "# not a ``` fence\nn = 3"),
    "apostrophe in the prose": ("Here's it:\n```python\nn = 3\n```", "n = 3"),
    "first block empty": ("```python\n```\n```python\nn = 3\n```", "n = 3"),
    "closing fence missing between": ("```python\nn = 3\n```python\nm = 4\n```", "n = 3"),
}


@pytest.mark.parametrize(("raw", "item"), A1_ROWS.values(), ids=A1_ROWS.keys())
def test_fences_and_prose_go(raw: str, item: str) -> None:
    assert clean_hypothesis(raw) == item


A2_ROWS = {
    "1 header": ("def area(r):", "return 3.14 * r * r", "\n    return 3.14 * r * r"),
    "2 no second indent": ("def area(r):\n    ", "    return 3.14 * r", "return 3.14 * r"),
    "3 comment": ("# count the rows", "n = len([])", "\nn = len([])"),
    "4 tab, relative": ("for a in []:\n\t", "if a:\n    print(a)", "if a:\n\t\tprint(a)"),
    "4 tab, absolute": (
        "for a in []:\n\t",
        "if a:\n        print(a)\n    else:\n        pass",
        "if a:\n\t\tprint(a)\n\telse:\n\t\tpass",
    ),
    "4 tab, whole block": (
        "for a in []:\n\t",
        "    x = a\n    if x:\n        print(x)",
        "x = a\n\tif x:\n\t\tprint(x)",
    ),
    "5 several lines": (
        "def f(n):",
        "for i in range(n):\n    if i:\n        print(i)\nreturn n",
        "\n    for i in range(n):\n        if i:\n            print(i)\n    return n",
    ),
    "newline there already": ("def f():", "\n    return 1", "\n    return 1"),
    "newline but no indent": ("def f():", "\nreturn 1", "\n    return 1"),
    "indent without newline": ("def f():", "    x = 1\n    return x", "\n    x = 1\n    return x"),
    "first line at the cursor": ("def f():\n    ", "x = 1\n    return x", "x = 1\n    return x"),
    "relative to the cursor": ("def f():\n    ", "x = 1\nreturn x", "x = 1\n    return x"),
    "body ends, module goes on": ("def f():", "return 1\n\nf()", "\n    return 1\n\nf()"),
    "cursor at column 0": ("def f():\n    x = 1\n", "    return x", "    return x"),
    "indented comment": ("def f():\n    # one", "return 1", "\n    return 1"),
    "header with comment": ("def f():  # one", "return 1", "\n    return 1"),
    "header over two lines": ("def f(a,\n      b):", "return a", "\n    return a"),
    "finished statement": ("x = [1]", "y = 2", "\ny = 2"),
    "finished call": ('print("a")', 'print.__call__("b")', '\nprint.__call__("b")'),
    "finished docstring": (
        'def f():\n    """One."""',
        "    x = 1\n    return x",
        "\n    x = 1\n    return x",
    ),
    "finished expression goes on": ("x = (1)", " if True else 2", " if True else 2"),
    "import after a name": ("x = max", "import os", "\nimport os"),
    "name goes on": ("x = ma", "x", "x"),
    "return at column 0": (
        'def f():\n    """One."""\n',
        "x = 1\nreturn x",
        "    x = 1\n    return x",
    ),
    "quote is open": ('x = "', 'y = 2"', 'y = 2"'),
    "body on the header's line": ("if True:", " x = 1", " x = 1"),
    "two-space cell": (
        "def g():\n  return 1\ndef f():",
        "if g():\n    return 2\nreturn 3",
        "\n  if g():\n    return 2\n  return 3",
    ),
    "string keeps its inside": (
        "def f():",
        'return """a\n  b\nc"""',
        '\n    return """a\n  b\nc"""',
    ),
    "stray indent": ("", "    n = 3\n    m = 4", "n = 3\nm = 4"),
    "inside brackets": ("f = max(\n    1,\n    ", "2,\n)", "2,\n)"),
    "inside a string": ('s = """a ', 'b: c\n"""', 'b: c\n"""'),
    "after a decorator": ("@staticmethod", "\ndef f():\n    pass", "\ndef f():\n    pass"),
}


@pytest.mark.parametrize(("prefix", "raw", "item"), A2_ROWS.values(), ids=A2_ROWS.keys())
def test_first_newline_and_indent_fit(prefix: str, raw: str, item: str) -> None:
    cleaned = clean_hypothesis(raw, prefix=prefix)
    assert cleaned == item
    ast.parse(prefix + cleaned)
    assert clean_hypothesis(cleaned, prefix=prefix) == cleaned


def test_comment_may_go_on_after_a_space() -> None:
    cleaned = clean_hypothesis(" rows\nn = 3", prefix="# count the")
    assert cleaned == " rows\nn = 3"


A3_ROWS = {
    "1 half a line": ("total = su", "", "total = sum([])", "m([])"),
    "2 closed by the editor": ('print("hi ', '")', 'there")', "there"),
    "3 header": ("def mean(xs):", "", "def mean(xs):\n    return 1", "\n    return 1"),
    "3 header, cursor below": (
        "def mean(xs):\n    ",
        "",
        "def mean(xs):\n    return 1",
        "return 1",
    ),
    "3 header above a docstring": (
        'def mean(xs):\n    """Mean."""\n    ',
        "",
        "def mean(xs):\n    return 1",
        "return 1",
    ),
    "3 header and docstring": (
        'def mean(xs):\n    """Mean."""\n    ',
        "",
        'def mean(xs):\n    """Mean."""\n    return 1',
        "return 1",
    ),
    "3 in a fence": (
        "def mean(xs):\n    ",
        "",
        "```python\ndef mean(xs):\n    return 1\n```",
        "return 1",
    ),
    "5 honest repeat": ("x = 1\n", "", "x = 1 + x", "x = 1 + x"),
    "5 honest second step": ("x = 1\nx += 1\n", "", "x += 1", "x += 1"),
    "5 honest nested call": ("f = max; f(", "", "f(1, 2), 3)", "f(1, 2), 3)"),
    "comment begun again": ("# count the ro", "", "# count the rows\nn = 3", "ws\nn = 3"),
    "fenced whole cell": ("x = max(1, 2)\n", "", "```\nx = max(1, 2)\ny = x\n```", "y = x"),
    "fenced whole cell, in a docstring": (
        'def f():\n    """One\n    ',
        "",
        'Sure:\n```python\ndef f():\n    """One\n    two."""\n```',
        'two."""',
    ),
    "comment": ("# count\n", "", "# count\nn = 3", "n = 3"),
    "comment, cursor on it": ("# count", "", "# count\nn = 3", "\nn = 3"),
    "whole cell": (
        "def f(x):\n    ",
        "\n\nprint(f(2))",
        "def f(x):\n    return x\n\nprint(f(2))",
        "return x",
    ),
    "suffix line": (
        "def f(x):\n    ",
        "\n    return y",
        "y = x\n    return y",
        "y = x",
    ),
    "needed brackets stay": ("max(max(max(", "))", "1, 2), 3", "1, 2), 3"),
    "too many brackets": ("max(max(1, ", "), 3)", "2), 3)", "2"),
    "honest line before the same": ("x = 1\n", "\nx += 1", "x += 1", "x += 1"),
}


@pytest.mark.parametrize(("prefix", "suffix", "raw", "item"), A3_ROWS.values(), ids=A3_ROWS.keys())
def test_echo_of_the_target_goes(prefix: str, suffix: str, raw: str, item: str) -> None:
    cleaned = clean_hypothesis(raw, prefix=prefix, suffix=suffix)
    assert cleaned == item
    ast.parse(prefix + cleaned + suffix)


MEAN = "def mean(xs):\n    return sum(xs) / len(xs)"
TEST = "assert mean([1, 3]) == 2"
FOLLOWING_ROWS = {
    "4 the test": (f"{MEAN}\n\n{TEST}", TEST, MEAN),
    "test with a comment": (f"{MEAN}\n# Test\n{TEST}\n", f"# Test\n{TEST}\nprint('ok')", MEAN),
    "test cut short": (f"{MEAN}\n\nassert mean([1, 3", TEST, MEAN),
    "second test of the cell": (f"{MEAN}\n{TEST}", f"import math\n{TEST}", MEAN),
    "testing function": (
        "x = 1\nnp.testing.assert_equal(x, 1)",
        "np.testing.assert_equal(x, 1)",
        "x = 1",
    ),
    "whole next cell": ("x = 1\ny = 2\nshow(y)", "y = 2\nshow(y)", "x = 1"),
    "honest last line": ("df = 1\ndf.head()", "df.head()\ndf.tail()", "df = 1\ndf.head()"),
    "another test": (f"{MEAN}\nassert mean([2]) == 2", TEST, f"{MEAN}\nassert mean([2]) == 2"),
    "test inside a block": (f"for x in y:\n    {TEST}", TEST, f"for x in y:\n    {TEST}"),
}


@pytest.mark.parametrize(("raw", "after", "item"), FOLLOWING_ROWS.values(), ids=FOLLOWING_ROWS)
def test_the_next_cells_test_is_not_given_away(raw: str, after: str, item: str) -> None:
    assert clean_hypothesis(raw, following=[after]) == item


@pytest.mark.parametrize(
    "raw",
    [
        "%matplotlib inline\nimport os\n!echo it's (open",
        "df?\nx = !ls 'a\ny = %time f('\nif x:\n    y = 1",
        "%%time\nfor i in range(3):\n    print(i)",
        "await f()\nx",
    ],
)
def test_ipython_lines_pass(raw: str) -> None:
    assert clean_hypothesis(raw) == raw


def test_magic_quotes_do_not_hide_the_header() -> None:
    cleaned = clean_hypothesis("return 1", prefix="!echo it's (\ndef f():")
    assert cleaned == "\n    return 1"


def test_statement_after_a_magic_line_starts_anew() -> None:
    assert clean_hypothesis("import os", prefix="%matplotlib inline") == "\nimport os"
    assert clean_hypothesis(" inline", prefix="%matplotlib") == " inline"


def test_cell_of_another_language_is_not_indented() -> None:
    assert clean_hypothesis("do echo hi; done", prefix="%%bash\nfor x in a b:\n") == (
        "do echo hi; done"
    )


MARKDOWN_ROWS = {
    "fence inside": ("# Title\n```python\nx\n```\nmore", "# Title\n```python\nx\n```\nmore"),
    "code block is the answer": ("```python\nx\n```", "```python\nx\n```"),
    "wrapped": ("```markdown\n# Title\ntext\n```", "# Title\ntext"),
    "wrapped without info": ("```\n# Title\n```\n", "# Title"),
    "wrapped, fence inside": (
        "```markdown\n# T\n```python\nx\n```\nmore\n```",
        "# T\n```python\nx\n```\nmore",
    ),
    "two blocks": ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
    "wrapping fence still open": ("```markdown\n# Ti", "# Ti"),
    "prose like code": ("def is a keyword:\n\n* return", "def is a keyword:\n\n* return"),
    "deep indent": ("    x = 1", "    x = 1"),
}


@pytest.mark.parametrize(("raw", "item"), MARKDOWN_ROWS.values(), ids=MARKDOWN_ROWS.keys())
def test_markdown_is_not_treated_as_code(raw: str, item: str) -> None:
    assert clean_hypothesis(raw, prefix="", kind="markdown") == item


def test_white_space_at_the_end_goes_unless_it_parts_from_the_suffix() -> None:
    assert clean_hypothesis("n = 3\n\n") == "n = 3"
    assert clean_hypothesis("n = 3\n", suffix="\nm = 4") == "n = 3"
    assert clean_hypothesis("n = 3\n", suffix="m = 4") == "n = 3\n"
    assert clean_hypothesis("n + ", suffix="m") == "n + "
