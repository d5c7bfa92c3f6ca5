"""Answers as chat models give them, from the raw text to the program that is run."""

import math
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent

import pytest

from jupyt5.providers import Sampling
from jupyt5_dsp.biocoder.corrections import assemble
from jupyt5_dsp.biocoder.insertion import find_slot
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.rosalind import load_rosalind
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.samples import Generation, make_request, take_completion
from jupyt5_dsp.suites import find_suite, load_suite

from .fixtures import make_row, write_rows

SHARED = Path(__file__).parents[4] / "shared" / "data" / "biocoder"
GENERATION = Generation(
    num_samples=1,
    num_context_cells=0,
    num_following_cells=0,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=8192,
)
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
    "from the future": "from __future__ import annotations\nimport math\n\n{header}{body}",
    "body": "\n    import math{body}",
    "body in a fence": "```python\n    import math{body}```",
    "echoed exactly": "```python\n{header}\n    import math{body}```",
}


def take(problem_set: ProblemSet, task_id: str, raw: str) -> str:
    problem = problem_set.find(task_id)
    request = make_request(problem_set, problem, GENERATION)
    assert problem.shown
    return take_completion(problem_set, problem, request, raw)


@pytest.fixture(params=CASES)
def rows_path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    golden, context = CASES[request.param]
    return write_rows(tmp_path / "rows.jsonl", [make_row("t", golden, context)])


@pytest.mark.parametrize("name", ANSWERS)
def test_every_usual_form_of_an_answer_runs(rows_path: Path, name: str) -> None:
    (problem,) = load_problems(rows_path)
    problem_set = load_suite(find_suite("biocoder"), rows_path)
    header = f"{problem.signature}:"
    raw = ANSWERS[name].format(
        header=header,
        close=header.replace(", ", ","),
        annotated=header.replace("a, b)", "a: int, b: int) -> int"),
        body=BODY,
    )
    names: dict[str, object] = {}
    text = take(problem_set, "t", raw)
    assert ("annotations" in text) == ("annotations" in raw)
    program = find_slot(problem.context, "t").insert(assemble(problem, text))
    exec(program, names)  # noqa: S102  our own program
    assert names["found"] == 3
    assert "\nText at the margin." in program


IN_CLASS = "import math\n\nclass B(A):\n    x = 1\n\n{member}\n    def g(self):\n        pass\n"


@pytest.mark.parametrize(
    "raw",
    [IN_CLASS, f"Here it is:\n\n```python\n{IN_CLASS}```\nIt adds.", f"Like this:\n{IN_CLASS}"],
)
def test_a_member_may_come_in_its_class(tmp_path: Path, raw: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("t", MEMBER, MEMBER_CONTEXT)])
    problem_set = load_suite(find_suite("biocoder"), path)
    (problem,) = load_problems(path)
    member = indent(f"{problem.signature}:{BODY}", "    ").replace("    Text", "Text")
    text = take(problem_set, "t", raw.format(member=member))
    slot = find_slot(problem.context, "t")
    program = slot.insert(assemble(problem, text, class_name=slot.class_name))
    names: dict[str, object] = {"math": math} if "Like this" in raw else {}
    exec(program, names)  # noqa: S102  our own program
    assert names["found"] == 3
    assert "class B" not in program


WHOLE_CLASSES = {
    "a failed import": (
        "try:\n    import math as m\nexcept ImportError:\n    m = None\n\nclass A:\n"
        "    def f(self, a, b):\n        return int(m.fabs(a)) + b\n"
    ),
    "a star": (
        "from math import *\nclass A:\n    def f(self, a, b):\n        return int(fabs(a)) + b\n"
    ),
    "stubs": (
        "from typing import overload\nclass A:\n    @overload\n    def f(self, a): ...\n"
        "    @overload\n    def f(self, a, b): ...\n"
        "    def f(self, a, b=2):\n        return abs(a) + b\n"
    ),
    "a setter": (
        "class A:\n    @property\n    def f(self):\n        return lambda a, b: abs(a) + b\n"
        "    @f.setter\n    def f(self, value):\n        pass\n"
    ),
    "a method": (
        "class A:\n    def __own(self, a):\n        return abs(a)\n\n"
        "    def f(self, a, b):\n        return self.__own(a) + b\n"
    ),
}


@pytest.mark.parametrize("form", ["completion", "{}", "So:\n```py\nimport os\n```\n```py\n{}```"])
@pytest.mark.parametrize("name", WHOLE_CLASSES)
def test_a_member_works_as_in_its_class(tmp_path: Path, name: str, form: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("t", MEMBER, MEMBER_CONTEXT)])
    (problem,) = load_problems(path)
    text = WHOLE_CLASSES[name]
    if form != "completion":
        text = take(load_suite(find_suite("biocoder"), path), "t", form.format(text))
    slot = find_slot(problem.context, "t")
    names: dict[str, object] = {}
    exec(slot.insert(assemble(problem, text, class_name=slot.class_name)), names)  # noqa: S102
    assert names["found"] == 3


@pytest.mark.parametrize("second", [MEMBER, f"class A:\n{indent(MEMBER, '    ')}"])
@pytest.mark.parametrize("first", ["{}", "class A:\n    {}"])
def test_the_last_fence_with_the_member_is_the_answer(
    tmp_path: Path, first: str, second: str
) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("t", MEMBER, MEMBER_CONTEXT)])
    (problem,) = load_problems(path)
    draft = first.format("def f(self, a, b): return 0")
    raw = f"A draft:\n```python\n{draft}\n```\nBetter:\n```python\n{second}\n```\nDone."
    text = take(load_suite(find_suite("biocoder"), path), "t", raw)
    assert assemble(problem, text, class_name="A").strip() == MEMBER.strip()


REFERENCES = {
    "decorated": "@cached\n@other(1)\ndef f(a):\n    return a",
    "helped": (
        "class Box:\n    pass\n\n@cached\ndef own(a):\n    return a\n\ndef f(a):\n    return own(a)"
    ),
    "text at the margin": 'def f(a):\n    x = """\nnext\n"""\n    return x',
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_given_as_a_whole_answer_survives(tmp_path: Path, name: str) -> None:
    golden = REFERENCES[name]
    row = make_row("t", golden, FUNCTION_CONTEXT, function="f", signature="def f(a)")
    path = write_rows(tmp_path / "rows.jsonl", [row])
    problem_set = load_suite(find_suite("biocoder"), path)
    (problem,) = load_problems(path)
    for raw in (golden, f"```python\n{golden}\n```\nIt is done.", f"{golden}\n\nprint(f(1))\n"):
        assert assemble(problem, take(problem_set, "t", raw)).strip() == golden


def test_every_published_reference_survives() -> None:
    if not (SHARED / "python_public.jsonl").is_file():
        pytest.skip(f"{SHARED} is not there.")
    for suite, name in (("biocoder", "python_public.jsonl"), ("rosalind", "rosalind.jsonl")):
        problem_set = load_suite(find_suite(suite), SHARED)
        load = load_problems if suite == "biocoder" else load_rosalind
        known = {problem.task_id: problem for problem in load(SHARED / name)}
        assert len(known) == {"biocoder": 110, "rosalind": 177}[suite]
        lost: list[str] = []
        for task_id, problem in known.items():
            golden = problem.golden.strip()
            for raw in (golden, f"Here:\n```python\n{golden}\n```\nDone."):
                if assemble(problem, take(problem_set, task_id, raw)).strip() != golden:
                    lost.append(task_id)
        assert not lost


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
