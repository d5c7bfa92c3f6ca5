r"""The files of vocabularies: GPT-2-style merges, fairseq's ``dict.txt``, ``tokenizer.json``.

A GPT-2-style vocabulary spells bytes by printable characters (``Ġ`` is a space), its merges say
how they grow together, and fairseq's ``dict.txt`` lists the ids of that vocabulary in the order of
the table's rows, after four special tokens. PyMT5 adds tokens of whitespace that no merge makes
(``\n`` and indentation) and pads the table. Every number here comes from those files.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5.errors import CheckpointError

__all__ = [
    "FAIRSEQ_SPECIAL",
    "PADDING",
    "Bpe",
    "Pair",
    "name_rows",
    "read_bpe",
    "read_dictionary",
    "read_vocabulary_folder",
    "spell",
    "token_bytes",
]

Pair = tuple[str, str]
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # the order of its Dictionary
_MASK = "<mask>"
PADDING = re.compile(r"madeupword\d+|<unused\d+>")
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r"}
_OVERWRITE = "#fairseq:overwrite"


@dataclass(frozen=True, slots=True)
class Bpe:
    """A GPT-2-style vocabulary: token strings by id, and its merges in order."""

    ids: Mapping[str, int]
    merges: tuple[Pair, ...]


def byte_letters() -> dict[str, int]:
    """Return the byte of each letter of GPT-2's byte-level spelling.

    Printable Latin-1 stands for itself, the other bytes for letters from U+0100 on
    (Radford et al. 2019).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in sorted(printable)}
    return letters | {chr(0x100 + number): byte for number, byte in enumerate(others)}


_BYTES = byte_letters()
_LETTERS = {byte: letter for letter, byte in _BYTES.items()}


def token_bytes(token: str) -> bytes:
    """Return the bytes that a token string spells; one not in byte-level letters is plain text."""
    try:
        return bytes(_BYTES[letter] for letter in token)
    except KeyError:
        return token.encode("utf-8")


def spell(data: bytes) -> str:
    """Return the byte-level spelling of bytes."""
    return "".join(_LETTERS[byte] for byte in data)


def read_bpe(vocab_path: Path | None, merges_path: Path) -> Bpe:
    """Read ``encoder.json`` or ``vocab.json``, and ``vocab.bpe`` or ``merges.txt``.

    Raises:
        CheckpointError: If one of them is damaged.
        OSError: If one of them cannot be read.
    """
    ids: dict[str, int] = {}
    if vocab_path is not None:
        try:
            fields = json.loads(vocab_path.read_text("utf-8"))
            ids = {str(token): int(number) for token, number in fields.items()}
        except (ValueError, TypeError, AttributeError) as exc:
            message = f"{vocab_path} is no vocabulary (a JSON object of ids): {exc}"
            raise CheckpointError(message) from exc
    try:
        lines = merges_path.read_text("utf-8").split("\n")
    except ValueError as exc:
        message = f"{merges_path} is no list of merges: {exc}. Give vocab.bpe or merges.txt."
        raise CheckpointError(message) from exc
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    return Bpe(ids, tuple(_read_merge(line, merges_path) for line in lines if line.strip()))


def _read_merge(line: str, path: Path) -> Pair:
    left, space, right = line.rstrip("\r").partition(" ")
    if not (left and space and right) or " " in right:
        message = f"{path} is no list of merges: {line[:80]!r}. Give vocab.bpe or merges.txt."
        raise CheckpointError(message)
    return left, right


def read_dictionary(path: Path) -> list[str]:
    """Read fairseq's ``dict.txt``: the symbol of each row, its four special tokens first.

    Raises:
        CheckpointError: If a line has no count, or a symbol stands there twice.
    """
    symbols: list[str] = [*FAIRSEQ_SPECIAL]
    seen: dict[str, int] = {symbol: idx for idx, symbol in enumerate(symbols)}
    try:
        lines = path.read_text("utf-8").split("\n")
    except ValueError as exc:
        message = f"{path} is no fairseq dictionary: {exc}. Give the dict.txt of the checkpoint."
        raise CheckpointError(message) from exc
    for number, line in enumerate(lines, start=1):
        if not line.rstrip():
            continue
        body = line.rstrip()
        is_overwrite = body.endswith(f" {_OVERWRITE}")
        symbol, space, count = body.removesuffix(f" {_OVERWRITE}").rpartition(" ")
        if not space or not symbol or not count.isdigit():
            message = f"{path}, line {number}: {line[:80]!r} is no symbol and count."
            raise CheckpointError(message)
        if symbol in seen and not is_overwrite:
            message = f"{path}, line {number}: {symbol[:80]!r} stands there twice."
            raise CheckpointError(message)
        seen[symbol] = len(symbols)
        symbols.append(symbol)
    return symbols


def name_rows(
    symbols: Sequence[str], bpe: Bpe, rows: int, *, mask_is_last: bool = False
) -> list[str | None]:
    """Return the token string of each row of a fairseq table; None is a padding row.

    fairseq's denoising task adds ``<mask>`` after what the dictionary lists; its multilingual one
    puts language codes before it (``mask_is_last``). Rows without a name are padding.

    Raises:
        CheckpointError: If the table has fewer rows than the dictionary has symbols, or the
            dictionary lists ids of another vocabulary.
    """
    if len(symbols) > rows:
        message = (
            f"The dictionary has {len(symbols)} symbols (four special ones included), the "
            f"checkpoint {rows} rows. They are not of one model: give its own dict.txt."
        )
        raise CheckpointError(message)
    names: list[str | None] = list(symbols)
    names += [None] * (rows - len(names))
    if _MASK not in symbols and len(symbols) < rows:
        names[-1 if mask_is_last else len(symbols)] = _MASK
    strings = {number: token for token, number in bpe.ids.items()}
    plain = [name for name in symbols[len(FAIRSEQ_SPECIAL) :] if not PADDING.fullmatch(name)]
    if 2 * sum(name.isdecimal() for name in plain) <= len(plain):
        return [_unescape(name) for name in names]
    named = [strings.get(int(name)) if name and name.isdecimal() else name for name in names]
    lost = [name for name, found in zip(names, named, strict=True) if name and found is None]
    if lost:
        message = (
            f"The dictionary lists {len(lost)} ids that the vocabulary lacks, e.g. {lost[0]}. "
            "Give the encoder.json (vocab.json) that the checkpoint was trained with."
        )
        raise CheckpointError(message)
    return [_unescape(name) for name in named]


def _unescape(name: str | None) -> str | None:
    r"""Read a whitespace token that a line of text cannot hold: ``\n`` written as two letters."""
    if name and re.fullmatch(r"(?:\\[ntr]|[ Ġ])*\\[ntr](?:\\[ntr]|[ Ġ])*", name):
        for escape, letter in _ESCAPES.items():
            name = name.replace(escape, letter)
        return name.replace("Ġ", " ")
    return name


def read_vocabulary_folder(folder: Path, rows: int) -> tuple[list[str | None], tuple[Pair, ...]]:
    """Read the vocabulary of a Hugging Face folder: token string of each row, and the merges.

    Args:
        folder: Holds ``vocab.json`` and ``merges.txt``, or ``tokenizer.json``.
        rows: Rows of the embedding table; those without a token are padding (None).

    Raises:
        CheckpointError: If neither is there, they are damaged, or they name more rows.
    """
    if (folder / "merges.txt").is_file() and (folder / "vocab.json").is_file():
        bpe = read_bpe(folder / "vocab.json", folder / "merges.txt")
        extra = folder / "added_tokens.json"
        if extra.is_file():
            bpe = Bpe({**bpe.ids, **read_bpe(extra, folder / "merges.txt").ids}, bpe.merges)
    elif (folder / "tokenizer.json").is_file():
        bpe = _read_tokenizer_json(folder / "tokenizer.json")
    else:
        message = f"{folder} has neither vocab.json with merges.txt nor tokenizer.json."
        raise CheckpointError(message)
    names: list[str | None] = [None] * rows
    for token, idx in bpe.ids.items():
        if not 0 <= idx < rows:
            message = f"{folder}: token {token[:80]!r} has id {idx}, but the table {rows} rows."
            raise CheckpointError(message)
        names[idx] = token
    return names, bpe.merges


def _read_tokenizer_json(path: Path) -> Bpe:
    try:
        fields = json.loads(path.read_text("utf-8"))
        model = cast("dict[str, object]", fields["model"])
        ids = {str(k): int(v) for k, v in cast("dict[str, int]", model["vocab"]).items()}
        for added in cast("list[dict[str, object]]", fields.get("added_tokens", [])):
            ids[str(added["content"])] = int(cast("int", added["id"]))
        merges = [
            _read_merge(merge, path) if isinstance(merge, str) else (str(merge[0]), str(merge[1]))
            for merge in cast("list[str | list[str]]", model["merges"])
        ]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as exc:
        message = (
            f"{path} is no byte-level BPE vocabulary: {exc!r}. Give --tokenizer, or its files."
        )
        raise CheckpointError(message) from exc
    return Bpe(ids, tuple(merges))
