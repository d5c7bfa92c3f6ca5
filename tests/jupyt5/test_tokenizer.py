"""The tokenizer: lossless, special text stays text, line ends, errors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyt5.errors import TokenizerError
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer, train_tokenizer

TEXTS = [
    "def mean(xs):\n    total = sum(xs)\n    return total / len(xs)\n",
    "for row in rows:\n        if row:\n            print(row)\n",
    "# Title\n\nSome *words* about a table, and a list:\n\n- one\n- two\n",
] * 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, 400)


@given(text=st.text())
def test_any_text_comes_back(text: str) -> None:
    tokenizer = _SHARED
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & tokenizer.special_id_set


@pytest.mark.parametrize(
    "text",
    [
        "a <mask> b </s><s><code>",
        "tab\there\r\n  two  spaces \n\n\n\tend ",
        "😀 e\u0301 \u2581 \x00 \ufeff",
        "    " * 40 + "x",
    ],
)
def test_awkward_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & tokenizer.special_id_set
    assert tokenizer.encode_batch([text, ""]) == [ids, []]


def test_newline_and_indent_are_one_token(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("\n    ")) == 1
    assert len(tokenizer.encode("\n            ")) == 1


def test_special_tokens_have_barts_ids(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    assert (special.bos, special.pad, special.eos, special.slot) == (0, 1, 2, 4)
    assert set(special.control) == set(SPECIAL_TOKENS[5:])


def test_line_ends_are_where_newlines_open_a_line(tokenizer: Tokenizer) -> None:
    text = "def mean(xs):\n    total = 1\n    return total"
    ids = tokenizer.encode(text)
    ends = tokenizer.find_line_ends(ids)
    assert len(ends) == 3
    assert tokenizer.decode(ids[: ends[0]]) == "def mean(xs):"
    assert tokenizer.decode(ids[ends[0] : ends[1]]) == "\n    total = 1"
    assert ends[-1] == len(ids)
    assert tokenizer.find_line_ends([]) == []


@given(lines=st.lists(st.text(alphabet="ab =#()\t é", max_size=8), min_size=2, max_size=6))
def test_cutting_at_a_line_end_equals_tokenising_the_pieces(lines: list[str]) -> None:
    """What lets training slice ids where inference tokenises a prefix."""
    text = "\n".join(lines)
    ids = _SHARED.encode(text)
    for end in _SHARED.find_line_ends(ids):
        head = _SHARED.decode(ids[:end])
        assert _SHARED.encode(head) == ids[:end]
        assert _SHARED.encode(text[len(head) :]) == ids[end:]


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    again = Tokenizer.load(path)
    assert again.tokens == tokenizer.tokens
    assert again.encode("x <mask> y") == tokenizer.encode("x <mask> y")


def test_errors_name_the_file_and_the_cause(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="cannot be read"):
        Tokenizer.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"bad\.json"):
        Tokenizer.load(tmp_path / "bad.json")
    with pytest.raises(TokenizerError, match="too small"):
        train_tokenizer(TEXTS, 10)


_SHARED = train_tokenizer(TEXTS, 400)
