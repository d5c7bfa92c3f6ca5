"""What a recipe's own Python code does wrong is one clear error."""

import json
import sys

import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.cli import main
from jupyt5_corpus.recipe import load_recipe

HEAD = "import sys\nfrom jupyt5_corpus.row import Row\n\ndef bad(row):\n    "
TAIL = (
    "\n\nSTEPS = {'bad': bad}\n"
    "RECIPE = {'name': 'own', 'steps': ['parse', 'exact_duplicates', 'bad']}\n"
)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("raise ValueError('no:\\n  not at all')", "raises ValueError: no: not at all (line 5)"),
        ("return row.nothing", "raises AttributeError: 'Row' object has no attribute"),
        ("raise OSError('no such shelf')", "raises OSError: no such shelf (line 5)"),
        ("sys.exit(0)", "raises SystemExit: 0 (line 5)"),
        ("return None", "returns None, not a Row or a Removal"),
        ("return row.cells", "returns an object of type tuple, not a Row or a Removal"),
    ],
)
def test_a_step_that_fails_is_one_error(shards, tmp_path, capfd, body, problem):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + body + TAIL)
    arguments = ["build", str(shards), "--out", str(tmp_path / "corpus"), "--recipe", str(path)]
    # A process of its own has to hand the error on.
    workers = "2" if "sys.exit" in body else "1"
    assert main([*arguments, "--workers", workers]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    (line,) = [each for each in captured.err.splitlines() if each.startswith("error: ")]
    assert line.startswith(f"error: Recipe mine.py: step bad {problem}")
    assert "; notebook " in line
    assert "/own.ipynb" in line or "/one.ipynb" in line
    assert not (tmp_path / "corpus").exists()
    # What the stage before did is kept.
    assert len(list((tmp_path / "corpus.partial" / "work").glob("done-read-*.json"))) == 2


def test_ctrl_c_in_a_step_stays_ctrl_c(shards, build, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + "raise KeyboardInterrupt" + TAIL)
    with pytest.raises(KeyboardInterrupt):
        build(shards, recipe=path, holdout=None)


@pytest.mark.parametrize("code", ["import sys; sys.exit()", "raise SystemExit(0)", "exit(3)"])
def test_a_recipe_that_ends_the_program_is_refused(shards, tmp_path, capsys, code):
    path = tmp_path / "mine.py"
    path.write_text(code)
    arguments = ["build", str(shards), "--out", str(tmp_path / "corpus"), "--recipe", str(path)]
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: Recipe mine.py cannot be used: it raises SystemExit")
    assert message.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine.py", "shards"]


def test_a_recipe_that_fails_only_in_the_stages_is_called_by_its_own_name(shards, build, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("assert 'partial' not in __file__, 'moved'\n" + HEAD + "return row" + TAIL)
    with pytest.raises(UsageError, match=r"Recipe mine\.py .* AssertionError: moved \(line 1\)"):
        build(shards, recipe=path, holdout=None)


def test_nothing_is_left_beside_a_recipe_and_nothing_stale_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    for name in ("one", "two"):
        path.write_text(f"RECIPE = {{'name': '{name}', 'steps': ['parse']}}\n")
        assert load_recipe(str(path)).name == name
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]


def test_a_python_recipe_may_be_without_steps_of_its_own(shards, build, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("RECIPE = {'name': 'mine', 'steps': ['parse', 'exact_duplicates']}\n")
    assert build(shards, recipe=path, holdout=None)["notebooks_kept"] == 4


def test_a_python_recipe_may_have_data_classes(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Limits:\n    cells: int = 1\n\n"
        "RECIPE = {'name': 'mine', 'steps': ['parse']}\n"
    )
    assert load_recipe(str(path)).name == "mine"


def test_options_that_the_manifest_cannot_hold_are_refused(tmp_path):
    path = tmp_path / "mine.py"
    for option in ("{'names': {1, 2}}", "{1: 2}"):
        path.write_text(HEAD + "return row" + TAIL.replace("'bad']", f"{{'bad': {option}}}]"))
        with pytest.raises(UsageError, match="options of step bad are no plain data"):
            load_recipe(str(path))


def test_the_example_at_the_top_of_recipe_works(shards, build, tmp_path):
    from jupyt5_corpus import recipe

    assert recipe.__doc__ is not None
    lines = recipe.__doc__.splitlines()
    start = lines.index("    from jupyt5_corpus.filters import removal_of")
    path = tmp_path / "mine.py"
    path.write_text("\n".join(line[4:] for line in lines[start:]))
    removed = build(shards, recipe=path, holdout=None)["removed"]
    assert json.loads(json.dumps(removed)) == {"invalid_notebook": 1, "too_short": 3}


def test_an_early_step_names_its_notebook_too(shards, build, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HEAD + "return 1 / 0" + TAIL.replace("'exact_duplicates', ", ""))
    with pytest.raises(CorpusError, match=r"ZeroDivisionError.*; notebook ben/book/one\.ipynb"):
        build(shards, recipe=path, holdout=None)
