"""What must hold for any text a model may say, whole or in pieces."""

import ast
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyt5.hypotheses import clean_hypothesis
from jupyt5.hypotheses.lexer import mask, scan

PIECES = [
    "```", "~~~", "```python", "`", '"""', "'''", '"', "'", "\\", "\n", "\r\n", "#", "(", ")", "[",
    "]", "{", "}", ":", " ", "    ", "\t", "def f(x):", "class A:", "if x:", "else:", "return x",
    "x = 1", "x += 1", "assert x", "import a", "for i in y:", "%time", "!ls", "df?", "%%bash",
    "Sure: here it is.", "# note", "@d", "pass", "é", "😀", "\ud800", "\x00", "\x0c", "\u2028",
]  # fmt: skip
rough = st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=60)

WELL_FORMED = [
    "n = 3",
    "import os\n\n\ndef f(x):\n    if x:\n        return 1\n    return 2\n\n\nprint(f(0))",
    "x = 1\nx = 1\nx += 1\nx += 1\nprint(x)\nprint(x)",
    'text = """\n```python\nx\n```\n"""\nprint(text)',
    "class A:\n\tdef f(self):\n\t\treturn {'a': [1,\n  2]}",
    "x = (1 +\n2)\ny = x \\\n    + 1",
    "async def main():\n    await g()\n\nawait main()",
    "%matplotlib inline\nfiles = !ls\nfor f in files:\n    print(f)",
    "match x:\n    case 1:\n        pass",
    "lambda x: x",
    "try:\n    f()\nexcept ValueError as exc:  # why: not\n    raise\nfinally:\n    g()",
]
well_formed = st.sampled_from(WELL_FORMED)


@given(raw=rough, prefix=rough, suffix=rough, after=rough)
@settings(max_examples=400, deadline=None)
def test_total_and_trimmed(raw: str, prefix: str, suffix: str, after: str) -> None:
    for kind in ("code", "markdown", "raw"):
        cleaned = clean_hypothesis(raw, prefix=prefix, suffix=suffix, following=[after], kind=kind)
        assert len(cleaned) <= 3 * len(raw) + (len(raw) + 1) * (len(prefix) + len(suffix) + 4)
        if not suffix.strip():
            assert cleaned == cleaned.rstrip()


@given(raw=rough)
@settings(max_examples=400, deadline=None)
def test_no_fence_stays(raw: str) -> None:
    cleaned = clean_hypothesis(raw)
    outside_strings = mask(cleaned)
    if not any(quote in outside_strings for quote in ("'''", '"""')):
        lines = outside_strings.split("\n")
        assert not any(line.strip().startswith("```") for line in lines)


@given(raw=rough)
@settings(max_examples=300, deadline=None)
def test_lexer_loses_nothing(raw: str) -> None:
    assert "\n".join(line.text for line in scan(raw).lines) == raw
    assert len(mask(raw)) == len(raw)
    assert mask(raw).count("\n") == raw.count("\n")


@given(raw=well_formed, cut=st.integers(min_value=0, max_value=200))
def test_exact_continuation_passes_unchanged(raw: str, cut: int) -> None:
    """A cell cut at any line end, before or after the newline, is put together again."""
    ends = [0, *(idx for idx, char in enumerate(raw) if char == "\n")]
    end = ends[cut % len(ends)]
    for start in {end, min(end + 1, len(raw)) if end else 0}:
        prefix, rest = raw[:start], raw[start:]
        assert clean_hypothesis(rest, prefix=prefix) == rest


@given(code=well_formed, lead=st.sampled_from(["", "Sure:\n", "Here's the code.\n\n"]))
def test_fenced_code_comes_out_whole(code: str, lead: str) -> None:
    for mark in ("```", "~~~~"):
        for info in ("python", "py", "", "{python}"):
            raw = f"{lead}{mark}{info}\n{code}\n{mark}\nIt works."
            assert clean_hypothesis(raw) == code


@given(code=well_formed)
def test_cleaning_twice_is_cleaning_once(code: str) -> None:
    for raw in (code, f"```python\n{code}\n```"):
        once = clean_hypothesis(raw)
        assert clean_hypothesis(once) == once


@given(code=st.sampled_from([code for code in WELL_FORMED if "!" not in code and "%" not in code]))
def test_growing_text_never_fails_and_ends_whole(code: str) -> None:
    raw = f"Sure:\n```python\n{code}\n```\nDone."
    shown = [clean_hypothesis(raw[:end]) for end in range(len(raw) + 1)]
    assert shown[-1] == code
    opened = len("Sure:\n```python\n")
    for text in shown[opened:]:
        assert code.startswith(text.removesuffix("```"))


@given(
    body=st.lists(
        st.sampled_from(["x = 1", "if x:\n    y = 2", "for i in x:\n    if i:\n        z = 3"]),
        min_size=1,
        max_size=4,
    ),
    header=st.sampled_from(["def f():", "for a in b:", "if c:\n    while d:", "class A:"]),
    unit=st.sampled_from(["    ", "\t", "  "]),
    has_newline=st.booleans(),
)
def test_a_block_fits_below_any_header(
    body: list[str], header: str, unit: str, has_newline: bool
) -> None:
    depth = header.count("\n") + 1
    prefix = header.replace("    ", unit) + ("\n" + unit * depth if has_newline else "")
    cleaned = clean_hypothesis("\n".join(body), prefix=prefix)
    tree = ast.parse(prefix + cleaned)
    assert len(ast.unparse(tree).split("\n")) == depth + "\n".join(body).count("\n") + 1


def test_fast_enough_for_every_step_of_a_stream() -> None:
    """10 kB cost less than three readings by Python's own parser."""
    source = Path(random.__file__).read_text(encoding="utf-8")[:10_000]
    prefix = "# All of it"

    def best_s(call: object) -> float:
        assert callable(call)
        times: list[float] = []
        for _ in range(20):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    source = source[: source.rindex("\n    def ")]
    clean_s = best_s(lambda: clean_hypothesis(source, prefix=prefix))
    assert clean_s < 3 * best_s(lambda: ast.parse(source))


@pytest.mark.parametrize("text", ["'", '"""', "\\'", "(", "a?", "x = ", "```\n", "\n", "`\n", "a "])
def test_hostile_repetition_is_not_slow(text: str) -> None:
    raw = text * (10_000 // len(text))
    start = time.perf_counter()
    clean_hypothesis(raw, prefix=raw[:3000], suffix=raw[:3000], following=[raw])
    assert time.perf_counter() - start < 1.0
