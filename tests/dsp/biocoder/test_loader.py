"""All layouts of BioCoder's files, with small ones made here."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.records import end_signature

SHARED = Path(__file__).parents[4] / "shared" / "data" / "biocoder"
GOLDEN = "@cached\ndef f(a, b=2, *c):\n    return a\n"
CONTEXT = "import os\n<<insert solution here>>\nprint(f(1))\n"


def write_rows(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_columns(path: Path, **columns: list[object]) -> Path:
    content = {name: {str(i): one for i, one in enumerate(v)} for name, v in columns.items()}
    path.write_text(json.dumps(content))
    return path


def test_rows_with_the_names_of_the_stored_copy(tmp_path: Path) -> None:
    row = {"id": "1a", "function": "f", "signature": "def f(a)", "prompt": "Do.", "golden": GOLDEN}
    row |= {"context": CONTEXT, "context_fuzz": CONTEXT.replace("1", "<|int|>"), "n_markers": 1}
    (problem,) = load_problems(write_rows(tmp_path / "a.jsonl", row))
    assert (problem.task_id, problem.language, problem.function) == ("1a", "python", "f")
    assert problem.summary == "Do."
    assert "<|int|>" in problem.context
    assert problem.facts == {"function": "f", "signature": "def f(a)", "n_markers": 1}


def test_rows_with_the_names_of_the_public_copy(tmp_path: Path) -> None:
    row = {"test_case_id": "2b", "language": "Java", "promptSummaryOnly": "Do it."}
    row |= {"goldenCode": GOLDEN, "contextCode": CONTEXT, "repository": "r"}
    (problem,) = load_problems(write_rows(tmp_path / "a.jsonl", row))
    assert (problem.task_id, problem.language) == ("2b", "java")
    assert (problem.golden, problem.context, problem.summary) == (GOLDEN, CONTEXT, "Do it.")


def test_rows_with_the_names_of_a_third_copy(tmp_path: Path) -> None:
    row = {"idx": "3c", "problem": "Do.", "solution": GOLDEN, "context": CONTEXT, "code": "x"}
    (problem,) = load_problems(write_rows(tmp_path / "test_tasks.jsonl", row))
    assert (problem.task_id, problem.golden, problem.summary) == ("3c", GOLDEN, "Do.")
    assert not problem.facts


def test_name_and_header_come_from_the_reference_where_they_are_missing(tmp_path: Path) -> None:
    (problem,) = load_problems(write_rows(tmp_path / "a.jsonl", {"id": "1", "golden": GOLDEN}))
    assert problem.function == "f"
    assert end_signature(problem) == "@cached\ndef f(a, b=2, *c):"


def test_layout_a(tmp_path: Path) -> None:
    path = write_columns(tmp_path / "v1.json", golden=[GOLDEN, "def g(): pass"], tokens=[9, 4])
    first, second = load_problems(path)
    assert (first.task_id, second.task_id) == ("v1/0", "v1/1")
    assert (first.facts, second.function) == ({"tokens": 9}, "g")
    assert not first.context


def test_layout_b_of_java(tmp_path: Path) -> None:
    path = write_columns(
        tmp_path / "java.json",
        content=["/** Adds. */\nint add(int a) { return a + n; }"],
        signature=["public int add(int a)"],
        comment=["/**\n     * Adds.\n     * @param a number\n     */"],
        imports=[[{"methodsOnly": "class Other {}"}]],
        additionalImports=["{'Third': 'class Third {}'}"],
        intraClassFieldsUsed=["private int n;"],
        numLines=[2],
    )
    (problem,) = load_problems(path)
    assert (problem.language, problem.function) == ("java", "add")
    assert problem.summary == "Adds.\n@param a number"
    assert problem.surroundings == ("class Other {}", "class Third {}", "private int n;")
    assert end_signature(problem) == "public int add(int a) {"
    assert problem.facts["numLines"] == 2


def test_imports_as_an_object(tmp_path: Path) -> None:
    path = write_columns(
        tmp_path / "java.json",
        content=["int f() {}"],
        signature=["int f()"],
        additionalImports=[{"A": "class A {}"}],
    )
    assert load_problems(path)[0].surroundings == ("class A {}", "")


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("a.jsonl", '{"id": "1"}\n', "golden"),
        ("a.jsonl", '{"golden": "x"}\n', "id"),
        ("a.jsonl", '{"id": 1, "golden": "x"}\n', "not a text"),
        ("a.jsonl", '{"id": "1", "golden": "x"}\n' * 2, "twice"),
        ("a.jsonl", '{"id": "1", "golden": "x", "context": "y"}\n', "0 markers"),
        ("a.jsonl", "", "no problems"),
        ("a.jsonl", "{", "line 1"),
        ("a.json", "[]", "columns"),
        ("a.json", '{"golden": 1}', "columns"),
        ("a.json", "{", "JSON"),
        ("a.json", '{"golden": {}}', "no problems"),
    ],
)
def test_damaged_files_are_errors_that_name_them(
    tmp_path: Path, name: str, text: str, word: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ProblemSetError, match=word) as caught:
        load_problems(path)
    assert name in str(caught.value) or "context" in str(caught.value).lower()


@pytest.mark.parametrize(
    ("name", "number", "executable"),
    [
        ("python_public.jsonl", 110, 110),
        ("python_similar_v1.json", 152, 0),
        ("java_public.json", 50, 0),
        ("java_similar.json", 50, 0),
    ],
)
def test_the_published_files(name: str, number: int, executable: int) -> None:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is not there.")
    problems = load_problems(path)
    assert len(problems) == number
    assert sum(bool(problem.context) for problem in problems) == executable
    assert all(problem.function and problem.signature for problem in problems)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("def f(a, b)", "@x\ndef f(a, b=2)"),
        ("def f(a, b):", "@x\ndef f(a, b=2)"),
        ("def f(a, b=3)", "def f(a, b=3)"),
        ("def f(a: int, c) -> int", "def f(a: int, c) -> int"),
        ("f takes a and b", "f takes a and b"),
    ],
)
def test_a_header_gets_its_defaults_back(tmp_path: Path, given: str, found: str) -> None:
    golden = "@x\ndef f(a, b=2):\n    return a + b"
    row = {"id": "t", "golden": golden, "signature": given}
    path = write_rows(tmp_path / "rows.jsonl", row)
    (problem,) = load_problems(path)
    assert problem.signature == found
