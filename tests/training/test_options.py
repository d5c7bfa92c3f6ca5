"""Optimizers, precision, average of weights, guard: in whole runs."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from jupyt5.errors import TrainingError, UsageError
from jupyt5.model.checkpoint import read_meta
from jupyt5.model.presets import find_preset
from jupyt5_training import runs
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.flops import count_flops, find_peak
from jupyt5_training.guard import GuardConfig
from jupyt5_training.handover import HandoverConfig
from jupyt5_training.loop import TrainingLoop, restore_job
from jupyt5_training.metrics import read_metrics
from jupyt5_training.optimizers import build_optimizers, set_rates
from jupyt5_training.recipe_checks import check_recipe
from jupyt5_training.recipes import RECIPES, Recipe, apply_settings, find_recipe
from jupyt5_training.runs import load_job, run_recipe
from jupyt5_training.stopping import StopKind

_LOOK = """
import os, sys

class Look:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))

sys.meta_path.insert(0, Look())
from jupyt5_training.cli import main
sys.exit(main(sys.argv[1:]))
"""


def losses(run: Path) -> list[tuple[int, float]]:
    return [(record["step"], record["loss"]) for record in read_metrics(run) if "loss" in record]


@pytest.mark.parametrize(
    "settings",
    [
        ["optimizer.name=muon", "ema_decay=0.8"],
        ["precision=float16"],
        ["optimizer.schedule=constant", "optimizer.cooldown_steps=2", "optimizer.decay_every=3"],
    ],
)
def test_resuming_is_exact(data: Path, recipe: Recipe, tmp_path: Path, settings: list[str]) -> None:
    recipe = apply_settings(recipe, ["steps=6", "eval_every=6", *settings])
    run_recipe(recipe, data, tmp_path / "whole", resume=False)
    run_recipe(replace(recipe, steps=3), data, tmp_path / "parts", resume=False)
    run_recipe(recipe, data, tmp_path / "parts", resume=True)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    models = [tmp_path / name / "model" / "model.safetensors" for name in ("parts", "whole")]
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.slow
def test_threads_are_told_not_to_spin_before_torch_is_loaded(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    no_data = ["run", "debug", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]
    command = [sys.executable, "-c", _LOOK, *no_data]
    shown = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert shown.returncode == 1, shown.stderr
    assert shown.stdout == "PASSIVE\n"


def test_float16_scales_the_loss(data: Path, recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(replace(recipe, steps=4, precision="float16"), data, tmp_path / "a", resume=False)
    run_recipe(replace(recipe, steps=4), data, tmp_path / "b", resume=False)
    scales = [record["loss_scale"] for record in read_metrics(tmp_path / "a") if "loss" in record]
    assert scales == [65536.0] * 4
    state = tmp_path / "a" / "checkpoints" / "step-00000004" / "state.json"
    assert json.loads(state.read_text("utf-8"))["loss_scale"] == 65536.0
    assert json.loads(state.read_text("utf-8"))["growth_tracker"] == 4
    pairs = zip(losses(tmp_path / "a"), losses(tmp_path / "b"), strict=True)
    for (_, short), (_, full) in pairs:
        assert short == pytest.approx(full, abs=5e-3)


def test_the_average_is_exported_and_lies_between(
    data: Path, recipe: Recipe, tmp_path: Path
) -> None:
    recipe = replace(recipe, steps=4, eval_every=4, ema_decay=0.5)
    run_recipe(recipe, data, tmp_path / "run", resume=False)
    name = "model.encoder.layers.0.fc1.weight"
    exported = load_file(tmp_path / "run" / "model" / "model.safetensors")[name]
    job = load_job(recipe, data, tmp_path / "run", ranks=Ranks())
    start = dict(job.model.named_parameters())[name].detach().clone()
    assert restore_job(job) is not None
    last = dict(job.model.named_parameters())[name].detach()
    ratio = float((exported - start).norm() / (last - start).norm())
    assert 0.3 < ratio < 0.95


def test_muon_takes_the_matrices_inside_the_layers(data: Path, recipe: Recipe) -> None:
    config = apply_settings(recipe, ["optimizer.name=muon", "optimizer.muon_lr=0.02"]).optimizer
    job = load_job(recipe, data, Path("unused"), ranks=Ranks())
    muon, adamw = optimizers = build_optimizers(job.model, config)
    sizes = [
        sum(weight.numel() for group in part.param_groups for weight in group["params"])
        for part in optimizers
    ]
    assert sum(sizes) == sum(weight.numel() for weight in job.model.parameters())
    named = job.model.named_parameters()
    inside = sum(w.numel() for name, w in named if ".layers." in name and w.ndim == 2)
    assert sizes[0] == inside
    set_rates(optimizers, config, 0.5)
    assert muon.param_groups[0]["lr"] == 0.01
    assert {group["lr"] for group in adamw.param_groups} == {config.peak_lr / 2}


def poison_after(patch: pytest.MonkeyPatch, is_due: Any) -> list[int]:
    """Break the weights after the steps for which ``is_due`` of how often it was asked says so."""
    make_step, calls = TrainingLoop._do_step, []

    def step_and_break(self: TrainingLoop, *args: Any) -> Any:
        result = make_step(self, *args)
        calls.append(self._progress.step)
        if is_due(len(calls)):
            with torch.no_grad():
                next(self._job.model.parameters()).fill_(math.nan)
        return result

    patch.setattr(TrainingLoop, "_do_step", step_and_break)
    return calls


def test_broken_weights_are_rolled_back(
    data: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = poison_after(monkeypatch, lambda count: count == 6)
    guarded = replace(recipe, guard=GuardConfig(max_bad_steps=1))
    run_recipe(guarded, data, tmp_path / "run", resume=False)
    assert calls == [1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11, 12]
    records = read_metrics(tmp_path / "run")
    assert [record["step"] for record in records if "loss" in record] == list(range(1, 13))
    assert all(math.isfinite(loss) for _, loss in losses(tmp_path / "run"))
    (event,) = [record for record in records if record.get("event") == "rollback"]
    assert event["step"] == 4
    assert "from step 8: its loss is nan" in event["detail"]


def test_a_run_that_stays_broken_ends_with_advice(
    data: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_after(monkeypatch, lambda count: count >= 5)
    guarded = replace(recipe, guard=GuardConfig(max_bad_steps=1, max_rollbacks=2))
    with pytest.raises(TrainingError, match=r"Lower --set optimizer\.peak_lr"):
        run_recipe(guarded, data, tmp_path / "run", resume=False)


def test_a_run_that_is_broken_before_its_first_checkpoint_says_so(
    data: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison_after(monkeypatch, lambda count: count == 1)
    guarded = replace(recipe, guard=GuardConfig(max_bad_steps=1))
    with pytest.raises(TrainingError, match="no checkpoint to go back to"):
        run_recipe(guarded, data, tmp_path / "run", resume=False)


def test_every_recipe_can_run() -> None:
    for name in RECIPES:
        recipe = find_recipe(name)
        assert recipe.name == name
        check_recipe(recipe, world_size=1)
    check_recipe(find_recipe("large-v100"), world_size=80)
    check_recipe(find_recipe("large"), world_size=8)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["optimizer.schedule=linear"], "inverse-sqrt, cosine, constant"),
        (["optimizer.name=lion"], "adamw, muon"),
        (["optimizer.schedule=cosine", "optimizer.cooldown_steps=5"], "cosine ends at 0"),
        (["optimizer.decay_every=50"], "schedule=constant"),
        (["compile=yes"], "true or false"),
        (["guard.window=1"], r"guard\.window"),
        (["examples.context_draw=some"], "fixed, random"),
        (["optimizer.beta1=1"], r"optimizer\.beta1"),
        (["optimizer.beta2=-0.1"], r"optimizer\.beta2"),
        (["optimizer.eps=nan"], r"optimizer\.eps"),
        (["optimizer.weight_decay=-1"], r"optimizer\.weight_decay"),
        (["optimizer.max_grad_norm=-1"], r"optimizer\.max_grad_norm"),
        (["optimizer.muon_momentum=5"], r"optimizer\.muon_momentum"),
        (["optimizer.peak_lr=inf"], r"optimizer\.peak_lr"),
        (["keep_checkpoints=0"], "keep_checkpoints"),
        (["dsp_samples=0"], "dsp_samples"),
        (["seed=99999999999999999999"], "seed"),
        (["model.decoder_layers=0"], r"model\.decoder_layers"),
        (["model.ffn_dim=0"], r"model\.ffn_dim"),
    ],
)
def test_settings_that_do_not_fit_are_usage_errors(settings: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_recipe(apply_settings(find_recipe("debug"), settings), world_size=1)


def test_epochs_become_steps(data: Path, recipe: Recipe, tmp_path: Path) -> None:
    whole = replace(recipe, epochs=1, micro_batches=8, eval_every=1000, eval_targets=4)
    run_recipe(whole, data, tmp_path / "run", resume=False)
    job = load_job(whole, data, tmp_path / "run", ranks=Ranks())
    num_batches = len(job.feed.open_plan(0))
    assert losses(tmp_path / "run")[-1][0] == job.recipe.steps == num_batches // 8
    progress = restore_job(job)
    assert progress is not None
    assert (progress.epoch, progress.batch_idx) == (0, num_batches // 8 * 8)


def test_flops_of_bart_large_are_those_on_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = replace(find_preset("large"), vocab_size=50_265)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    count = count_flops(shape, peak=find_peak(torch.device("cuda")))
    # An encoder of 151M weights and a decoder of 201.5M, of which 25M read the source.
    assert count.source == pytest.approx(6 * 176.2e6, rel=0.01)
    assert count.target == pytest.approx(6 * 227.6e6, rel=0.01)
    share = count.utilisation(1000, 250, 0.01, 1)
    assert share == pytest.approx((count.source * 1000 + count.target * 250) / 9.89e12)
    assert count_flops(shape, peak=find_peak(torch.device("cpu"))).utilisation(1, 1, 1.0, 1) is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of its own parts
def test_a_compiled_model_learns_the_same(data: Path, recipe: Recipe, tmp_path: Path) -> None:
    found: list[list[float]] = []
    for compiled in (False, True):
        settings = replace(recipe, compile=compiled, model=replace(recipe.model, dropout=0.0))
        job = load_job(settings, data, tmp_path, ranks=Ranks())
        steps = job.feed.steps(Progress())
        found.append(
            [
                job.stepper.run(
                    next(steps),
                    factor=1.0,
                    stop_kind=lambda: StopKind.NONE,
                    accept=lambda *_: True,
                ).loss
                for _ in range(3)
            ]
        )
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_dsp_eval_gets_the_weights_of_its_step(
    data: Path, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, list[str]]] = []

    class Recorder:
        def __init__(self, run: Path, config: HandoverConfig) -> None:
            assert config.num_samples == 3

        def start(self, step: int, save: Callable[[Path], None]) -> None:
            folder = tmp_path / f"step-{step}"
            folder.mkdir()
            save(folder)
            assert read_meta(folder).metrics["steps"] == step
            started.append((step, sorted(path.name for path in folder.iterdir())))

        def poll(self) -> list[dict[str, float]]:
            return []

        def finish(self) -> list[dict[str, float]]:
            return [{"step": 4, "dsp_pass_at_1": 0.25}]

        def close(self) -> None:
            started.append((0, []))

    monkeypatch.setattr(runs, "DspHandover", Recorder)
    recipe = apply_settings(recipe, ["steps=5", "dsp_every=2", "dsp_samples=3"])
    with pytest.raises(UsageError, match="go together"):
        run_recipe(recipe, data, tmp_path / "run", resume=False)
    run_recipe(recipe, data, tmp_path / "run", resume=False, dsp_problems=tmp_path)
    assert [step for step, _ in started] == [2, 4, 0]
    assert {"model.safetensors", "jupyt5.json", "tokenizer.json"} <= set(started[0][1])
    assert {"step": 4, "dsp_pass_at_1": 0.25} in read_metrics(tmp_path / "run")
