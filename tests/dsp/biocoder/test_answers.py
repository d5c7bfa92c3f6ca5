"""Answers as chat models give them, from the raw text to the program that is run."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from jupyt5.hypotheses import clean_hypothesis
from jupyt5_dsp.biocoder.corrections import assemble
from jupyt5_dsp.biocoder.insertion import find_slot
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.samples import cut_at_stop
from jupyt5_dsp.suites import find_suite, load_suite

from .fixtures import make_row, write_rows

FUNCTION = "def f(a, b):\n    return abs(a) + b\n"
FUNCTION_CONTEXT = "<<insert solution here>>\nfound = f(-1, 2)\n"
MEMBER = "def f(self, a, b):\n    return abs(a) + b\n"
MEMBER_CONTEXT = """from __future__ import annotations
class A:
    <<insert solution here>>
found = A().f(-1, 2)
"""
CASES = {"function": (FUNCTION, FUNCTION_CONTEXT), "member": (MEMBER, MEMBER_CONTEXT)}
BODY = '\n    """Add.\n\nText at the margin.\n    """\n    return int(math.fabs(a)) + b\n'

ANSWERS: Mapping[str, str] = {
    "import in a fence": "```python\nimport math\n\n{header}{body}```",
    "blank lines first": "\n\nimport math\n{header}{body}",
    "spaced otherwise, in a fence": "```python\nimport math\n{close}{body}```",
    "spaced otherwise": "import math\n{close}{body}",
    "annotated, after talk": "Here it is:\n```python\nimport math\n{annotated}{body}```\nIt adds.",
    "body": "\n    import math{body}",
    "body in a fence": "```python\n    import math{body}```",
    "echoed exactly": "```python\n{header}\n    import math{body}```",
}


@pytest.fixture(params=CASES)
def rows_path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    golden, context = CASES[request.param]
    return write_rows(tmp_path / "rows.jsonl", [make_row("t", golden, context)])


@pytest.mark.parametrize("name", ANSWERS)
def test_every_usual_form_of_an_answer_runs(rows_path: Path, name: str) -> None:
    (problem,) = load_problems(rows_path)
    problem_set = load_suite(find_suite("biocoder"), rows_path)
    shown = problem_set.problems[0].shown
    assert shown
    header = f"{problem.signature}:"
    raw = ANSWERS[name].format(
        header=header,
        close=header.replace(", ", ","),
        annotated=header.replace("a, b)", "a: int, b: int) -> int"),
        body=BODY,
    )
    cleaned = clean_hypothesis(raw, prefix=shown.prefix)
    names: dict[str, object] = {}
    for text in (cleaned, cut_at_stop(cleaned, problem_set.stops)):
        program = find_slot(problem.context, "t").insert(assemble(problem, text))
        exec(program, names)  # noqa: S102  our own program
        assert names["found"] == 3
        assert "\nText at the margin." in program


def test_a_function_inside_a_body_is_not_the_answer(rows_path: Path) -> None:
    (problem,) = load_problems(rows_path)
    body = "    def f(c):\n        return abs(c)\n    return f(a) + b"
    solution = assemble(problem, body)
    assert solution == f"{problem.signature}:\n{body}"


def test_an_indented_definition_keeps_what_stands_around_it(rows_path: Path) -> None:
    (problem,) = load_problems(rows_path)
    whole = f'import math\n\n{problem.signature}:\n    return """\n a"""\n\nx = 1'
    indented = (
        f'    import math\n\n    {problem.signature}:\n        return """\n a"""\n\n    x = 1'
    )
    assert assemble(problem, indented) == whole
