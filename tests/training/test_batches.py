"""Batches and epoch plans: what is in them, their padding, their order, their files."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jupyt5_training.arrays import load_arrays, load_data_tokenizer
from jupyt5_training.batches import (
    PlanConfig,
    collate,
    cut_batches,
    fingerprint,
    load_batch,
    open_plan,
    plan_epoch,
    stored_plan,
)
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.examples import ExampleMaker
from jupyt5_training.feed import Feed, prefetched
from jupyt5_training.recipes import Recipe

CONFIG = PlanConfig(batch_tokens=512, seed=3, markdown_target_rate=0.5, data_sha256="ab")


def cut(sources: np.ndarray, targets: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    order, starts = cut_batches(sources, targets, batch_tokens)
    return np.split(order, starts[1:-1])


@pytest.fixture
def maker(data: Path, recipe: Recipe) -> ExampleMaker:
    return ExampleMaker(load_arrays(data, "train"), load_data_tokenizer(data), recipe.examples)


def test_batches_keep_to_the_budget_and_leave_nothing_out() -> None:
    rng = np.random.default_rng(0)
    sources, targets = rng.integers(5, 300, 5000), rng.integers(1, 90, 5000)
    batches = cut(sources, targets, 1000)
    assert sorted(np.concatenate(batches)) == list(range(5000))
    sizes = [len(batch) * (sources[batch].max() + targets[batch].max()) for batch in batches]
    assert max(sizes) <= 1000
    useful = int((sources + targets).sum())
    assert 1 - useful / sum(sizes) < 0.05


def test_an_example_above_the_budget_is_a_batch_of_its_own() -> None:
    batches = cut(np.array([50, 2000, 60]), np.array([5, 9, 5]), 200)
    assert sorted(batch.tolist() for batch in batches) == [[0, 2], [1]]


def test_batches_may_be_large_and_of_very_different_size() -> None:
    lengths = np.concatenate([np.full(9000, 2), np.full(50, 900)])
    batches = cut(lengths, np.ones(9050, np.int64), 6000)
    assert sorted(np.concatenate(batches)) == list(range(9050))
    assert sorted(len(batch) for batch in batches)[-4:] == [2000, 2000, 2000, 2000]


def test_an_epoch_has_every_code_target_once_and_half_the_markdown(maker: ExampleMaker) -> None:
    plan = plan_epoch(maker, CONFIG, epoch=0)
    is_code = maker.is_code_target()
    assert len(set(plan.targets)) == len(plan.targets)
    assert is_code[plan.targets].sum() == is_code.sum()
    assert 0.35 < (~is_code[plan.targets]).sum() / (~is_code).sum() < 0.65


def test_weights_above_one_repeat_targets_as_other_examples(
    tests_data: Path, recipe: Recipe
) -> None:
    examples = replace(recipe.examples, test_target_weight=2.5, context_draw="random")
    maker = ExampleMaker(
        load_arrays(tests_data, "train"), load_data_tokenizer(tests_data), examples
    )
    num_targets = maker.num_targets
    weights = maker.target_weights(1.0)
    seen = np.zeros(num_targets)
    for epoch in range(40):
        plan = plan_epoch(maker, CONFIG, epoch=epoch)
        assert len(set(plan.targets)) == len(plan.targets)
        np.add.at(seen, plan.targets % num_targets, 1)
    heavy = seen[weights == 2.5]
    assert 2.2 * 40 < heavy.mean() < 2.8 * 40
    position = int(np.flatnonzero(weights == 2.5)[0])
    sources = {
        tuple(maker.make(position + copy * num_targets, seed=3, epoch=0).source_ids)
        for copy in range(6)
    }
    assert len(sources) > 1


def test_the_order_depends_on_seed_and_epoch_alone(maker: ExampleMaker) -> None:
    plan = plan_epoch(maker, CONFIG, epoch=0)
    assert fingerprint(plan_epoch(maker, CONFIG, epoch=0), 0) == fingerprint(plan, 0)
    others = [
        plan_epoch(maker, CONFIG, epoch=1),
        plan_epoch(maker, replace(CONFIG, seed=4), epoch=0),
    ]
    for other in others:
        assert fingerprint(other, 0) != fingerprint(plan, 0)


def test_a_planned_batch_is_as_large_as_planned(maker: ExampleMaker) -> None:
    plan = plan_epoch(maker, CONFIG, epoch=0)
    useful, size = 0, 0
    for batch_idx in range(len(plan)):
        batch = load_batch(maker, plan[batch_idx], seed=CONFIG.seed, epoch=0, pad=1)
        assert batch.source_BS.size + batch.target_BT.size <= CONFIG.batch_tokens
        useful, size = useful + batch.num_useful, size + batch.source_BS.size
        size += batch.target_BT.size
    assert 1 - useful / size < 0.08


def test_a_stored_plan_is_used_again(
    maker: ExampleMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stored_plan(maker, CONFIG, epoch=0, folder=tmp_path) is None
    plan = open_plan(maker, CONFIG, epoch=0, folder=tmp_path)
    expected = fingerprint(plan, 0)
    monkeypatch.setattr(
        "jupyt5_training.batches.plan_epoch", lambda *args, **kwargs: pytest.fail("planned")
    )
    again = open_plan(maker, CONFIG, epoch=0, folder=tmp_path)
    assert fingerprint(again, 0) == expected
    assert isinstance(again.targets, np.memmap)


def test_a_plan_of_other_settings_or_a_damaged_one_is_not_used(
    maker: ExampleMaker, tmp_path: Path
) -> None:
    plan = open_plan(maker, CONFIG, epoch=0, folder=tmp_path)
    expected = fingerprint(plan, 0)
    other = replace(CONFIG, batch_tokens=256)
    assert fingerprint(open_plan(maker, other, epoch=0, folder=tmp_path), 0) != expected
    open_plan(maker, CONFIG, epoch=0, folder=tmp_path)
    for name in ("targets.npy", "starts.npy", "json"):
        path = tmp_path / f"epoch-0000.{name}"
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert fingerprint(open_plan(maker, CONFIG, epoch=0, folder=tmp_path), 0) == expected
        assert path.read_bytes() == content
    np.save(tmp_path / "epoch-0000.targets.npy", np.zeros(3, np.int64))  # of some other plan
    assert fingerprint(open_plan(maker, CONFIG, epoch=0, folder=tmp_path), 0) == expected


def test_plans_of_epochs_long_past_are_removed(maker: ExampleMaker, tmp_path: Path) -> None:
    for epoch in range(4):
        open_plan(maker, CONFIG, epoch=epoch, folder=tmp_path)
    stored = sorted({path.name[:10] for path in tmp_path.iterdir()})
    assert stored == ["epoch-0000", "epoch-0002", "epoch-0003"]
    assert json.loads((tmp_path / "epoch-0002.json").read_text("utf-8"))["batches"] > 0


def second_rank(maker: ExampleMaker, folder: Path) -> Feed:
    ranks = Ranks(rank=1, world_size=2)
    return Feed(maker=maker, plans=CONFIG, folder=folder, micro_batches=2, ranks=ranks, pad=0)


def test_a_rank_behind_makes_the_plan_that_is_gone(maker: ExampleMaker, tmp_path: Path) -> None:
    for epoch in (1, 9998, 10_000):
        open_plan(maker, CONFIG, epoch=epoch, folder=tmp_path)
    assert stored_plan(maker, CONFIG, epoch=10_000, folder=tmp_path) is not None
    assert stored_plan(maker, CONFIG, epoch=1, folder=tmp_path) is None
    plan = second_rank(maker, tmp_path).open_plan(1)
    np.testing.assert_array_equal(plan.targets, plan_epoch(maker, CONFIG, epoch=1).targets)


def test_the_end_of_a_run_ends_the_wait_for_a_plan(maker: ExampleMaker, tmp_path: Path) -> None:
    def enter_and_leave() -> None:
        with prefetched(second_rank(maker, tmp_path), Progress()):
            pass

    thread = threading.Thread(target=enter_and_leave, daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_an_epoch_without_targets_is_empty(maker: ExampleMaker, tmp_path: Path) -> None:
    empty = ExampleMaker(
        replace(maker.arrays, targets=np.zeros(0, np.int64)),
        maker._tokenizer,
        maker.config,
    )
    assert len(open_plan(empty, CONFIG, epoch=0, folder=tmp_path)) == 0


def test_the_fingerprint_is_of_the_next_batches(maker: ExampleMaker) -> None:
    plan = plan_epoch(maker, CONFIG, epoch=0)
    last = len(plan) - 1
    assert fingerprint(plan, last) == fingerprint(plan, last, 1)
    assert fingerprint(plan, 0, 2) != fingerprint(plan, 0, 3)
    assert fingerprint(plan, 0) != fingerprint(plan, 1)
    changed = replace(plan, targets=plan.targets.copy())
    changed.targets[int(plan.starts[2])] += 1
    assert fingerprint(changed, 0, 2) == fingerprint(plan, 0, 2)
    assert fingerprint(changed, 0, 3) != fingerprint(plan, 0, 3)


def test_collate_pads_and_counts() -> None:
    batch = collate([np.array([7, 8, 9]), np.array([7])], [np.array([2]), np.array([5, 2])], pad=1)
    assert batch.source_BS.tolist() == [[7, 8, 9], [7, 1, 1]]
    assert batch.target_BT.tolist() == [[2, 1], [5, 2]]
    assert (batch.num_useful, batch.num_target) == (7, 3)
