"""Hugging Face folders: equal logits, all ways of storing them, and refusals."""

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration

from jupyt5.cli import main
from jupyt5.model.checkpoint import read_meta
from jupyt5.model.seq2seq import load_model
from jupyt5.tokenizer import Tokenizer

from .fairseq_model import WHITESPACE, write_bpe

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BART of random weights as transformers saves it, with a logits bias that is not zero."""
    folder = tmp_path_factory.mktemp("hf") / "bart"
    folder.mkdir()
    tokens = [*SPECIAL, *write_bpe(folder, whitespace=WHITESPACE), "<mask>"]
    (folder / "vocab.bpe").rename(folder / "merges.txt")
    (folder / "encoder.json").unlink()
    ids = {token: idx for idx, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    config = BartConfig(
        vocab_size=len(tokens) + 7, d_model=16, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=4, encoder_ffn_dim=20,
        decoder_ffn_dim=12, max_position_embeddings=30, scale_embedding=True,
        activation_function="gelu_new", init_std=0.4,
    )  # fmt: skip
    torch.manual_seed(5)
    model = BartForConditionalGeneration(config)
    model.final_logits_bias.copy_(torch.randn(1, len(tokens) + 7))
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def copy(parent: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(parent, tmp_path / "copy"))


def logits(folder: Path, source_1S: torch.Tensor, target_1T: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return load_model(folder).eval()(source_1S, decoder_input_ids=target_1T).logits


def convert(folder: Path, out: Path, *more: str) -> int:
    return main(["import-hf", str(folder), *more, "--out", str(out)])


def assert_parity(parent: Path, out: Path) -> None:
    rows = len(json.loads((parent / "vocab.json").read_text("utf-8")))
    rng = torch.Generator().manual_seed(2)
    source_1S = torch.randint(4, rows, (1, 11), generator=rng)
    target_1T = torch.randint(4, rows, (1, 5), generator=rng)
    expected_BTV = logits(parent, source_1S, target_1T)[..., :rows]
    actual_BTV = logits(out, source_1S, target_1T)[..., :rows]
    torch.testing.assert_close(actual_BTV, expected_BTV, rtol=1e-5, atol=1e-5)


def test_logits_and_vocabulary_are_kept(parent: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert convert(parent, out, "--licence", "Apache-2.0") == 0
    assert_parity(parent, out)
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    ids = json.loads((parent / "vocab.json").read_text("utf-8"))
    assert tokenizer.special.slot == ids["<mask>"]
    assert set(tokenizer.special.control.values()) == set(range(len(ids), len(ids) + 5))
    assert tokenizer.vocab_size == len(ids) + 7
    assert len(tokenizer.encode("\n        ")) == 1
    names = [one["name"] for one in read_meta(out).parents]
    assert names == ["model.safetensors", "config.json", "vocab.json", "merges.txt"]


def store_pickle(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    torch.save(state | {"lm_head.weight": state["model.shared.weight"]}, folder / "x")
    (folder / "x").rename(folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def store_shards(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    names: Iterator[str] = iter(sorted(state))
    where = {name: f"model-{k % 2}.safetensors" for k, name in enumerate(names)}
    for shard in set(where.values()):
        part = {name: state[name] for name in state if where[name] == shard}
        save_file(part, folder / shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    (folder / "model.safetensors").unlink()


def store_tokenizer(folder: Path) -> None:
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    lines = (folder / "merges.txt").read_text("utf-8").split("\n")[1:]
    added = [{"content": token, "id": ids.pop(token)} for token in (*SPECIAL, "<mask>")]
    model = {"vocab": ids, "merges": [line for line in lines if line]}
    content = json.dumps({"model": model, "added_tokens": added})
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
    (folder / "merges.txt").unlink()


def store_added(folder: Path) -> None:
    ids = json.loads((folder / "vocab.json").read_text("utf-8"))
    added = {token: ids.pop(token) for token in (*WHITESPACE, "<mask>")}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")


@pytest.mark.parametrize("store", [store_pickle, store_shards, store_tokenizer, store_added])
def test_ways_of_storing(store, parent: Path, copy: Path, tmp_path: Path) -> None:
    assert convert(parent, tmp_path / "plain") == 0
    store(copy)
    assert convert(copy, tmp_path / "out") == 0
    assert_parity(parent, tmp_path / "out")
    plain = Tokenizer.load(tmp_path / "plain" / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "out" / "tokenizer.json").tokens == plain.tokens


def test_transplant(parent: Path, tmp_path: Path) -> None:
    assert convert(parent, tmp_path / "own") == 0
    assert convert(parent, tmp_path / "out", "--tokenizer", str(tmp_path / "own")) == 0
    own, again = (load_model(tmp_path / name).state_dict() for name in ("own", "out"))
    assert all(torch.equal(own[name], again[name]) for name in own)


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("made",)


def test_hostile_weights_are_refused(
    copy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (copy / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Runs()}, copy / "pytorch_model.bin")
    assert convert(copy, tmp_path / "out") == 1
    assert "is refused: it asks for" in capsys.readouterr().err
    torch.save({"a": argparse.Namespace()}, copy / "pytorch_model.bin")
    assert convert(copy, tmp_path / "out") == 1
    assert "holds no state dict" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"activation_function": "mine"}, "activation 'mine' is unknown"),
        ({"decoder_attention_heads": 3}, "3 attention heads do not divide"),
        ({"encoder_attention_heads": float("inf")}, "cannot be used"),
        ({"dropout": -1}, "The dropout -1"),
    ],
)
def test_impossible_settings_are_refused(
    change: dict[str, object],
    words: str,
    copy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = json.loads((copy / "config.json").read_text()) | change
    (copy / "config.json").write_text(json.dumps(fields))
    assert convert(copy, tmp_path / "out") == 1
    assert words in capsys.readouterr().err


def test_bias_of_another_length_is_refused(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = load_file(copy / "model.safetensors") | {"final_logits_bias": torch.ones(1, 3)}
    save_file(state, copy / "model.safetensors")
    assert convert(copy, tmp_path / "out") == 1
    assert "final_logits_bias has 3 values" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "has no config.json"),
        ("config.json", "{", "is damaged"),
        ("config.json", '{"model_type": "t5"}', "describes a 't5' model"),
        ("config.json", '{"model_type": "bart"}', "encoder_attention_heads"),
        ("config.json", '{"model_type": "bart", "normalize_before": true}', "normalize_before"),
        ("config.json", '{"model_type": "bart", "tie_word_embeddings": false}', "share one"),
        ("model.safetensors", None, "holds no weights"),
        ("model.safetensors", "damaged", "cannot be read"),
        ("vocab.json", None, "neither vocab.json"),
        ("vocab.json", '{"a": 99999}', "has id 99999, but the table"),
        ("vocab.json", '{"a": 5}', "has no <s>"),
    ],
)
def test_unusable_folders_are_refused(
    name: str,
    content: str | None,
    words: str,
    copy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_text(content)
    assert convert(copy, tmp_path / "out") == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_shards_outside_the_folder_are_refused(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "model.safetensors").rename(tmp_path / "model.safetensors")
    index = {"weight_map": {"a": "../model.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert convert(copy, tmp_path / "out") == 1
    assert "is not beside it" in capsys.readouterr().err
