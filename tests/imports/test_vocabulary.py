"""Vocabularies read from files: which row is which bytes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers

from jupyt5.cli import main
from jupyt5.errors import CheckpointError
from jupyt5.model.imports.dictionary import (
    Bpe,
    name_rows,
    read_bpe,
    read_dictionary,
    spell,
    token_bytes,
)
from jupyt5.model.imports.vocabulary import build_vocabulary
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer

from .fairseq_model import TEXTS, Written, write_bpe, write_fairseq

NASTY = "x\u00e9\u4e2d\U0001f600 <mask> <s> madeupword0001 <unused3> \r\n\t\x00 \u2581 \u00a0"


@pytest.fixture(scope="module")
def tokenizer(imported: Path) -> Tokenizer:
    return Tokenizer.load(imported / "tokenizer.json")


def test_every_row_is_the_dictionarys_token(written: Written, tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == len(written.symbols)
    for row, symbol in enumerate(written.symbols):
        token = tokenizer.tokens[row]
        if symbol.startswith("madeupword"):
            assert token.startswith("<")  # a control code or <unused>
        else:
            assert token_bytes(token) == token_bytes(symbol)


def test_segments_are_those_of_the_parents_merges(written: Written, tokenizer: Tokenizer) -> None:
    bpe = read_bpe(written.folder / "encoder.json", written.folder / "vocab.bpe")
    parent = Engine(models.BPE(dict(bpe.ids), list(bpe.merges)))
    parent.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rows = {symbol: row for row, symbol in enumerate(written.symbols)}
    for text in [*TEXTS, "for name in range(12345): print('a')", "  naïve  Ω"]:
        expected = [rows[token] for token in parent.encode(text).tokens]
        assert tokenizer.encode(text) == expected


def test_whitespace_tokens_are_used_and_open_lines(written: Written, tokenizer: Tokenizer) -> None:
    text = "a:\n    b\n        c\n\td"
    ids = tokenizer.encode(text)
    rows = [row for row, symbol in enumerate(written.symbols) if symbol in written.symbols[4:]]
    assert set(ids) <= set(rows)
    spelt = [token_bytes(tokenizer.tokens[idx]).decode() for idx in ids]
    assert [s for s in spelt if s.isspace()] == ["\n    ", "\n        ", "\n\t"]
    assert tokenizer.decode(ids) == text
    starts = [k for k, s in enumerate(spelt) if s.startswith("\n")]
    assert tokenizer.find_line_ends(ids) == [*starts, len(ids)]


@given(st.text() | st.just(NASTY))
@settings(max_examples=150, deadline=None)
def test_text_is_lossless(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & tokenizer.special_id_set
    assert not any(tokenizer.tokens[idx].startswith("<unused") for idx in ids)


def test_bytes_and_spelling_are_inverse() -> None:
    assert all(token_bytes(spell(bytes([byte]))) == bytes([byte]) for byte in range(256))
    assert spell(b"\n a") == "ĊĠa"
    assert set(spell(bytes(range(256)))) == set(pre_tokenizers.ByteLevel.alphabet())
    assert token_bytes("\n    ") == b"\n    "


def test_trimmed_dictionary(tmp_path: Path) -> None:
    """A dictionary made from data lacks rare tokens: also bytes, which then get rows."""
    tokens = write_bpe(tmp_path)
    bpe = read_bpe(tmp_path / "encoder.json", tmp_path / "vocab.bpe")
    rare = {"Ø", "é", *tokens[300:]}
    named = ["<s>", "<pad>", "</s>", "<unk>", *(token for token in tokens if token not in rare)]
    vocabulary = build_vocabulary(named, bpe.merges)
    tokenizer = vocabulary.tokenizer
    assert tokenizer is not None
    assert tokenizer.vocab_size == len(named) + len(SPECIAL_TOKENS) - 4 + 2
    assert {"Ø", "é"} < set(vocabulary.new_names)
    assert all(vocabulary.rows[vocabulary.new_names[token]] == (3,) for token in ("Ø", "é"))
    for text in [*TEXTS, NASTY]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_dictionary_of_token_strings(tmp_path: Path) -> None:
    tokens = write_bpe(tmp_path)
    lines = [f"{token} {k}" for k, token in enumerate([*tokens, r"\n\t", "    "])]
    (tmp_path / "dict.txt").write_text("\n".join(lines), encoding="utf-8")
    symbols = read_dictionary(tmp_path / "dict.txt")
    bpe = read_bpe(None, tmp_path / "vocab.bpe")
    names = name_rows(symbols, bpe, len(symbols) + 1)
    assert names[-3:] == ["\n\t", "    ", "<mask>"]
    tokenizer = build_vocabulary(names, bpe.merges).tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("a\n\t1    ")
    assert len(symbols) - 2 in ids
    assert len(symbols) - 1 in ids
    assert tokenizer.decode(ids) == "a\n\t1    "


def test_whitespace_that_merges_make_too(tmp_path: Path) -> None:
    """Both rows stay; text is cut by the added token, as it was when the parent was trained."""
    tokens = write_bpe(tmp_path)
    bpe = read_bpe(tmp_path / "encoder.json", tmp_path / "vocab.bpe")
    merges = (*bpe.merges, ("Ġ", "Ġ"))
    named = ["<s>", "<pad>", "</s>", "<unk>", *tokens, "ĠĠ", "  ", "<mask>"]
    vocabulary = build_vocabulary(named, merges)
    tokenizer = vocabulary.tokenizer
    assert tokenizer is not None
    made, added = len(tokens) + 4, len(tokens) + 5
    assert tokenizer.tokens[made : added + 1] == ("ĠĠ", "  ")
    assert vocabulary.by_bytes[b"  "] == added
    assert tokenizer.encode("a  ")[-1] == added
    assert min(vocabulary.new_names.values()) == len(named)


def test_control_codes_of_the_parent_are_kept(tmp_path: Path) -> None:
    tokens = write_bpe(tmp_path)
    bpe = read_bpe(tmp_path / "encoder.json", tmp_path / "vocab.bpe")
    named = ["<s>", "<pad>", "</s>", "<unk>", "<code>", *tokens, "<mask>", None]
    vocabulary = build_vocabulary(named, bpe.merges)
    assert vocabulary.names["<code>"] == 4
    assert set(vocabulary.new_names) == {"<markdown>", "<comment>", "<docstring>", "<signature>"}
    assert vocabulary.new_names["<markdown>"] == len(named) - 1
    assert vocabulary.rows[len(named) - 1] == tuple(vocabulary.encode(b"markdown"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12\n", "line 1"),
        ("12 7\n12 7\n", "stands there twice"),
        ("a b c\n", "no symbol and count"),
    ],
)
def test_damaged_dictionaries(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text(text)
    with pytest.raises(CheckpointError, match=words):
        read_dictionary(tmp_path / "dict.txt")


def test_overwritten_symbols_count_last(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("a 1\nb 1\na 1 #fairseq:overwrite\n")
    assert read_dictionary(tmp_path / "dict.txt")[4:] == ["a", "b", "a"]


def test_dictionary_of_another_model() -> None:
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "0", "1"]
    with pytest.raises(CheckpointError, match=r"6 symbols .* 5 rows"):
        name_rows(symbols, Bpe({"a": 0, "b": 1}, ()), 5)
    with pytest.raises(CheckpointError, match=r"lists 1 ids that the vocabulary lacks, e\.g\. 1"):
        name_rows(symbols, Bpe({"a": 0}, ()), 6)


def test_files_are_found_or_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = write_fairseq(tmp_path / "parent")
    command = ["import-fairseq", *written.arguments, "--out", str(tmp_path / "out")]
    (written.folder / "vocab.bpe").rename(tmp_path / "merges.txt")
    assert main(command) == 1
    assert "Give --merges" in capsys.readouterr().err
    (written.folder / "encoder.json").rename(tmp_path / "vocab.json")
    (written.folder / "vocab.bpe").write_text("not a merge list\n")
    assert main(command) == 1
    assert "is no list of merges: 'not a merge list'" in capsys.readouterr().err
    (tmp_path / "broken.json").write_text("[]")
    merges = ["--merges", str(tmp_path / "merges.txt")]
    assert main([*command, *merges, "--vocab", str(tmp_path / "broken.json")]) == 1
    assert "is no vocabulary" in capsys.readouterr().err
    assert main([*command, *merges]) == 0
    meta = json.loads((tmp_path / "out" / "jupyt5.json").read_text())
    assert [parent["name"] for parent in meta["parents"]][2:] == ["merges.txt", "vocab.json"]
