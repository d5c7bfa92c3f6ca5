r"""Vocabularies of imported models made complete for JuPyT5, and rows for another vocabulary."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as _Engine

from jupyt5.errors import CheckpointError
from jupyt5.model.imports.dictionary import FAIRSEQ_SPECIAL, PADDING, Pair, spell, token_bytes
from jupyt5.tokenizer import SPECIAL_TOKENS, Tokenizer

__all__ = [
    "ImportedVocabulary",
    "RowPlan",
    "build_vocabulary",
    "plan_transplant",
    "start_pieces",
]

RowPlan = Sequence[tuple[int, ...]]
"""For each new row the old rows it is the mean of; one old row is copied."""

_MASK = "<mask>"
_BLANKS = frozenset(" \t\n\r\f\v")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedVocabulary:
    """A parent's vocabulary.

    Attributes:
        tokenizer: Encodes by the parent's own merges, one token for each row; None where the
            parent's way cannot be a ``tokenizer.json`` of ours (sentencepiece).
        rows: How each of that tokenizer's rows comes from the parent's.
        new_names: Tokens that the parent did not have, by row: control codes, missing bytes.
        by_bytes: The parent's row of each token of text.
        names: The parent's row of each special token.
        encode: Bytes to the parent's rows.
    """

    tokenizer: Tokenizer | None
    rows: RowPlan
    new_names: Mapping[str, int]
    by_bytes: Mapping[bytes, int]
    names: Mapping[str, int]
    encode: Callable[[bytes], list[int]]


class _Tokenizing(Protocol):
    def tokenize(self, sequence: str) -> Sequence["_Piece"]: ...


class _Piece(Protocol):
    @property
    def id(self) -> int: ...


def start_pieces(token: str, encode: Callable[[bytes], list[int]], unk_id: int) -> tuple[int, ...]:
    """Return the parent's rows that a token which it lacks starts as the mean of.

    A control code is read as its word, so that ``<code>`` starts near "code"; what has no pieces
    starts as ``<unk>``.
    """
    if token == _MASK:
        return (unk_id,)
    text = token.strip("<>").encode() if token in SPECIAL_TOKENS else token_bytes(token)
    return tuple(encode(text)) or (unk_id,)


def plan_transplant(tokenizer: Tokenizer, parent: ImportedVocabulary) -> tuple[RowPlan, int]:
    """Plan the table of another tokenizer from a parent's rows.

    A token that spells the same bytes (or is the same special token) keeps its row, any other
    starts as the mean of the parent's pieces of it.

    Returns:
        The plan, and how many rows are kept.
    """
    unk_id = parent.names["<unk>"]
    old_tokens = parent.tokenizer.tokens if parent.tokenizer else ()
    plan: list[tuple[int, ...]] = []
    num_shared = 0
    for idx, token in enumerate(tokenizer.tokens):
        if token in SPECIAL_TOKENS:
            kept = parent.names.get(token)
        elif PADDING.fullmatch(token):
            kept = idx if old_tokens[idx : idx + 1] == (token,) else None
        else:
            kept = parent.by_bytes.get(token_bytes(token))
        num_shared += kept is not None
        if kept is not None:
            plan.append((kept,))
        elif PADDING.fullmatch(token):
            plan.append((unk_id,))
        else:
            plan.append(start_pieces(token, parent.encode, unk_id))
    return plan, num_shared


def build_vocabulary(named: Sequence[str | None], merges: Sequence[Pair]) -> ImportedVocabulary:
    """Build a tokenizer whose ids are a table's rows, and add what JuPyT5 needs.

    Special tokens and bytes that the parent lacks take its padding rows, then rows of their own;
    for what they start as see ``start_pieces``.

    Args:
        named: Token string of each row; None for padding.
        merges: The parent's merges, in order.

    Raises:
        CheckpointError: If one of the basic special tokens is missing.
    """
    made = {left + right for left, right in merges}
    names = [_normalise(name, made) for name in named]
    # Of a name that stands in two rows the last one counts, as in fairseq.
    ids = {name: idx for idx, name in enumerate(names) if name is not None}
    for token in FAIRSEQ_SPECIAL:
        if token not in ids:
            message = f"The vocabulary has no {token}. Is it that of a BART model?"
            raise CheckpointError(message)
    new_names = _place_missing(names, ids)
    num_rows = max(len(names), 1 + max(new_names.values(), default=0))
    whole = {idx: token for token, idx in (ids | new_names).items()}
    tokens = [whole.get(idx, f"<unused{idx}>") for idx in range(num_rows)]
    engine = _build_engine(tokens, merges)
    unk_id = ids["<unk>"]
    encode = _make_encoder(engine, unk_id=unk_id, new_rows=frozenset(new_names.values()))
    rows: list[tuple[int, ...]] = [(idx,) for idx in range(num_rows)]
    for token, idx in new_names.items():
        rows[idx] = start_pieces(token, encode, unk_id)
    return ImportedVocabulary(
        tokenizer=Tokenizer(engine),
        rows=rows,
        new_names=new_names,
        by_bytes=_map_bytes(ids),
        names={name: idx for name, idx in ids.items() if _is_special(name)},
        encode=encode,
    )


def _map_bytes(ids: Mapping[str, int]) -> dict[bytes, int]:
    by_bytes = {token_bytes(name): idx for name, idx in ids.items() if not _is_special(name)}
    plain = {name: idx for name, idx in ids.items() if name and not set(name) - _BLANKS}
    return by_bytes | {name.encode("utf-8"): idx for name, idx in plain.items()}


def _is_special(name: str) -> bool:
    return name in SPECIAL_TOKENS


def _normalise(name: str | None, made: set[str]) -> str | None:
    """Drop names of padding; whitespace that no merge makes is spelt as the text it is.

    Whitespace that stands there as plain text was added to the merges by hand, and so is found
    before they are used, also where a merge makes the same bytes: then both keep their rows.
    """
    if name is None or PADDING.fullmatch(name):
        return None
    text = token_bytes(name).decode("utf-8", "replace")
    is_blank = bool(text) and not set(text) - _BLANKS
    return text if is_blank and len(text) > 1 and name not in made else name


def _place_missing(names: Sequence[str | None], ids: Mapping[str, int]) -> dict[str, int]:
    """Give rows to the special tokens and bytes that are missing: padding first, then new ones."""
    spellings = {token_bytes(name) for name in ids if not _is_special(name)}
    missing = [token for token in SPECIAL_TOKENS if token not in ids]
    single = (bytes([byte]) for byte in range(256))
    missing += [spell(data) for data in single if data not in spellings]
    padding = [idx for idx, name in enumerate(names) if name is None]
    free = [*padding, *range(len(names), len(names) + len(missing))]
    return dict(zip(missing, free, strict=False))


def _build_engine(tokens: Sequence[str], merges: Iterable[Pair]) -> _Engine:
    ids = {token: idx for idx, token in enumerate(tokens)}
    # A dictionary may be trimmed: merges of tokens without a row are left out.
    kept = [(a, b) for a, b in merges if a in ids and b in ids and a + b in ids]
    engine = _Engine(models.BPE(ids, kept))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    engine.decoder = decoders.ByteLevel()
    add: Any = engine  # its lists have no element type
    add.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    blanks = [token for token in tokens if token and not set(token) - _BLANKS]
    add.add_tokens([AddedToken(token, special=False, normalized=False) for token in blanks])
    engine.encode_special_tokens = True
    return engine


def _make_encoder(
    engine: _Engine, *, unk_id: int, new_rows: frozenset[int]
) -> Callable[[bytes], list[int]]:
    bpe = cast("_Tokenizing", engine.model)

    def encode(data: bytes) -> list[int]:
        try:
            ids = engine.encode(data.decode("utf-8"), add_special_tokens=False).ids
        except UnicodeDecodeError:  # a piece of a character: the merges alone
            ids = [piece.id for piece in bpe.tokenize(spell(data))]
        return [unk_id if idx in new_rows else idx for idx in ids]

    return encode
