"""Examples and batches: sources, targets, prefixes, order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jupyt5_training.arrays import load_arrays, load_data_tokenizer
from jupyt5_training.batches import collate, plan_epoch
from jupyt5_training.examples import Example, ExampleMaker
from jupyt5_training.recipes import OptimizerConfig, Recipe
from jupyt5_training.schedule import learning_rate


def make(data: Path, recipe: Recipe, position: int, **rates: float) -> tuple[str, str, Example]:
    tokenizer = load_data_tokenizer(data)
    config = replace(recipe.examples, **{"prefix_rate": 0.0, "suffix_rate": 0.0, **rates})
    maker = ExampleMaker(load_arrays(data, "train"), tokenizer, config)
    example = maker.make(position, np.random.default_rng(0))
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


def test_estimated_lengths(data: Path, recipe: Recipe) -> None:
    tokenizer = load_data_tokenizer(data)
    config = replace(recipe.examples, prefix_rate=0.0, suffix_rate=0.0)
    maker = ExampleMaker(load_arrays(data, "train"), tokenizer, config)
    sources, targets = maker.estimate_lengths()
    num_comment = len(tokenizer.encode("# step 1"))
    for position in (2, 3, 14):
        example = maker.make(position, np.random.default_rng(0))
        moved = num_comment if position == 3 else 0
        assert len(example.source_ids) == sources[position] + moved
        assert len(example.target_ids) == targets[position] - moved


def test_an_epoch_has_every_target_once_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    sources, targets = rng.integers(5, 100, 999), rng.integers(1, 50, 999)
    plan = plan_epoch(sources, targets, np.ones(999), batch_tokens=1000, seed=1, epoch=0)
    assert sorted(plan.targets) == list(range(999))
    for batch_idx in range(len(plan)):
        chosen = plan[batch_idx]
        assert len(chosen) * (sources[chosen].max() + targets[chosen].max()) <= 1000
    again = plan_epoch(sources, targets, np.ones(999), batch_tokens=1000, seed=1, epoch=0)
    assert np.array_equal(plan.targets, again.targets)
    other = plan_epoch(sources, targets, np.ones(999), batch_tokens=1000, seed=1, epoch=1)
    assert not np.array_equal(plan.targets, other.targets)
    half = plan_epoch(sources, targets, np.full(999, 0.5), batch_tokens=1000, seed=1, epoch=0)
    assert 400 < len(half.targets) < 600


def test_collate_pads_and_counts() -> None:
    batch = collate([np.array([7, 8, 9]), np.array([7])], [np.array([2]), np.array([5, 2])], pad=1)
    assert batch.source_BS.tolist() == [[7, 8, 9], [7, 1, 1]]
    assert batch.target_BT.tolist() == [[2, 1], [5, 2]]
    assert (batch.num_useful, batch.num_target) == (7, 3)


def test_the_schedule_warms_up_decays_and_cools_down() -> None:
    config = OptimizerConfig(peak_lr=1.0, warmup_steps=100, cooldown_steps=10)
    assert learning_rate(50, 1000, config) == pytest.approx(0.5)
    assert learning_rate(100, 1000, config) == pytest.approx(1.0)
    assert learning_rate(400, 1000, config) == pytest.approx(0.5)
    assert learning_rate(1000, 1000, config) == pytest.approx(0.1 * (100 / 1000) ** 0.5)
