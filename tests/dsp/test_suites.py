"""What each suite shows and executes, and a suite added as docs/suites.md says."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5.providers import Sampling
from jupyt5_dsp import suites
from jupyt5_dsp.answers import cut_at_stop
from jupyt5_dsp.cli import main
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.samples import Generation, make_gold, make_request
from jupyt5_dsp.suites import find_suite, load_suite

from .suite_fixtures import write_humaneval, write_jsonl, write_mbpp

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
GENERATION = Generation(
    num_samples=1,
    num_context_cells=0,
    num_following_cells=3,
    sampling=Sampling(),
    seed=0,
    prompt_tokens=8192,
)


def seen(problem_set: ProblemSet, task_id: str) -> list[tuple[str, str]]:
    request = make_request(problem_set, problem_set.find(task_id), GENERATION)
    assert (request.num_context_cells, request.num_following_cells) == (request.target_idx, 0)
    assert request.cells[request.target_idx].source == request.prefix
    return [(cell.kind, cell.source) for cell in request.cells]


def test_humaneval_is_shown_in_two_ways_and_executed_in_one(tmp_path: Path) -> None:
    path = write_humaneval(tmp_path)
    suite = find_suite("humaneval")
    plain = load_suite(suite, path)
    prompt = plain.prefix_of(plain.problems[0])
    # A model goes on from the end of a line, and writes the line break itself.
    assert seen(plain, "HumanEval/0") == [("code", prompt.removesuffix("\n"))]
    assert prompt.endswith('5\n    """\n')

    marked = load_suite(suite, path, {"presentation": "markdown"})
    words, code = seen(marked, "HumanEval/0")
    assert words == ("markdown", "Add.\n>>> add(2, 3)\n5")
    assert code == ("code", "import math\n\n\ndef add(a: int, b: int) -> int:")
    words, code = seen(marked, "HumanEval/1")
    assert words == ("markdown", "Return the mean of two numbers.")
    assert code[1].startswith('def half(a):\n    """Halve."""\n')
    assert code[1].endswith("def mean(a, b):\n    import math")

    for problem_set in (plain, marked):
        source = problem_set.cells_of(problem_set.problems[0])[0].source
        assert source == prompt + "    return a + b\n\n\n"
        # As in the harness a line that ends in a backslash meets the test's first line.
        first, second = problem_set.problems
        assert problem_set.fill(first, "    x") == prompt + "    x\n\n"
        assert problem_set.fill(second, "    x").endswith("    x\n")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("    return 1\n\ndef other():\n    pass", "    return 1\n"),
        ("    return 1\nprint(add(1, 2))", "    return 1"),
        ("    if a:\n        return 1\n    # why\n    return 2\n", None),
        ("    return 1\nclass A: pass\ndef f(): pass", "    return 1"),
        ("def add(): pass", None),
        ("", None),
    ],
)
def test_generated_text_of_humaneval_is_cut(text: str, kept: str | None, tmp_path: Path) -> None:
    stops = load_suite(find_suite("humaneval"), write_humaneval(tmp_path)).stops
    assert cut_at_stop(text, stops) == (text if kept is None else kept)


def test_mbpp_prompt_has_three_shots_and_the_listed_asserts_only(tmp_path: Path) -> None:
    path = write_mbpp(tmp_path)
    problem_set = load_suite(find_suite("mbpp"), path, {"tests": "challenge"})
    ((kind, prompt),) = seen(problem_set, "MBPP/12")
    assert kind == "code"
    assert prompt.count("You are an expert Python programmer") == 4
    assert prompt.count("[DONE]") == 3
    assert "[BEGIN]\nx = 2\n[DONE]\n" in prompt
    assert prompt.endswith(
        "Write a class with a value. Your code should pass these tests:\n\n"
        "assert box.value == 7\n[BEGIN]\n"
    )
    _, grading = problem_set.cells_of(problem_set.find("MBPP/12"))
    assert grading.source.split("\n") == [
        "box = Box(7)", "assert box.value == 7", "assert Box(-1).value == -1",
    ]  # fmt: skip
    assert cut_at_stop("y = 1\n[DONE]\n\nYou are", problem_set.stops) == "y = 1\n"


def test_mbpp_as_a_notebook_and_all_of_it(tmp_path: Path) -> None:
    path = write_mbpp(tmp_path)
    options = {"presentation": "notebook", "ids": "all"}
    problem_set = load_suite(find_suite("mbpp"), path, options)
    assert len(problem_set.problems) == 6
    words, code = seen(problem_set, "MBPP/11")
    assert words[1].startswith("Write a function to add. Your code")
    assert "assert add(2, 3) == 5" in words[1]
    assert code == ("code", "")
    # A shot is not shown its own answer.
    prompt = seen(load_suite(find_suite("mbpp"), path, {"ids": "all"}), "MBPP/3")[0][1]
    assert prompt.count("[DONE]") == 2
    assert "x = 3" not in prompt


def test_mbpp_without_its_examples_is_refused(tmp_path: Path) -> None:
    path = write_mbpp(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[3:]]))
    with pytest.raises(ProblemSetError, match=r"no task 3 and no task 4.*--presentation notebook"):
        load_suite(find_suite("mbpp"), path)
    notebooks = load_suite(find_suite("mbpp"), path, {"presentation": "notebook"})
    assert len(notebooks.problems) == 2


def test_unknown_names_are_refused_with_a_guess(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean humaneval"):
        find_suite("humanevel")
    suite = find_suite("humaneval")
    with pytest.raises(UsageError, match="Did you mean markdown"):
        load_suite(suite, tmp_path, {"presentation": "markdwon"})
    with pytest.raises(UsageError, match="has no option 'ids'"):
        load_suite(suite, tmp_path, {"ids": "all"})
    with pytest.raises(UsageError, match="It has none"):
        load_suite(find_suite("dsp"), tmp_path, {"presentation": "prompt"})


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProblemSetError, match=r"no folder with HumanEval\.jsonl\.gz or"):
        load_suite(find_suite("humaneval"), tmp_path)
    path = write_jsonl(tmp_path / "mbpp.jsonl", [{"task_id": 11, "text": "x"}])
    with pytest.raises(ProblemSetError, match="record 1: field code is missing"):
        load_suite(find_suite("mbpp"), path)
    path = write_humaneval(tmp_path)
    with pytest.raises(ProblemSetError, match="field text is missing"):
        load_suite(find_suite("mbpp"), path)


@pytest.mark.kernel
def test_samples_of_other_prompts_are_not_mixed(
    tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_mbpp(tmp_path)
    argv = ["run", "--suite", "mbpp", "--problems", str(path), "--provider", "fake:text=x"]
    argv += ["-n", "1", "-k", "1", "--workers", "1", "--sandbox", sandbox_option]
    argv += ["--limit", "1", "--out"]
    assert main([*argv, str(tmp_path / "a")]) == 0
    suite = find_suite("mbpp")
    before = load_suite(suite, path)
    # A word of an example: all problems are as before, all prompts are not.
    path.write_text(path.read_text().replace("Write shot 2.", "Write something."))
    after = load_suite(suite, path)
    assert before.digest() == after.digest()
    assert before.digest_shown() != after.digest_shown()
    assert main([*argv, str(tmp_path / "a")]) == 2
    assert "settings.shown" in capsys.readouterr().err
    assert main([*argv, str(tmp_path / "b")]) == 0
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "settings.shown" in capsys.readouterr().out


@pytest.mark.kernel
def test_a_suite_is_added_as_the_docs_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox_option: str
) -> None:
    page = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    _, code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "squares.py").write_text(code)
    spec = importlib.util.spec_from_file_location("squares", tmp_path / "squares.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(suites, "_SUITES", (*suites.list_suites(), module.SquaresSuite()))
    path = write_jsonl(tmp_path / "squares.jsonl", [{"number": 3}, {"number": 4}])

    def run(samples: str, name: str) -> dict[str, int]:
        argv = ["run", "--suite", "squares", "--problems", str(path), "--samples", samples]
        argv += ["-k", "1", "--out", str(tmp_path / name), "--sandbox", sandbox_option]
        assert main([*argv, "--presentation", "bare", "--workers", "1"]) == 0
        return json.loads((tmp_path / name / "results.json").read_text())["verdict_counts"]

    assert run("gold", "gold") == {"passed": 2}
    answers = [{"task_id": "squares/3", "completion": text} for text in ("9", "8", "", "!ls")]
    file = write_jsonl(tmp_path / "answers.jsonl", answers)
    assert run(str(file), "answers") == {"passed": 1, "syntax": 2, "wrong": 1}


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_published_references_pass(name: str, tmp_path: Path, sandbox_option: str) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(f"the published {name} (../shared/data/{name}) is not here")
    argv = ["run", "--suite", name, "--problems", str(SHARED / name), "--samples", "gold"]
    argv += ["--sandbox", sandbox_option, "--limit", "32", "-k", "1", "--timeout-s", "5"]
    assert main([*argv, "--out", str(tmp_path / "run"), "--workers", "2"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["verdict_counts"] == {"passed": 32}
    assert results["usable_counts"] == {"yes": 32}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("humaneval", {}, 164), ("mbpp", {}, 500), ("mbpp", {"ids": "all"}, 974)],
)
def test_published_sets_are_read(name: str, options: dict[str, str], expected: int) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(f"the published {name} (../shared/data/{name}) is not here")
    suite = find_suite(name)
    for choice in suite.options[0].choices:
        given = {**options, "presentation": choice}
        problem_set = load_suite(suite, SHARED / name, given)
        assert len(make_gold(problem_set)) == expected
        for problem in problem_set.problems:
            make_request(problem_set, problem, GENERATION)
            assert not problem_set.explain_invalid(problem)
