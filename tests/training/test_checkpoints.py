"""Checkpoints of one process: exact, whole or passed over, never unpickled."""

import errno
import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.model.checkpoint import CheckpointMeta, FormatterSettings, read_meta
from jupyt5.model.presets import find_preset
from jupyt5.model.seq2seq import build_model, load_model
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.checkpoints import (
    CheckpointWriter,
    Progress,
    export_model,
    find_checkpoints,
    restore,
)
from jupyt5_training.shards import MANIFEST_NAME, ShardWriter

META = CheckpointMeta(name="tiny", formatter=FormatterSettings())
Optimizers = list[torch.optim.Optimizer]


@pytest.fixture(scope="module")
def tokenizer(data: Path) -> Tokenizer:
    torch.set_num_threads(1)
    return Tokenizer.load(data / "tokenizer.json")


def build(tokenizer: Tokenizer, seed: int) -> BartForConditionalGeneration:
    shape = replace(
        find_preset("debug"), vocab_size=tokenizer.vocab_size, d_model=16, ffn_dim=32, num_heads=2
    )
    model = build_model(shape, tokenizer.special, seed=seed)
    return model.eval()  # no dropout


def build_optimizers(model: BartForConditionalGeneration) -> Optimizers:
    """Return Muon for the hidden matrices and fused AdamW for the rest, as recipes may have it."""
    named = dict(model.named_parameters())
    matrices = [tensor for name, tensor in named.items() if tensor.ndim == 2 and "layers" in name]
    rest = [tensor for name, tensor in named.items() if not (tensor.ndim == 2 and "layers" in name)]
    return [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=3e-3, fused=True)]


def step(model: BartForConditionalGeneration, optimizers: Optimizers, number: int) -> float:
    generator = torch.Generator().manual_seed(number)
    ids_BS = torch.randint(10, 300, (2, 9), generator=generator)
    loss = model(input_ids=ids_BS, labels=ids_BS).loss
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


class Run:
    """A model in training, and a run's folder."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, *, seed: int = 0, keep: int = 2) -> None:
        self.folder, self.tokenizer = folder, tokenizer
        self.model = build(tokenizer, seed)
        self.optimizers = build_optimizers(self.model)
        self.writer = CheckpointWriter(folder, keep=keep)
        self.step = 0

    def train(self, to_step: int) -> list[float]:
        losses = []
        while self.step < to_step:
            self.step += 1
            losses.append(step(self.model, self.optimizers, self.step))
        return losses

    def save(self) -> None:
        self.writer.save(
            self.model,
            self.optimizers,
            Progress(step=self.step, batch_idx=self.step, loss_scale=8.0),
            tokenizer=self.tokenizer,
            meta=META,
        )

    def restore(self) -> Progress | None:
        progress = restore(self.folder, self.model, self.optimizers)
        self.step = progress.step if progress else 0
        return progress


@pytest.fixture(scope="module")
def made(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at steps 2 and 4."""
    run = Run(tmp_path_factory.mktemp("checkpoints") / "run", tokenizer)
    for number in (2, 4):
        run.train(number)
        run.save()
    run.writer.wait()
    return run.folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def shard_of(folder: Path) -> Path:
    (path,) = folder.glob("shard-*.safetensors")
    return path


def test_the_saved_state_is_that_of_the_call_and_continues_exactly(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    run = Run(tmp_path, tokenizer)
    run.train(3)
    run.save()
    expected = run.train(6)  # while the thread writes
    run.writer.wait()
    other = Run(tmp_path, tokenizer, seed=1)
    assert other.restore() == Progress(step=3, batch_idx=3, loss_scale=8.0)
    assert other.train(6) == expected
    assert other.restore() == Progress(step=3, batch_idx=3, loss_scale=8.0)  # a rollback
    assert other.train(6) == expected


def test_a_new_run_has_nothing_to_restore(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert Run(tmp_path, tokenizer).restore() is None
    with pytest.raises(TrainingError, match="no checkpoint to export"):
        export_model(tmp_path, tmp_path / "model")


def test_rates_come_from_the_recipe(copy: Path, tokenizer: Tokenizer) -> None:
    run = Run(copy, tokenizer)
    for optimizer in run.optimizers:
        optimizer.param_groups[0]["lr"] = 0.5
    run.restore()
    assert [optimizer.param_groups[0]["lr"] for optimizer in run.optimizers] == [0.5, 0.5]


def test_the_newest_are_kept(tokenizer: Tokenizer, tmp_path: Path) -> None:
    run = Run(tmp_path, tokenizer, keep=2)
    leftover = tmp_path / "checkpoints" / ".step-00000009.tmp"
    leftover.mkdir(parents=True)
    run.writer = CheckpointWriter(tmp_path, keep=2)
    assert not leftover.exists()
    for number in (1, 2, 3, 3):  # the last one replaces, as after a rollback
        run.train(number)
        run.save()
    run.writer.wait()
    names = [path.name for path in sorted((tmp_path / "checkpoints").iterdir())]
    assert names == ["step-00000002", "step-00000003"]


def truncate(folder: Path) -> None:
    path = shard_of(folder)
    path.write_bytes(path.read_bytes()[:-1000])


def flip_bit(folder: Path) -> None:
    content = bytearray(shard_of(folder).read_bytes())
    content[-5000] ^= 4
    shard_of(folder).write_bytes(content)


def change_counters(folder: Path) -> None:
    path = folder / "state.json"
    path.write_text(path.read_text().replace('"step": 4', '"step": 5'))


def plant_shard(folder: Path) -> None:
    shutil.copyfile(shard_of(folder), folder / "shard-00002-model-00001-of-00001.safetensors")


def point_outside(folder: Path) -> None:
    path = folder / MANIFEST_NAME
    path.write_text(path.read_text().replace("state.json", "../x.json"))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (truncate, "bytes instead of"),
        (flip_bit, "was changed"),
        (lambda folder: shard_of(folder).unlink(), "is missing"),
        (change_counters, "state.json was changed"),
        (plant_shard, "is not in manifest"),
        (point_outside, "not the name of a file"),
        (lambda folder: (folder / MANIFEST_NAME).write_text("{"), "manifest.json is missing"),
        (lambda folder: (folder / MANIFEST_NAME).write_text('{"files": [{"a": 1}]}'), "damaged"),
        (lambda folder: (folder / MANIFEST_NAME).unlink(), "manifest.json is missing"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(
    copy: Path,
    tokenizer: Tokenizer,
    caplog: pytest.LogCaptureFixture,
    harm: Callable[[Path], object],
    words: str,
) -> None:
    harm(copy / "checkpoints" / "step-00000004")
    run = Run(copy, tokenizer)
    progress = run.restore()
    assert progress is not None
    assert progress.step == 2
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "step-00000004 is damaged and passed over" in record.getMessage()
    assert words in record.getMessage()
    assert [path.name for path in find_checkpoints(copy)] == ["step-00000002"]
    assert (copy / "checkpoints" / "damaged-step-00000004").is_dir()


def test_a_damaged_checkpoint_goes_when_it_is_the_oldest(copy: Path, tokenizer: Tokenizer) -> None:
    truncate(copy / "checkpoints" / "step-00000004")
    run = Run(copy, tokenizer)
    run.restore()
    for number in (4, 6):
        run.train(number)
        run.save()
    run.writer.wait()
    assert (copy / "checkpoints" / "damaged-step-00000004").is_dir()
    run.train(7)
    run.save()
    run.writer.wait()
    names = [path.name for path in sorted((copy / "checkpoints").iterdir())]
    assert names == ["step-00000006", "step-00000007"]


def test_nothing_whole_is_an_error_not_a_new_start(copy: Path, tokenizer: Tokenizer) -> None:
    for path in find_checkpoints(copy):
        truncate(path)
    for _ in range(2):  # torchrun and Slurm start it again
        with pytest.raises(TrainingError, match="No checkpoint in"):
            Run(copy, tokenizer).restore()


def test_a_checkpoint_of_another_model_is_refused(
    copy: Path, tokenizer: Tokenizer, data: Path
) -> None:
    run = Run(copy, tokenizer)
    shape = replace(
        find_preset("debug"), vocab_size=tokenizer.vocab_size, d_model=24, ffn_dim=32, num_heads=2
    )
    run.model = build_model(shape, tokenizer.special, seed=0)
    run.optimizers = build_optimizers(run.model)
    with pytest.raises(TrainingError, match="does not fit this run: Size mismatch"):
        run.restore()
    assert len(find_checkpoints(copy)) == 2  # it is not damaged
    with pytest.raises(TrainingError, match="does not fit this run: Missing key"):
        restore(copy, run.model, run.optimizers, average=build(tokenizer, 0))


def test_checkpoints_of_earlier_versions_are_refused(copy: Path, tokenizer: Tokenizer) -> None:
    (copy / "checkpoints" / "step-00000004" / "optimizer.safetensors").touch()
    with pytest.raises(TrainingError, match="--init-from"):
        Run(copy, tokenizer).restore()


def test_nothing_is_unpickled(
    copy: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        message = "unpickled"
        raise AssertionError(message)

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    run = Run(copy, tokenizer)
    assert run.restore() is not None
    export_model(copy, copy / "model")
    suffixes = {path.suffix for path in find_checkpoints(copy)[-1].iterdir()}
    assert suffixes == {".json", ".safetensors"}


def test_export_makes_a_checkpoint_folder(copy: Path, tokenizer: Tokenizer) -> None:
    run = Run(copy, tokenizer)
    run.restore()
    state = torch.get_rng_state()
    assert export_model(copy, copy / "model").name == "step-00000004"
    assert torch.equal(torch.get_rng_state(), state)
    names = {path.name for path in (copy / "model").iterdir()}
    files = {"config.json", "model.safetensors", "tokenizer.json", "jupyt5.json"}
    assert names == files | {"generation_config.json"}
    loaded = load_model(copy / "model").state_dict()
    assert all(torch.equal(loaded[key], value) for key, value in run.model.state_dict().items())
    assert read_meta(copy / "model") == META
    export_model(copy, copy / "model")  # replaces


def test_the_average_is_saved_restored_and_exported(tokenizer: Tokenizer, tmp_path: Path) -> None:
    run, average = Run(tmp_path, tokenizer), build(tokenizer, 7)
    run.train(1)
    run.writer.save(
        run.model,
        run.optimizers,
        Progress(step=1),
        tokenizer=tokenizer,
        meta=META,
        average=average,
    )
    run.writer.wait()
    other, restored = Run(tmp_path, tokenizer, seed=2), build(tokenizer, 8)
    restore(tmp_path, other.model, other.optimizers, average=restored)
    assert torch.equal(restored.lm_head.weight, average.lm_head.weight)
    assert torch.equal(other.model.lm_head.weight, run.model.lm_head.weight)
    export_model(tmp_path, tmp_path / "model")
    assert torch.equal(load_model(tmp_path / "model").lm_head.weight, average.lm_head.weight)


@pytest.mark.parametrize("where", ["shard", "small file", "rename"])
def test_a_full_disk_is_a_message_and_leaves_the_last_checkpoint(
    copy: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise full

    run = Run(copy, tokenizer)
    run.restore()
    if where == "shard":
        monkeypatch.setattr(ShardWriter, "write_data", fail)
    elif where == "small file":
        monkeypatch.setattr(type(tokenizer), "save", fail)
    else:
        monkeypatch.setattr("jupyt5_training.shards._replace_folder", fail)
    run.train(5)
    run.save()
    with pytest.raises(TrainingError, match=r"No space left on device\. The ones before are whole"):
        run.writer.wait()
    names = [path.name for path in sorted((copy / "checkpoints").iterdir())]
    assert names == ["step-00000002", "step-00000004"]
    monkeypatch.undo()
    run.save()  # once there is space again
    run.writer.wait()
    assert json.loads((find_checkpoints(copy)[-1] / "state.json").read_text())["step"] == 5
