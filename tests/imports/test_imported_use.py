"""What an imported folder is for: filling cells with torch, and the int8 runtime."""

import threading
from pathlib import Path

import pytest
from transformers import BartConfig, BartForConditionalGeneration

from jupyt5.cli import main
from jupyt5.model.checkpoint import CheckpointMeta, FormatterSettings, write_meta
from jupyt5.model.ct2_engine import Ct2Engine
from jupyt5.model.decoding import DecodeRequest, Engine
from jupyt5.model.export import export_ctranslate2
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest, Sampling, load_provider, stream_drafts
from jupyt5.tokenizer import Tokenizer

CELLS = (Cell(None, "markdown", "plot"), Cell(None, "code", ""), Cell(None, "code", "return x"))


def greedy(engine: Engine, source_ids: list[int]) -> list[int | None]:
    request = DecodeRequest(source_ids=source_ids, temperature=0, max_tokens=10)
    return [step.token_id for step in engine.decode(request, threading.Event())]


def test_imported_model_fills_a_cell(imported: Path) -> None:
    provider = load_provider(f"jupyt5:{imported}")
    request = FillRequest(cells=CELLS, target_idx=1)
    sampling = Sampling(temperature=0, max_tokens=8)
    drafts = list(
        stream_drafts(provider, request, n=1, sampling=sampling, seed=0, cancel=threading.Event())
    )
    assert drafts[-1].finished


def test_export_decodes_the_same(imported: Path, tmp_path: Path) -> None:
    export_ctranslate2(imported, tmp_path / "out", "float32")
    tokenizer = Tokenizer.load(imported / "tokenizer.json")
    torch_engine = TorchEngine(imported, tokenizer)
    ct2_engine = Ct2Engine(tmp_path / "out", tokenizer)
    for text in ("import numpy", "def f(x):\n    return x", "a\n\tb", "plot value"):
        ids = [tokenizer.special.control["<code>"], *tokenizer.encode(text)]
        expected = greedy(torch_engine, ids)
        assert len(expected) == 10
        assert greedy(ct2_engine, ids) == expected


def test_export_refuses_unequal_heads(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "unequal"
    config = BartConfig(
        vocab_size=20, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(folder)
    write_meta(folder, CheckpointMeta(name="unequal", formatter=FormatterSettings()))
    (folder / "tokenizer.json").write_bytes((imported / "tokenizer.json").read_bytes())
    assert main(["export", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert "2 attention heads in the encoder and 4" in capsys.readouterr().err
