"""Runs: a loss that falls, exact resume, checkpoints, export, errors."""

import json
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from jupyt5.errors import CheckpointError, TrainingError, UsageError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import read_meta
from jupyt5.model.ct2_engine import Ct2Engine
from jupyt5.model.decoding import DecodeRequest, Engine, Step
from jupyt5.model.export import export_ctranslate2
from jupyt5.model.presets import find_preset
from jupyt5.model.seq2seq import build_model, save_model
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.checkpoints import find_checkpoints
from jupyt5_training.cli import main
from jupyt5_training.loop import TrainingLoop
from jupyt5_training.metrics import read_metrics
from jupyt5_training.prepare import PrepareConfig, prepare
from jupyt5_training.recipes import Recipe, apply_settings, find_recipe
from jupyt5_training.runs import run_recipe


@pytest.fixture(scope="module")
def finished(data: Path, recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "whole"
    run_recipe(recipe, data, out, resume=False)
    return out


def losses(run: Path) -> list[tuple[float, float]]:
    return [(record["step"], record["loss"]) for record in read_metrics(run) if "loss" in record]


def test_a_run_learns_and_leaves_a_checkpoint_folder(finished: Path) -> None:
    validations = [
        record["validation_loss"]
        for record in read_metrics(finished)
        if "validation_loss" in record
    ]
    assert len(validations) == 3
    assert validations[-1] < validations[0] - 0.1
    names = {path.name for path in (finished / "model").iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "jupyt5.json"}
    assert "optimizer.safetensors" not in names
    assert read_meta(finished / "model").metrics["validation_loss"] == validations[-1]
    assert (finished / "loss.png").stat().st_size > 1000
    assert len(find_checkpoints(finished)) == 2


def test_interrupted_and_resumed_equals_uninterrupted(
    data: Path, recipe: Recipe, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in step 6; the resumed losses are the same numbers, dropout included."""
    out = tmp_path / "run"
    make_step = TrainingLoop._do_step

    def interrupt_in_step_6(*args: Any) -> Any:
        if args[0]._progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return make_step(*args)

    monkeypatch.setattr(TrainingLoop, "_do_step", interrupt_in_step_6)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(recipe, data, out, resume=False)
    assert [step for step, _ in losses(out)] == [1, 2, 3, 4, 5, 6]
    monkeypatch.setattr(TrainingLoop, "_do_step", make_step)
    with pytest.raises(TrainingError, match="--resume"):
        run_recipe(recipe, data, out, resume=False)
    run_recipe(recipe, data, out, resume=True)
    assert losses(out) == losses(finished)
    resumed = (out / "model" / "model.safetensors").read_bytes()
    assert resumed == (finished / "model" / "model.safetensors").read_bytes()


def test_a_killed_run_goes_on_from_its_last_checkpoint(
    data: Path, recipe: Recipe, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_step = TrainingLoop._do_step

    class KilledError(Exception):
        pass

    def die_in_step_7(*args: Any) -> Any:
        if args[0]._progress.step == 6:
            raise KilledError
        return make_step(*args)

    monkeypatch.setattr(TrainingLoop, "_do_step", die_in_step_7)
    with pytest.raises(KilledError):
        run_recipe(recipe, data, tmp_path / "run", resume=False)
    monkeypatch.setattr(TrainingLoop, "_do_step", make_step)
    run_recipe(recipe, data, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(finished)


def test_resuming_with_other_settings_is_refused(
    data: Path, recipe: Recipe, finished: Path
) -> None:
    record = (finished / "recipe.json").read_bytes()
    for setting in ("seed=9", "examples.prefix_rate=0.5", "optimizer.name=muon"):
        other = apply_settings(recipe, [setting])
        with pytest.raises(TrainingError, match="differ"):
            run_recipe(other, data, finished, resume=True)
    assert (finished / "recipe.json").read_bytes() == record


def test_a_changed_schedule_is_recorded(
    data: Path, recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_recipe(replace(recipe, steps=4), data, tmp_path / "run", resume=False)
    other = apply_settings(recipe, ["steps=6", "optimizer.peak_lr=0.001"])
    run_recipe(other, data, tmp_path / "run", resume=True)
    assert "settings change after step-00000004" in caplog.text
    record = json.loads((tmp_path / "run" / "recipe.json").read_text("utf-8"))
    assert record["recipe"]["optimizer"]["peak_lr"] == 0.001
    assert record["earlier"][0]["optimizer"]["peak_lr"] == recipe.optimizer.peak_lr


def test_a_run_past_its_steps_is_refused(data: Path, recipe: Recipe, finished: Path) -> None:
    with pytest.raises(TrainingError, match="at step 12 already"):
        run_recipe(replace(recipe, steps=6), data, finished, resume=True)


def test_without_validation_notebooks_a_run_says_so(
    corpus: Path, recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row for row in pq.read_table(corpus / "data").to_pylist() if row["split"] == "train"]
    (tmp_path / "corpus" / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "corpus" / "data" / "part-0.parquet")
    (tmp_path / "corpus" / "manifest.json").write_text("{}")
    prepare(tmp_path / "corpus", tmp_path / "data", PrepareConfig(vocab_size=400))
    summary = run_recipe(replace(recipe, steps=2), tmp_path / "data", tmp_path / "run", resume=True)
    assert "without a validation loss" in caplog.text
    assert "holds no checkpoint" in caplog.text
    assert summary["validation_loss_end"] is None
    assert "validation_loss" not in read_meta(tmp_path / "run" / "model").metrics


def test_bad_settings_name_the_key() -> None:
    recipe = find_recipe("debug")
    assert apply_settings(recipe, ["steps=7", "optimizer.peak_lr=0.1"]).steps == 7
    bad = {
        "steps": "not key=value",
        "nope=1": "nope",
        "steps=x": "a whole number",
        "model=1": "parts",
    }
    for setting, words in bad.items():
        with pytest.raises(UsageError, match=words):
            apply_settings(recipe, [setting])
    with pytest.raises(UsageError, match="no recipe"):
        find_recipe("huge")


def test_settings_that_cannot_work_are_refused(data: Path, recipe: Recipe, tmp_path: Path) -> None:
    for setting, words in {
        "batch_tokens=10": "batch_tokens",
        "model.max_positions=16": "positions",
    }.items():
        with pytest.raises(TrainingError, match=words):
            run_recipe(apply_settings(recipe, [setting]), data, tmp_path / "x", resume=False)
    with pytest.raises(UsageError, match="precision"):
        run_recipe(replace(recipe, precision="int4"), data, tmp_path / "x", resume=False)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "steps=0",
        "eval_every=0",
        "eval_targets=0",
        "save_every=0",
        "seed=-1",
        "model.num_heads=3",
        "examples.formatter.num_context_cells=-1",
        "markdown_target_rate=1.5",
        "optimizer.peak_lr=0",
    ],
)
def test_values_out_of_range_are_usage_errors(
    data: Path, recipe: Recipe, tmp_path: Path, setting: str
) -> None:
    with pytest.raises(UsageError, match=setting.partition("=")[0]):
        run_recipe(apply_settings(recipe, [setting]), data, tmp_path / "x", resume=False)
    assert not (tmp_path / "x").exists()


def test_both_engines_say_the_same(finished: Path, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    export_ctranslate2(finished / "model", tmp_path / "ct2", "float32")
    tokenizer = Tokenizer.load(tmp_path / "ct2" / "tokenizer.json")
    engines: tuple[Engine, Engine] = (
        Ct2Engine(tmp_path / "ct2", tokenizer, num_threads=1),
        TorchEngine(finished / "model", tokenizer),
    )
    for forced in ((), tuple(tokenizer.encode("\nprint("))):
        request = DecodeRequest(
            source_ids=[0, 6, 5, *tokenizer.encode("## Step 1"), 6, 4, 2],
            forced_ids=forced,
            temperature=0,
            max_tokens=12,
        )
        steps = [list(engine.decode(request, threading.Event())) for engine in engines]
        assert [step.token_id for step in steps[0]] == [step.token_id for step in steps[1]]
        assert [step.log_prob for step in steps[0]] == pytest.approx(
            [step.log_prob for step in steps[1]], abs=1e-3
        )
        assert steps[0][-1].finished


def test_rows_that_pad_the_table_are_never_generated(finished: Path, tmp_path: Path) -> None:
    """Of a random model with eight rows a token, nearly every best row is one without a token."""
    torch.set_num_threads(1)
    folder = tmp_path / "padded"
    shutil.copytree(finished / "model", folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    shape = find_preset("debug", vocab_size=8 * tokenizer.vocab_size)
    save_model(build_model(shape, tokenizer.special, seed=0), folder)
    export_ctranslate2(folder, tmp_path / "ct2", "float32")
    request = DecodeRequest(
        source_ids=tokenizer.encode("import"), n=4, temperature=1.0, seed=0, max_tokens=16
    )
    for engine in (TorchEngine(folder, tokenizer), Ct2Engine(tmp_path / "ct2", tokenizer)):
        ids = [step.token_id for step in engine.decode(request, threading.Event())]
        assert len(ids) > 4
        assert all(idx is None or idx < tokenizer.vocab_size for idx in ids)


@pytest.mark.parametrize("runtime", ["int8", "torch"])
def test_a_seed_decides_the_hypotheses(finished: Path, tmp_path: Path, runtime: str) -> None:
    torch.set_num_threads(1)
    folder = finished / "model"
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    engine: Engine = TorchEngine(folder, tokenizer)
    if runtime == "int8":
        export_ctranslate2(folder, tmp_path / "ct2", "int8")
        engine = Ct2Engine(tmp_path / "ct2", tokenizer, num_threads=1)

    def draw(seed: int) -> list[list[int | None]]:
        request = DecodeRequest(source_ids=[0, 6, 6, 4, 2], n=3, seed=seed, max_tokens=8)
        ids: dict[int, list[int | None]] = {}
        for step in engine.decode(request, threading.Event()):
            ids.setdefault(step.hypothesis_idx, []).append(step.token_id)
        return [ids[idx] for idx in range(3)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert draw(1)[0] != draw(1)[1]
    assert not {idx for row in draw(3) for idx in row} & (tokenizer.special_id_set - {2})


def test_seeds_hold_when_requests_run_at_once(finished: Path, tmp_path: Path) -> None:
    export_ctranslate2(finished / "model", tmp_path / "ct2", "int8")
    tokenizer = Tokenizer.load(tmp_path / "ct2" / "tokenizer.json")
    engine = Ct2Engine(tmp_path / "ct2", tokenizer, num_threads=1)

    def draw(seed: int) -> list[int | None]:
        request = DecodeRequest(
            source_ids=[0, 6, 6, 4, 2], forced_ids=[300], seed=seed, max_tokens=8
        )
        return [step.token_id for step in engine.decode(request, threading.Event())]

    one_by_one = [draw(seed) for seed in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(draw, range(12))) == one_by_one


@pytest.mark.parametrize("runtime", ["int8", "torch"])
def test_cancelling_stops_within_a_step(finished: Path, tmp_path: Path, runtime: str) -> None:
    folder = finished / "model"
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    engine: Engine = TorchEngine(folder, tokenizer)
    if runtime == "int8":
        export_ctranslate2(folder, tmp_path / "ct2", "int8")
        engine = Ct2Engine(tmp_path / "ct2", tokenizer, num_threads=1)
    cancel = threading.Event()
    steps: list[Step] = []
    request = DecodeRequest(source_ids=[0, 6, 6, 4, 2], n=1, seed=4, max_tokens=30)
    for step in engine.decode(request, cancel):
        steps.append(step)
        cancel.set()
    assert len(steps) == 1
    assert not [t for t in threading.enumerate() if t.name == "jupyt5-decode"]


def test_export_refuses_what_it_cannot_do(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="int8"):
        export_ctranslate2(finished / "model", tmp_path / "x", "int2")
    with pytest.raises(CheckpointError, match=r"jupyt5\.json"):
        export_ctranslate2(tmp_path, tmp_path / "x", "int8")
    assert not list(tmp_path.iterdir())


def test_the_command_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    args = ["run", "debug", "--data", str(data), "--out", str(out), "--json"]
    settings = ["--set", "steps=3", "--set", "eval_targets=4", "--set", "num_threads=1"]
    assert main([*args, *settings]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["steps"] == 3
    assert Path(summary["curve"]).is_file()
    assert main([*args, *settings]) == 1
    assert "--resume" in capsys.readouterr().err
    assert main(["run", "huge", "--data", str(data), "--out", str(out)]) == 2
    assert main([*args[:-2], str(tmp_path / "y"), "--set", "num_threads=-1"]) == 2
    assert "num_threads" in capsys.readouterr().err
    assert main(["run", "debug", "--data", str(tmp_path), "--out", str(tmp_path / "y")]) == 1
    assert "jupyt5-train prepare" in capsys.readouterr().err
    assert not (tmp_path / "y").exists()


def test_a_run_starts_from_another_runs_weights(
    data: Path, recipe: Recipe, finished: Path, tmp_path: Path
) -> None:
    short = replace(recipe, steps=1, optimizer=replace(recipe.optimizer, warmup_steps=100))
    parent = finished / "model"
    run_recipe(short, data, tmp_path / "run", resume=False, init_from=parent)
    assert losses(tmp_path / "run")[0][1] < losses(finished)[0][1] - 0.1
    meta = read_meta(tmp_path / "run" / "model")
    assert meta.parents[0]["name"] == "debug"
    assert meta.parents[0]["sha256"] == sha256_file(parent / "model.safetensors")
    # Whatever is given on resume, the run keeps its one parent.
    more = replace(short, steps=2)
    run_recipe(more, data, tmp_path / "run", resume=True, init_from=tmp_path / "gone")
    assert read_meta(tmp_path / "run" / "model").parents == meta.parents
    run_recipe(replace(more, steps=3), data, tmp_path / "run", resume=True)
    assert read_meta(tmp_path / "run" / "model").parents == meta.parents
    other = apply_settings(recipe, ["model.d_model=64"])
    with pytest.raises(TrainingError, match=r"model\.d_model=32"):
        run_recipe(other, data, tmp_path / "x", resume=False, init_from=parent)
    with pytest.raises(CheckpointError, match=r"jupyt5\.json"):
        run_recipe(recipe, data, tmp_path / "x", resume=False, init_from=tmp_path)
    assert not (tmp_path / "x").exists()
