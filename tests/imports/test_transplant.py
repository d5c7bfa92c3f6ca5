"""Another vocabulary: rows kept by their bytes, new rows from their pieces."""

import threading
from pathlib import Path

import pytest
import torch

from jupyt5.cli import main
from jupyt5.model.checkpoint import read_meta
from jupyt5.model.decoding import DecodeRequest
from jupyt5.model.imports.dictionary import token_bytes
from jupyt5.model.seq2seq import load_model
from jupyt5.model.torch_engine import TorchEngine
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer, train_tokenizer

from .fairseq_model import TEXTS, Written


def convert(written: Written, out: Path, *more: str) -> Path:
    assert main(["import-fairseq", *written.arguments, *more, "--out", str(out)]) == 0
    return out


def read(folder: Path) -> tuple[Tokenizer, torch.Tensor]:
    table_VD = load_model(folder).state_dict()["model.shared.weight"]
    return Tokenizer.load(folder / "tokenizer.json"), table_VD


def greedy(folder: Path, source_ids: list[int], count: int) -> list[int | None]:
    engine = TorchEngine(folder, Tokenizer.load(folder / "tokenizer.json"))
    request = DecodeRequest(source_ids=source_ids, temperature=0, max_tokens=count)
    return [step.token_id for step in engine.decode(request, threading.Event())]


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary trained elsewhere: shares much with the parent's, has tokens of its own."""
    folder = tmp_path_factory.mktemp("other")
    texts = [*TEXTS, "def g(y):\n            return y\n\nimport pandas\n" * 20]
    train_tokenizer(texts, vocab_size=360).save(folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module")
def moved(written: Written, other: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("moved") / "model"
    return convert(written, out, "--tokenizer", str(other))


def test_shared_rows_are_kept_bit_for_bit(written: Written, imported: Path, moved: Path) -> None:
    tokenizer, table_VD = read(moved)
    parent, _ = read(imported)
    old_VD = written.state["encoder.embed_tokens.weight"]
    old_rows = {
        token_bytes(token): row
        for row, token in enumerate(parent.tokens)
        if token not in SPECIAL_TOKENS and not token.startswith("<unused")
    }
    shared = [
        (row, old_rows[token_bytes(token)])
        for row, token in enumerate(tokenizer.tokens)
        if token not in SPECIAL_TOKENS and token_bytes(token) in old_rows
    ]
    assert len(shared) > 256
    assert len(shared) < tokenizer.vocab_size - len(SPECIAL_TOKENS)
    for row, old_row in shared:
        assert torch.equal(table_VD[row], old_VD[old_row])
    for token, old_row in {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": -1}.items():
        assert torch.equal(table_VD[tokenizer.tokens.index(token)], old_VD[old_row])


def test_new_rows_are_means_of_the_old_pieces(
    written: Written, imported: Path, moved: Path
) -> None:
    tokenizer, table_VD = read(moved)
    parent, _ = read(imported)
    old_VD = written.state["encoder.embed_tokens.weight"]
    new_tokens = [
        token
        for token in tokenizer.tokens
        if token not in SPECIAL_TOKENS and token_bytes(token) not in map(token_bytes, parent.tokens)
    ]
    assert "ĊĠĠĠĠĠĠĠĠĠĠĠĠ" in new_tokens
    for token in new_tokens:
        text = token_bytes(token).decode(errors="replace")
        if "\ufffd" in text:  # the beginning of a character, which no text is
            continue
        pieces = parent.encode(text)
        assert len(pieces) > 1
        row = tokenizer.tokens.index(token)
        torch.testing.assert_close(table_VD[row], old_VD[pieces].mean(0), rtol=0, atol=1e-6)
    for code, word in {"<code>": "code", "<docstring>": "docstring"}.items():
        expected_D = old_VD[parent.encode(word)].mean(0)
        actual_D = table_VD[tokenizer.special.control[code]]
        torch.testing.assert_close(actual_D, expected_D, rtol=0, atol=1e-6)


def test_logits_of_shared_rows_are_unchanged(imported: Path, moved: Path) -> None:
    """A prompt without new tokens: what the model says of shared tokens is what it said before."""
    tokenizer, _ = read(moved)
    parent, _ = read(imported)
    old_rows = {token_bytes(token): row for row, token in enumerate(parent.tokens)}
    both = {
        row: old_rows[token_bytes(token)]
        for row, token in enumerate(tokenizer.tokens)
        if token not in SPECIAL_TOKENS and token_bytes(token) in old_rows
    }
    new = torch.tensor(list(both))
    old = torch.tensor(list(both.values()))
    chosen = torch.randperm(len(both), generator=torch.Generator().manual_seed(3))[:12]
    start = torch.tensor([[2]])
    with torch.inference_mode():
        before_BTV = load_model(imported)(old[chosen][None], decoder_input_ids=start).logits
        after_BTV = load_model(moved)(new[chosen][None], decoder_input_ids=start).logits
    torch.testing.assert_close(after_BTV[..., new], before_BTV[..., old], rtol=1e-5, atol=1e-5)


def test_equal_vocabularies_change_nothing(
    written: Written, imported: Path, tmp_path: Path
) -> None:
    again = convert(written, tmp_path / "again", "--tokenizer", str(imported))
    tokenizer, table_VD = read(again)
    parent, parent_VD = read(imported)
    assert tokenizer.tokens == parent.tokens
    assert torch.equal(table_VD, parent_VD)
    for text in ("import numpy as np", "def f(x): return x + 1", "a:\n    b\n\tc"):
        source_ids = [tokenizer.special.control["<code>"], *tokenizer.encode(text)]
        before = greedy(imported, source_ids, 12)
        assert len(before) == 12
        assert greedy(again, source_ids, 12) == before


def test_transplant_to_the_bundled_vocabulary(written: Written, tmp_path: Path) -> None:
    out = convert(written, tmp_path / "out", "--tokenizer", "nano", "--positions", "64")
    tokenizer, table_VD = read(out)
    assert table_VD.shape[0] == tokenizer.vocab_size
    assert table_VD.isfinite().all()
    parents = read_meta(out).parents
    assert parents[-1]["name"] == "nano/tokenizer.json"
    assert len(greedy(out, tokenizer.encode("print(x)\n    y"), 5)) == 5


def test_unknown_tokenizer_is_refused(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["import-fairseq", *written.arguments, "--out", str(tmp_path / "out")]
    assert main([*command, "--tokenizer", "pico"]) == 2
    assert "--tokenizer pico" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
