"""Recipes: the built-in ones, YAML, Python, and what is wrong with others."""

import pytest

from jupyt5.errors import UsageError
from jupyt5_corpus.holdout_lists import HoldoutFile, bundled_file
from jupyt5_corpus.recipe import BUILT_IN, load_recipe, versions

JUICE = HoldoutFile(name="juice.jsonl", data=b'{"source": "JuICe dev", "repo": "a/b"}\n')


def names(choices):
    return [choice.name for choice in choices]


def test_the_paper_s_recipe_has_the_paper_s_steps_and_says_what_was_skipped():
    recipe = load_recipe("paper", holdout_files=[bundled_file()])
    assert names(recipe.steps) == ["parse", "holdout", "exact_duplicates", "markdown_focused"]
    (skipped,) = recipe.skipped()
    assert recipe.record()["skipped"] == [skipped]
    assert skipped["list"] == "JuICe"
    assert "no such list was given" in skipped["reason"]
    given = load_recipe("paper", holdout_files=[bundled_file(), JUICE])
    assert given.record()["skipped"] == []
    assert set(versions(recipe)) == {"jupyt5", "python", "pyarrow", "orjson"}


def test_the_default_recipe_has_all_steps_and_cuts_them_at_the_duplicates():
    recipe = load_recipe("default")
    assert names(recipe.early_steps) == ["normalise", "holdout", "overlap", "markdown_focused"]
    assert names(recipe.late_steps) == ["language", "licences", "secrets", "quality"]
    assert recipe.options("licences") == {"policy": "permissive"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_recipes_are_called_as_they_call_themselves(name):
    assert load_recipe(name).name == name


def test_a_yaml_recipe_with_options(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nsteps: [parse, exact_duplicates, licences: {policy: all}]\n")
    recipe = load_recipe(str(path))
    assert recipe.name == "mine"
    assert recipe.record()["options"] == {"licences": {"policy": "all"}}
    assert str(tmp_path) not in str(recipe.record())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: [", "no valid YAML"),
        ("- parse", "no mapping"),
        ("name: x", "steps must be a list of at least one step"),
        ("name: x\nsteps: parse", "steps must be a list of at least one step"),
        ("name: x\nsteps: []", "steps must be a list of at least one step"),
        ("steps: [parse]", "it has no name"),
        ("name: 1\nsteps: [parse]", "name must be a text"),
        ("name: x\nsteps: [parse]\nmore: 1", "it has more besides"),
        ("name: x\nsteps: [parse, {a: 1, b: 2}]", "neither a step's name"),
        ("name: x\nsteps: [parse, polish]", "there is no step polish"),
        ("name: x\nsteps: [exact_duplicates, parse]", "the first step is not parse"),
        ("name: x\nsteps: [opt_out]", "the first step is not parse"),
        ("name: x\nsteps: [parse, normalise, normalise]", "twice"),
        ("name: x\nsteps: [parse, normalise: {hard: true}]", "has no option hard"),
        ("name: x\nsteps: [parse, exact_duplicates, holdout]", "holdout must stand before"),
        (
            "name: x\nsteps: [parse, licences: {policy: all}, exact_duplicates]",
            "must stand before licences",
        ),
        (
            "name: x\nsteps: [parse, quality: {max_line_chars: many}]",
            "max_line_chars of step quality is 'many', not a number",
        ),
        (
            "name: x\nsteps: [parse, quality: {max_line_chars: true}]",
            "max_line_chars of step quality is True, not a number",
        ),
        (
            "name: x\nsteps: [parse, holdout: {expected_lists: JuICe}]",
            "expected_lists of step holdout is 'JuICe', not a list of texts",
        ),
        ("name: x\nsteps: [parse, near_duplicates]", "needs exact_duplicates"),
        (
            "name: x\nsteps: [parse, exact_duplicates, licences: {policy: some}]",
            "'some', not one of permissive, permissive+none, all",
        ),
    ],
)
def test_a_bad_recipe_is_one_clear_error(tmp_path, text, problem):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"Recipe bad\.yaml cannot be used") as caught:
        load_recipe(str(path))
    assert problem in str(caught.value)


@pytest.mark.parametrize("step", ["licences", "licences:", "licences: {}"])
def test_licences_are_permissive_ones_unless_the_recipe_says_more(tmp_path, step):
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: x\nsteps:\n- parse\n- {step}\n")
    assert load_recipe(str(path)).options("licences") == {"policy": "permissive"}


@pytest.mark.parametrize("name", ["best", "none.yaml", "none.py"])
def test_a_recipe_that_is_not_there(name):
    with pytest.raises(UsageError, match=r"no recipe|cannot be read"):
        load_recipe(name)


def test_a_python_recipe_that_fails(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("1 / 0")
    with pytest.raises(UsageError, match="raises ZeroDivisionError"):
        load_recipe(str(path))


def test_a_holdout_list_needs_its_step(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nsteps: [parse]")
    with pytest.raises(UsageError, match="no step holdout"):
        load_recipe(str(path), holdout_files=[JUICE])


OWN = """
from dataclasses import replace
from jupyt5_corpus.filters import removal_of

def no_short(row, min_cells):
    if len(row.cells) < min_cells:
        return removal_of(row, step="no_short", reason="too_short", detail=str(len(row.cells)))
    return row

STEPS = {"no_short": no_short}
RECIPE = {"name": "own", "steps": ["parse", {"no_short": {"min_cells": 2}}, "exact_duplicates"]}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_python_recipe_brings_steps_of_its_own(shards, build, corpus, tmp_path, workers):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    manifest = build(shards, recipe=path, workers=workers, holdout=None)
    assert manifest["recipe"]["name"] == "own"
    assert manifest["removed"]["too_short"] == 3
    assert all(len(row["cells"]) >= 2 for row in corpus.rows(tmp_path / "corpus"))
