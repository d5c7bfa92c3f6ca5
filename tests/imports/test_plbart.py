"""PLBART: its sentencepiece vocabulary as the source of a transplant, and clear refusals."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from jupyt5.cli import main
from jupyt5.model.seq2seq import load_model
from jupyt5.tokenizer import Tokenizer

from .fairseq_model import TEXTS, Sizes, make_state, save


def write_plbart(folder: Path, num_pieces: int) -> Path:
    """Write a Hugging Face PLBART of random weights, without its vocabulary."""
    config = BartConfig(
        vocab_size=num_pieces + 5, d_model=8, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8,
        decoder_ffn_dim=8, max_position_embeddings=16, scale_embedding=True,
    )  # fmt: skip
    torch.manual_seed(0)
    BartForConditionalGeneration(config).save_pretrained(folder)
    fields = json.loads((folder / "config.json").read_text()) | {"model_type": "plbart"}
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


def write_pieces(path: Path) -> list[str]:
    """Train a sentencepiece model; return its pieces by id."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=120, model_type="bpe",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(idx) for idx in range(processor.get_piece_size())]


def assert_moved(out: Path, old_VD: torch.Tensor, rows: dict[str, int]) -> None:
    """Check rows that both vocabularies have, and one mean."""
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    table_VD = load_model(out).state_dict()["model.shared.weight"]
    words = {"▁import": "Ġimport", "▁return": "Ġreturn", "x": "x", "(": "("}
    shared = {piece: token for piece, token in words.items() if piece in rows}
    assert len(shared) >= 3
    for piece, token in shared.items():
        assert torch.equal(table_VD[tokenizer.tokens.index(token)], old_VD[rows[piece]])
    assert torch.equal(table_VD[tokenizer.special.slot], old_VD[-1])
    assert torch.equal(table_VD[tokenizer.special.eos], old_VD[2])
    blank_D = table_VD[tokenizer.tokens.index("ĊĠĠĠ")]
    assert torch.equal(blank_D, old_VD[rows["▁"]])


def test_huggingface_plbart_moves_to_our_vocabulary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = write_pieces(tmp_path / "pieces.model")
    folder = write_plbart(tmp_path / "plbart", len(pieces))
    (tmp_path / "pieces.model").rename(folder / "sentencepiece.bpe.model")
    command = ["import-hf", str(folder), "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "--tokenizer nano" in capsys.readouterr().err
    assert main([*command, "--tokenizer", "nano"]) == 0
    assert load_model(tmp_path / "out").config.scale_embedding is True
    old_VD = load_model(folder).state_dict()["model.shared.weight"]
    rows = {piece: idx + 1 for idx, piece in enumerate(pieces)}  # as its tokenizer shifts them
    assert_moved(tmp_path / "out", old_VD, rows)


def test_fairseq_plbart_moves_to_our_vocabulary(tmp_path: Path) -> None:
    pieces = write_pieces(tmp_path / "pieces.model")[3:]
    lines = "".join(f"{piece} 1\n" for piece in pieces)
    (tmp_path / "dict.txt").write_text(lines, encoding="utf-8")
    num_rows = 4 + len(pieces) + 4  # three languages, then <mask>
    sizes = Sizes(scale=True)
    state = make_state(sizes, num_rows)
    save(tmp_path, state, sizes)
    command = ["import-fairseq", str(tmp_path / "model.pt"), "--dict", str(tmp_path / "dict.txt")]
    command += ["--sentencepiece", str(tmp_path / "pieces.model"), "--tokenizer", "nano"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    rows = {piece: idx + 4 for idx, piece in enumerate(pieces)}
    assert_moved(tmp_path / "out", state["encoder.embed_tokens.weight"], rows)


def test_missing_library_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    folder = write_plbart(tmp_path / "plbart", 30)
    assert main(["import-hf", str(folder), "--out", str(tmp_path / "out")]) == 1
    assert "pip install sentencepiece" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_damaged_vocabularies_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    folder = write_plbart(tmp_path / "plbart", 30)
    command = ["import-hf", str(folder), "--tokenizer", "nano", "--out", str(tmp_path / "out")]
    assert main(command) == 1
    assert "sentencepiece.bpe.model is missing" in capsys.readouterr().err
    (folder / "sentencepiece.bpe.model").write_bytes(b"damaged")
    assert main(command) == 1
    assert "no sentencepiece model" in capsys.readouterr().err
    write_pieces(folder / "sentencepiece.bpe.model")
    assert main(command) == 1
    assert "too many for a table of 35 rows" in capsys.readouterr().err
