"""A model in CTranslate2's format is read back into torch: what --init-from nano begins with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BartForConditionalGeneration

from jupyt5.errors import CheckpointError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import CheckpointMeta, FormatterSettings, write_meta
from jupyt5.model.ct2_weights import load_exported_model
from jupyt5.model.export import export_ctranslate2
from jupyt5.model.presets import find_preset
from jupyt5.model.seq2seq import build_model, load_model, save_model
from jupyt5.providers.places import bundled_folders
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.cli import main
from jupyt5_training.models import initial_model
from jupyt5_training.recipes import find_recipe

NANO = bundled_folders()[0]
WEIGHTS = Path(__file__).parents[2] / "training" / "weights" / "nano"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, every vector of them too."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = Tokenizer.load(NANO / "tokenizer.json")
    shape = replace(
        find_preset("debug"), encoder_layers=2, decoder_layers=3, vocab_size=tokenizer.vocab_size
    )
    model = build_model(shape, tokenizer.special, seed=1)
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data += 0.1 * noise
    save_model(model, folder)
    tokenizer.save(folder / "tokenizer.json")
    write_meta(folder, CheckpointMeta(name="tiny", formatter=FormatterSettings()))
    return folder


def answer(model: BartForConditionalGeneration) -> torch.Tensor:
    source, target = torch.arange(20, 60)[None], torch.arange(30, 50)[None]
    with torch.no_grad():
        return model.eval()(input_ids=source, decoder_input_ids=target).logits


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-5), ("int8", 0.15)])
def test_there_and_back(checkpoint: Path, tmp_path: Path, quantization: str, tolerance: float):
    export_ctranslate2(checkpoint, tmp_path / "out", quantization)
    want, got = answer(load_model(checkpoint)), answer(load_exported_model(tmp_path / "out"))
    assert (want - got).abs().max() < tolerance * want.abs().max()


def test_the_bundled_model_is_the_one_it_was_made_from():
    want, got = load_model(WEIGHTS).state_dict(), load_exported_model(NANO).state_dict()
    assert want.keys() == got.keys()
    for name, tensor in want.items():
        rows = slice(2, None) if "embed_positions" in name else slice(None)
        largest = tensor[rows].abs().amax(-1, keepdim=True) if tensor.ndim > 1 else tensor.abs()
        error = (tensor[rows] - got[name][rows]).abs()
        # Half a step of the row's int8 scale, and what float16 took away.
        assert bool((error <= largest * (0.5 / 127 + 1e-3) + 1e-4).all()), name


def test_a_run_starts_from_it():
    tokenizer = Tokenizer.load(NANO / "tokenizer.json")
    recipe = find_recipe("nano")
    model, parents = initial_model(recipe, tokenizer, NANO)
    assert parents[0] == {"name": "nano", "sha256": sha256_file(NANO / "model.bin")}
    assert torch.equal(answer(model), answer(load_exported_model(NANO)))


@pytest.mark.parametrize("name", ["nano", "jupyt5:nano"])
def test_it_goes_by_its_name(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The data have another tokenizer, which is found out once the folder is."""
    assert main(["evaluate", name, "--data", str(data)]) == 1
    assert f"was not tokenised for {NANO}" in capsys.readouterr().err
    run = ["run", "nano", "--data", str(data), "--out", str(tmp_path), "--init-from", name]
    assert main(run) == 1
    assert f"{NANO} has another tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:100_000], "ends in the middle"),
        (lambda content: content[:3], "cannot be read back"),
        (lambda content: b"\x05" + content[1:], "in format 5, not"),
        (
            lambda content: content.replace(b"ffn/linear_0/weight\0", b"ffn/linear_9/weight\0"),
            "ffn",
        ),
    ],
)
def test_damaged_files_have_one_message(
    damage: Callable[[bytes], bytes], message: str, tmp_path: Path
):
    folder = shutil.copytree(NANO, tmp_path / "nano")
    (folder / "model.bin").write_bytes(damage((NANO / "model.bin").read_bytes()))
    with pytest.raises(CheckpointError, match=message):
        load_exported_model(folder)
