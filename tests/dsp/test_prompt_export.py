"""``dsp-eval prompts``: all that a model sees, and nothing else, of every problem."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jupyt5.providers import Sampling, load_provider
from jupyt5_dsp.cli import main
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.prompt_export import iter_prompts
from jupyt5_dsp.prompts import measure_prompt
from jupyt5_dsp.sample_files import read_samples
from jupyt5_dsp.samples import Generation, make_request
from jupyt5_dsp.suites import find_suite, load_suite

from .biocoder.fixtures import ADD, write_biocoder, write_rosalind
from .suite_fixtures import write_humaneval, write_mbpp

GENERATION = Generation(
    num_samples=1,
    num_context_cells=3,
    num_following_cells=0,
    sampling=Sampling(max_tokens=256),
    seed=0,
    prompt_tokens=8192,
)


def export(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> list[Any]:
    capsys.readouterr()
    assert main(["prompts", *map(str, argv)]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_shown_cell_is_the_prompt_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_humaneval(tmp_path)
    problem_set = load_suite(find_suite("humaneval"), path)
    first, second = export(capsys, "--suite", "humaneval", "--problems", path)
    # As a run gives it: the model writes the line break itself.
    assert first["prompt"] == problem_set.prefix_of(problem_set.problems[0]).removesuffix("\n")
    assert first == {
        "task_id": "HumanEval/0",
        "prompt": first["prompt"],
        "num_tokens": round(len(first["prompt"]) / 3.5),
        "is_estimate": True,
        "num_left_out": 0,
        "stops": ["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
        "function": "add",
    }
    assert second["function"] == "mean"
    assert "candidate" not in str((first, second))
    (shot,) = export(capsys, "--suite", "mbpp", "--problems", write_mbpp(tmp_path), "--limit", "1")
    assert shot["prompt"].startswith("You are an expert Python programmer")
    assert shot["stops"] == ["[DONE]"]
    assert "function" not in shot


def test_several_cells_are_a_script(
    add_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--suite", "humaneval", "--presentation", "markdown"]
    (line, _) = export(capsys, *argv, "--problems", write_humaneval(tmp_path))
    assert line["prompt"] == (
        "# %% [markdown]\n# Add.\n# >>> add(2, 3)\n# 5\n\n"
        "# %%\nimport math\n\n\ndef add(a: int, b: int) -> int:"
    )
    first, second = export(capsys, "--problems", add_set, "--following", "0", "--context", "2")
    assert first["prompt"] == "# %% [markdown]\n# Write `add`.\n\n# %%\n# your code here\n\n"
    assert second["prompt"] == (
        "# %%\nassert add(2, 3) == 5\nassert add(0, 0) == 0\n\n"
        "# %% [markdown]\n# Write `double`, using `add`.\n\n# %%\n"
    )


@pytest.mark.parametrize("name", ["java-public", "python-similar", "functions", "python-public"])
def test_what_cannot_be_executed_is_shown(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_biocoder(tmp_path)
    argv = ["--suite", "biocoder", "--problems", path, "--option", f"set={name}"]
    problem_set = load_suite(find_suite("biocoder"), path, {"set": name})
    lines = export(capsys, *argv)
    assert [line["task_id"] for line in lines] == [one.task_id for one in problem_set.problems]
    for line, problem in zip(lines, problem_set.problems, strict=True):
        assert problem.shown
        assert line["prompt"] == problem.shown.prefix
        assert "return a + b" not in line["prompt"]
        assert "return self" not in line["prompt"]
        assert line.get("function", "") == problem.shown.function


def test_a_provider_shows_what_it_would_give_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, provider = write_rosalind(tmp_path), load_provider("jupyt5:nano")
    problem_set = load_suite(find_suite("rosalind"), path)
    argv = ["--suite", "rosalind", "--problems", path, "--provider", "jupyt5:nano"]
    lines = export(capsys, *argv)
    for line, problem in zip(lines, problem_set.problems, strict=True):
        request = make_request(problem_set, problem, GENERATION)
        assert line["prompt"] == provider.preview(request, GENERATION.sampling).text
        size = measure_prompt(provider, problem_set, problem, GENERATION)
        assert (line["num_tokens"], line["is_estimate"]) == (size.num_tokens, False)
    (line, _) = export(capsys, *argv[:-1], "fake:")
    assert line["is_estimate"]  # nobody has its tokenizer


def test_a_cut_is_told(add_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--problems", add_set, "--following", "0"]
    whole, cut = (export(capsys, *argv, "--prompt-tokens", count)[1] for count in ("8192", "10"))
    assert (whole["num_left_out"], cut["num_left_out"] > 0) == (0, True)
    assert len(cut["prompt"]) < len(whole["prompt"])


def test_a_problem_without_a_cell_has_no_line(
    add_set: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (add_set / "problems.jsonl").read_text().replace('"cell_index": 4', '"cell_index": 40')
    (add_set / "problems.jsonl").write_text(lines)
    found = list(iter_prompts(None, load_problem_set(add_set), GENERATION))
    assert [line and line["task_id"] for line in found] == ["T/0", None]
    assert "T/1 has no prompt" in caplog.text


def test_a_file_is_new(add_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "prompts.jsonl"
    assert export(capsys, "--problems", add_set, "--out", out) == []
    written = out.read_text()
    assert [json.loads(line) for line in written.splitlines()] == export(
        capsys, "--problems", add_set
    )
    export(capsys, "--problems", add_set, "--out", out, "--limit", "1", code=2)
    assert out.read_text() == written


def test_nobody_is_asked_where_nothing_can_be_judged(
    tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_biocoder(tmp_path)
    argv = ["run", "--suite", "biocoder", "--problems", str(path), "--option", "set=functions"]
    argv += ["--out", str(tmp_path / "run"), "--sandbox", sandbox_option]
    assert main([*argv, "--provider", "fake:fail"]) == 1
    said = capsys.readouterr().err
    assert "None of the 1 problems can be executed here (no test context)" in said
    assert "dsp-eval prompts" in said
    assert not (tmp_path / "run").exists()
    assert ADD not in said


def test_a_model_is_asked_as_the_docs_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    code, _ = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    _, line, loop = code.partition('with open("prompts.jsonl")')
    path = write_humaneval(tmp_path)
    monkeypatch.chdir(tmp_path)
    export(capsys, "--suite", "humaneval", "--problems", path, "--out", "prompts.jsonl")
    answers = {"add": "\n    return a + b\n\nprint(add(1, 2))", "mean": "Sure."}
    names = {"json": json, "ask": lambda prompt: answers["mean" if "mean" in prompt else "add"]}
    exec(f"import json\n{line}{loop}", names)  # noqa: S102  what the page tells to run
    problem_set = load_suite(find_suite("humaneval"), path)
    first, second = read_samples(tmp_path / "answers.jsonl", problem_set)
    assert first.completion == "\n    return a + b"
    assert (first.raw, second.raw) == (answers["add"], answers["mean"])
