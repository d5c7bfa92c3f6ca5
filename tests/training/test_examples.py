"""Examples: sources, targets, prefixes, what is drawn, and lengths known beforehand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyt5.model.checkpoint import FormatterSettings
from jupyt5_training.arrays import load_arrays, load_data_tokenizer
from jupyt5_training.examples import Example, ExampleConfig, ExampleMaker
from jupyt5_training.recipes import Recipe


def make_maker(data: Path, recipe: Recipe, **changes: Any) -> ExampleMaker:
    config = replace(recipe.examples, **{"prefix_rate": 0.0, "suffix_rate": 0.0, **changes})
    return ExampleMaker(load_arrays(data, "train"), load_data_tokenizer(data), config)


def make(data: Path, recipe: Recipe, position: int, **changes: Any) -> tuple[str, str, Example]:
    tokenizer = load_data_tokenizer(data)
    example = make_maker(data, recipe, **changes).make(position, seed=0, epoch=0)
    names = {0: "<s>", 2: "</s>", 4: "<mask>", 5: "<markdown>", 6: "<code>"}
    source = "".join(names.get(int(i)) or tokenizer.decode([int(i)]) for i in example.source_ids)
    return source, tokenizer.decode(example.target_ids.tolist()), example


def test_a_code_target_with_its_comment_as_prefix(data: Path, recipe: Recipe) -> None:
    source, target, example = make(data, recipe, 3)
    assert source == (
        "<s><code><markdown>## Step 0\nCompute `v0_0` from it."
        "<code># step 0\nv0_0 = 0 + 0\nprint(v0_0)"
        "<markdown>## Step 1\nCompute `v0_1` from it."
        "<code># step 1<mask>"
        "<markdown>## Step 2\nCompute `v0_2` from it.</s>"
    )
    assert target == "\nv0_1 = 0 + 1\nprint(v0_1)"
    assert example.target_ids[-1] == 2


def test_a_markdown_target(data: Path, recipe: Recipe) -> None:
    source, target, _ = make(data, recipe, 2)
    assert source.startswith("<s><markdown>")
    assert target == "## Step 1\nCompute `v0_1` from it."


def test_context_stops_at_the_notebook(data: Path, recipe: Recipe) -> None:
    source, _, _ = make(data, recipe, 12)  # first cell of the second notebook
    assert "v0_" not in source


def test_prefixes_and_suffixes_are_cut_at_lines(data: Path, recipe: Recipe) -> None:
    source, target, _ = make(data, recipe, 3, prefix_rate=1.0)
    assert "# step 1\nv0_1 = 0 + 1<mask>" in source
    assert target == "\nprint(v0_1)"
    source, target, _ = make(data, recipe, 3, suffix_rate=1.0)
    assert "# step 1<mask>\nprint(v0_1)<markdown>" in source
    assert target == "\nv0_1 = 0 + 1"


def test_a_long_target_is_cut_without_an_end_mark(data: Path, recipe: Recipe) -> None:
    formatter = replace(recipe.examples.formatter, max_target_tokens=3)
    recipe = replace(recipe, examples=replace(recipe.examples, formatter=formatter))
    _, _, example = make(data, recipe, 3)
    assert len(example.target_ids) == 3
    assert 2 not in example.target_ids


def test_draws_depend_on_seed_epoch_and_position_alone(data: Path, recipe: Recipe) -> None:
    maker = make_maker(data, recipe, prefix_rate=0.5, suffix_rate=0.4, context_draw="random")
    positions = [3 + 12 * number for number in range(30)]

    def sources(seed: int, epoch: int) -> list[list[int]]:
        return [maker.make(p, seed=seed, epoch=epoch).source_ids.tolist() for p in positions]

    first = sources(1, 0)
    assert [maker.make(p, seed=1, epoch=0).source_ids.tolist() for p in positions[::-1]] == (
        first[::-1]
    )
    for seed, epoch in ((2, 0), (1, 1)):
        assert sum(a == b for a, b in zip(first, sources(seed, epoch), strict=True)) < 15


def test_random_context_covers_every_setting_evenly(data: Path, recipe: Recipe) -> None:
    maker = make_maker(data, recipe, context_draw="random", following_rate=0.25)
    counts: dict[tuple[int, bool], int] = {}
    for epoch in range(400):
        example = maker.make(6, seed=0, epoch=epoch)
        ids = example.source_ids.tolist()
        slot = ids.index(4)
        # Kinds of context cells stand between the control code and the target's own kind.
        num_context = sum(idx in {5, 6} for idx in ids[2:slot]) - 1
        setting = (num_context, any(idx in {5, 6} for idx in ids[slot:]))
        counts[setting] = counts.get(setting, 0) + 1
    assert set(counts) == {(c, f) for c in (1, 2, 3) for f in (False, True)}
    for num_context in (1, 2, 3):
        assert 70 < counts[num_context, False] < 130
        assert 15 < counts[num_context, True] < 55


@pytest.mark.parametrize("budget", [7, 12, 24, 48, 96, 1000])
@pytest.mark.parametrize("context_draw", ["fixed", "random"])
@pytest.mark.parametrize("folder", ["data", "tests_data"])
def test_planned_lengths_are_those_of_the_examples(
    request: pytest.FixtureRequest, budget: int, context_draw: str, folder: str
) -> None:
    """The array arithmetic of lengths.py against the formatter, at many budgets."""
    config = ExampleConfig(
        formatter=FormatterSettings(
            source_budget_tokens=budget, max_target_tokens=16, num_following_cells=2
        ),
        prefix_rate=0.4,
        suffix_rate=0.3,
        context_draw=context_draw,
    )
    data = request.getfixturevalue(folder)
    tokenizer = load_data_tokenizer(data)
    maker = ExampleMaker(load_arrays(data, "train"), tokenizer, config)
    positions = np.random.default_rng(budget).integers(0, 3 * maker.num_targets, 300)
    sources, targets = maker.lengths(positions, seed=5, epoch=2)
    examples = [maker.make(int(position), seed=5, epoch=2) for position in positions]
    assert sources.tolist() == [len(example.source_ids) for example in examples]
    assert targets.tolist() == [len(example.target_ids) for example in examples]
    # The five ids that are always there may exceed a budget smaller than that.
    assert sources.max() <= max(budget, 5)


def test_lengths_of_many_chunks_are_those_of_one(
    data: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = make_maker(data, recipe, prefix_rate=0.3)
    positions = np.arange(2 * maker.num_targets)
    whole = maker.lengths(positions, seed=0, epoch=0)
    monkeypatch.setattr("jupyt5_training.lengths._CHUNK_TOKENS", 50)
    assert np.array_equal(whole, maker.lengths(positions, seed=0, epoch=0))


def test_targets_before_tests_weigh_more(tests_data: Path, recipe: Recipe) -> None:
    """Only the code cell right above a cell with an assert, in the same notebook."""
    maker = make_maker(tests_data, recipe, test_target_weight=3.0)
    arrays, tokenizer = maker.arrays, load_data_tokenizer(tests_data)
    weights = maker.target_weights(0.5)
    heavy = {
        tokenizer.decode(arrays.cell(int(arrays.targets[idx])).tolist())
        for idx in np.flatnonzero(weights == 3.0)
    }
    assert heavy == {"def add(a, b):\n    return a + b", "y = np.ones(3)"}
    assert set(weights) == {0.5, 1.0, 3.0}
    plain = make_maker(tests_data, recipe)
    assert set(plain.target_weights(0.5)) == {0.5, 1.0}
