"""Bad input: one message, the right exit code, nothing left behind."""

import json
from pathlib import Path

import pytest

from jupyt5_dsp.cli import main


def run_cli(*argv: object) -> int:
    return main([str(arg) for arg in argv])


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["--suite", "dps", "--samples", "gold"], 2, "Did you mean dsp"),
        (["--problems", "{tmp}", "--samples", "gold"], 1, "holds no problems"),
        (["--samples", "{tmp}/none.jsonl"], 1, "cannot be read"),
        (["--provider", "nonsense:x"], 2, "nonsense"),
        (["--provider", "fake:", "--top-p", "2"], 2, "top_p = 2.0 is out of range"),
        (["--provider", "fake:", "--temperature", "0"], 2, "Use -n 1"),
        (["--provider", "fake:", "--temperature", "0", "-n", "2"], 2, "not 2"),
        (["--provider", "fake:fail", "-n", "2", "-k", "1,5"], 2, "pass@5 needs 5 hypotheses"),
        (["--samples", "gold", "--sandbox", "jail"], 2, "--sandbox jail is unknown"),
        (["--samples", "gold", "--presentation", "x"], 2, "has no option 'presentation'"),
        (["--samples", "gold", "--suite", "mbpp", "--option", "ids=al"], 2, "Did you mean all"),
        (["--samples", "gold", "--suite", "humaneval"], 1, "no folder with HumanEval"),
    ],
)
def test_bad_input(
    argv: list[str],
    code: int,
    text: str,
    add_set: Path,
    tmp_path: Path,
    sandbox_option: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    full = [arg.replace("{tmp}", str(tmp_path)) for arg in argv]
    defaults = {"--problems": add_set, "--out": out, "--sandbox": sandbox_option}
    for name, value in defaults.items():
        if name not in full:
            full += [name, str(value)]
    assert run_cli("run", *full) == code
    assert text in one_error(capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    "argv",
    [
        ["-n", "0"],
        ["--limit", "0"],
        ["--timeout-s", "-1"],
        ["--workers", "x"],
        ["--seed", "-1"],
        ["--context", "-1"],
        ["--following", "-1"],
        ["--top-k", "-1"],
        ["--max-tokens", "0"],
        ["--provider", "fake:"],
        ["--option", "ids"],
    ],
)
def test_bad_option_value(
    argv: list[str], add_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_cli("run", "--problems", add_set, "--samples", "gold", "--out", "x", *argv)
    assert caught.value.code == 2
    assert argv[0].strip("-") in capsys.readouterr().err


def test_foreign_folder_is_not_touched(
    add_set: Path, tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("x")
    argv = ["--problems", add_set, "--samples", "gold", "--sandbox", sandbox_option]
    assert run_cli("run", *argv, "--out", out) == 2
    assert "is not empty and holds no run" in one_error(capsys)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_unwritable_out(
    add_set: Path, tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    argv = ["--problems", add_set, "--samples", "gold", "--sandbox", sandbox_option]
    assert run_cli("run", *argv, "--out", tmp_path / "file" / "run") == 1
    assert "file" in one_error(capsys)


def test_report_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("report", tmp_path) == 1
    assert "no finished run is there" in one_error(capsys)


def test_build_wants_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("build", "--out", tmp_path / "out") == 2
    assert "There is no repository" in one_error(capsys)
    assert run_cli("build", "--functions", tmp_path) == 2
    assert "--out is missing" in one_error(capsys)
    assert run_cli("build", tmp_path, "--functions", tmp_path, "--out", tmp_path / "out") == 2
    assert "takes one project" in one_error(capsys)
    (tmp_path / "area.py").write_text('def area(r):\n    """Say how large."""\n    return r * r\n')
    assert run_cli("build", "--functions", tmp_path, "--out", tmp_path / "out") == 0
    assert json.loads(capsys.readouterr().out)["num_functions"] == 1
    (tmp_path / "area.py").write_text("def other():\n    return 1\n")
    before = (tmp_path / "out" / "functions.jsonl").read_text()
    assert run_cli("build", "--functions", tmp_path, "--out", tmp_path / "out") == 2
    assert "is there already" in one_error(capsys)
    assert (tmp_path / "out" / "functions.jsonl").read_text() == before


def test_fetch_says_why_not_rosalind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("fetch", "rosalind", "--out", tmp_path / "out") == 2
    assert "are published without ids" in one_error(capsys)
    assert not (tmp_path / "out").exists()


def test_help_shows_examples_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, text in (
        (["--help"], "dsp-eval run --problems"),
        (["run", "--help"], "default: 0.8"),
        (["fetch", "--help"], "BASE/owner/name/commit/path"),
        (["prompts", "--help"], "what a model sees"),
    ):
        with pytest.raises(SystemExit) as caught:
            run_cli(*argv)
        assert caught.value.code == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert text in shown.replace("- ", "-").replace("/ ", "/")
        assert "default: None" not in shown


def test_broken_problem_list(add_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (add_set / "problems.jsonl").write_text(json.dumps({"task_id": "a"}))
    assert run_cli("validate", add_set) == 1
    assert "line 1" in one_error(capsys)
