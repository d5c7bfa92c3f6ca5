# pyright: basic
"""PLBART's vocabulary: a sentencepiece model, read with the library of that name.

It folds whitespace away, so it can be the source of a transplant and never a tokenizer of ours.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from jupyt5.errors import CheckpointError
from jupyt5.model.imports.dictionary import FAIRSEQ_SPECIAL
from jupyt5.model.imports.vocabulary import ImportedVocabulary
from jupyt5.tokenizer import SPECIAL_TOKENS

__all__ = ["MODEL_NAME", "read_sentencepiece"]

MODEL_NAME = "sentencepiece.bpe.model"
_SPACE = "▁"
# PLBART's table: fairseq's four special tokens, then the pieces but for sentencepiece's own three.
_NUM_OWN = 3
# ... then three languages and `<mask>`; the multilingual model has more languages and no `<mask>`.
_NUM_AFTER_PIECES = 4


def read_sentencepiece(
    path: Path, named: Sequence[str | None] | None, rows: int
) -> ImportedVocabulary:
    """Read a sentencepiece model.

    Args:
        path: The ``.model`` file.
        named: Piece of each row, from a fairseq dictionary; None takes the order of the file, as
            a Hugging Face PLBART does.
        rows: Rows of the table.

    Raises:
        CheckpointError: If the library is missing, or the file is no such model.
    """
    split, pieces = _open(path)
    if named is None:
        named = _name_rows(pieces, rows, path)
    ids = {name: idx for idx, name in enumerate(named) if name is not None}
    text_ids = {name: idx for name, idx in ids.items() if name not in SPECIAL_TOKENS}
    return ImportedVocabulary(
        tokenizer=None,
        rows=(),
        new_names={},
        by_bytes={_piece_bytes(piece): idx for piece, idx in text_ids.items()},
        names={name: idx for name, idx in ids.items() if name in SPECIAL_TOKENS},
        encode=_make_encoder(split, text_ids),
    )


def _open(path: Path) -> tuple[Callable[[str], list[str]], list[str]]:
    """Return the function that splits a text, and the pieces after the library's own three."""
    try:
        import sentencepiece  # pyright: ignore[reportMissingImports]
    except ImportError as exc:
        message = f"{path} needs sentencepiece, which is not installed: pip install sentencepiece"
        raise CheckpointError(message) from exc
    if not path.is_file():
        message = f"{path} is missing. Give the sentencepiece model of the checkpoint."
        raise CheckpointError(message)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        count = processor.get_piece_size()
        pieces = [str(processor.id_to_piece(idx)) for idx in range(_NUM_OWN, count)]
    except (OSError, RuntimeError) as exc:
        message = f"{path} is no sentencepiece model: {exc} Copy or download it again."
        raise CheckpointError(message) from exc
    return (lambda text: processor.encode(text, out_type=str)), pieces


def _name_rows(pieces: Sequence[str], rows: int, path: Path) -> list[str | None]:
    named: list[str | None] = [*FAIRSEQ_SPECIAL, *pieces]
    num_after = rows - len(named)
    if num_after < 0:
        message = f"{path} has {len(pieces)} pieces, too many for a table of {rows} rows."
        raise CheckpointError(message)
    if num_after == _NUM_AFTER_PIECES:
        named += [*([None] * (num_after - 1)), "<mask>"]
    return named


def _piece_bytes(piece: str) -> bytes:
    found = re.fullmatch(r"<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(found[1]) if found else piece.replace(_SPACE, " ").encode("utf-8")


def _make_encoder(
    split: Callable[[str], list[str]], ids: dict[str, int]
) -> Callable[[bytes], list[int]]:
    def encode(data: bytes) -> list[int]:
        text = data.decode("utf-8", "replace")
        pieces = split(text)
        # The library opens every text with a space, also the inside of a word.
        if pieces and pieces[0].startswith(_SPACE) and not text.startswith(" "):
            inside = pieces[0].removeprefix(_SPACE)
            pieces[:1] = [inside] if inside in ids else pieces[:1]
        if not pieces and text.isspace():
            pieces = [_SPACE]
        return [ids[piece] for piece in pieces if piece in ids]

    return encode
