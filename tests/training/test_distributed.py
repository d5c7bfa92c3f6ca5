"""Several ranks: the same steps as one makes, whatever they share."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from jupyt5.errors import UsageError
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.metrics import read_metrics
from jupyt5_training.recipes import Recipe, apply_settings, find_recipe
from jupyt5_training.runs import load_job, run_recipe
from jupyt5_training.stopping import StopKind

SETTINGS = (
    "steps=6",
    "micro_batches=4",
    "batch_tokens=512",
    "eval_every=3",
    "eval_targets=16",
    "save_every=3",
    "num_threads=1",
    "model.d_model=32",
    "model.dropout=0.1",
    "examples.formatter.source_budget_tokens=96",
    "examples.formatter.max_target_tokens=32",
)
MODES = {
    "ddp": (),
    "fsdp": ("parallel=fsdp", "ema_decay=0.9"),
    "muon": ("optimizer.name=muon", "ema_decay=0.9"),
}


def small_recipe(*settings: str) -> Recipe:
    return apply_settings(find_recipe("debug"), [*SETTINGS, *settings])


def figures(run: Path, name: str) -> list[float]:
    return [record[name] for record in read_metrics(run) if name in record]


@pytest.fixture(scope="module")
def two_ranks(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    runs = [
        ["run", "debug", "--data", str(data), "--out", str(folder / mode)]
        + [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
        for mode, settings in MODES.items()
    ]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = Path(__file__).parent / "two_ranks.py"
    subprocess.run(
        [*command, "--nproc-per-node", "2", str(script), json.dumps(runs)],
        check=True,
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_losses_equal_those_of_one_rank(
    data: Path, two_ranks: Path, tmp_path: Path, mode: str
) -> None:
    """Dropout included. The order of sums differs, so float32 allows for 1e-6 or so a step."""
    settings = [setting for setting in MODES[mode] if not setting.startswith("parallel")]
    run_recipe(small_recipe(*settings), data, tmp_path / "one", resume=False)
    for name in ("loss", "validation_loss", "grad_norm"):
        assert figures(two_ranks / mode, name) == pytest.approx(
            figures(tmp_path / "one", name), rel=2e-5
        )
    assert figures(two_ranks / mode, "tokens") == figures(tmp_path / "one", "tokens")
    orders = [
        [record["detail"] for record in read_metrics(run) if record.get("event") == "order"]
        for run in (two_ranks / mode, tmp_path / "one")
    ]
    assert orders[0] == orders[1]


def test_ranks_share_the_micro_batches_of_every_step(data: Path, tmp_path: Path) -> None:
    def first_steps(world_size: int) -> list[list[list[int]]]:
        feeds = [
            load_job(
                small_recipe(),
                data,
                tmp_path,
                ranks=Ranks(rank=rank, world_size=world_size),
            ).feed.steps(Progress())
            for rank in range(world_size)
        ]
        steps = []
        for _ in range(30):  # past the end of the epoch
            parts = [next(feed).micro_batches for feed in feeds]
            shared = [parts[idx % world_size][idx // world_size] for idx in range(4)]
            steps.append([[part.epoch, part.batch_idx, part.batch.num_useful] for part in shared])
        return steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jupyt5_training.runs.spread", lambda module, *_: module)
        steps = first_steps(1)
        assert steps == first_steps(2) == first_steps(4)
    places = [tuple(part[:2]) for step in steps for part in step]
    assert places == sorted(places)
    assert places[-1][0] >= 1
    assert len(set(places)) == len(places)


def test_ranks_that_cannot_share_are_refused(data: Path, tmp_path: Path) -> None:
    three = Ranks(rank=0, world_size=3)
    with pytest.raises(UsageError, match="micro_batches=3"):
        load_job(small_recipe(), data, tmp_path, ranks=three)
    for setting in ("optimizer.name=muon", "precision=float16", "compile=true"):
        recipe = small_recipe("parallel=fsdp", setting)
        with pytest.raises(UsageError, match=f"fsdp does not go with {setting}"):
            load_job(recipe, data, tmp_path, ranks=Ranks())


def test_micro_batches_add_up_to_the_large_batch(data: Path, tmp_path: Path) -> None:
    """The gradient of four micro-batches is that of their examples taken together."""
    job = load_job(small_recipe("model.dropout=0"), data, tmp_path, ranks=Ranks())
    step = next(job.feed.steps(Progress()))
    nlls, num_target = [], 0
    for part in step.micro_batches:
        source_BS = torch.from_numpy(part.batch.source_BS)
        nlls.append(job.stepper.module(source_BS, torch.from_numpy(part.batch.target_BT))[0])
        num_target += part.batch.num_target
    (torch.stack(nlls).sum() / num_target).backward()
    grads = [weight.grad for weight in job.model.parameters() if weight.grad is not None]
    norm = float(torch.stack([grad.square().sum() for grad in grads]).sum().sqrt())
    seen: dict[str, float] = {}

    def refuse(loss: float, grad_norm: float) -> bool:
        seen.update(loss=loss, grad_norm=grad_norm)
        return False

    result = job.stepper.run(step, factor=1.0, stop_kind=lambda: StopKind.NONE, accept=refuse)
    assert result.num_target == num_target
    assert seen["loss"] == pytest.approx(torch.stack(nlls).sum().item() / num_target, rel=1e-6)
    assert seen["grad_norm"] == pytest.approx(norm, rel=1e-5)


def test_smoothing_changes_what_is_minimised_not_what_is_logged(data: Path, tmp_path: Path) -> None:
    plain, smooth = (
        load_job(small_recipe("model.dropout=0", setting), data, tmp_path, ranks=Ranks())
        for setting in ("label_smoothing=0", "label_smoothing=0.2")
    )
    part = next(plain.feed.steps(Progress())).micro_batches[0].batch
    ids = torch.from_numpy(part.source_BS), torch.from_numpy(part.target_BT)
    loss, nll = plain.stepper.module(*ids)
    smoothed, same_nll = smooth.stepper.module(*ids)
    assert nll.item() == same_nll.item() == loss.item()
    assert smoothed.item() != loss.item()
    assert replace(plain.recipe, label_smoothing=0.2) == smooth.recipe
