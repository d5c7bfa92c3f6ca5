r"""Byte-level BPE over notebook text: lossless, with whitespace learnt as tokens.

Newline plus indentation is one pre-token, so BPE learns ``\n`` + 8 spaces as a single token
(PyMT5's whitespace augmentation, learnt instead of listed). Special tokens are added by id only:
text that looks like ``<mask>`` stays ordinary text in both directions.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as _Engine

from jupyt5.errors import TokenizerError
from jupyt5.files import write_atomic
from jupyt5.infilling import CONTROL_CODES, CellView, SpecialIds

__all__ = ["SPECIAL_TOKENS", "Tokenizer", "train_tokenizer"]

# BART's order, so that pad is 1 and </s> is 2 as in its checkpoints; then our control codes.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", *CONTROL_CODES)

_SPLIT = (
    r"(?:\r?\n)+[ \t]*"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+"
    r"|[ \t]+(?=[ \t])"
    r"|[ \t]+"
    r"|\s"
)
# Byte-level spelling of \n and \r, and the letters themselves: imported whitespace tokens are text.
_NEWLINES = ("Ċ", "č", "\n", "\r")


class Tokenizer:
    """Text to ids and back; knows cells' line ends and the special ids."""

    def __init__(self, engine: _Engine) -> None:
        engine.encode_special_tokens = True
        self._engine = engine

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a ``tokenizer.json``.

        Raises:
            TokenizerError: If the file is missing, damaged, or lacks a special token.
        """
        try:
            engine = _Engine.from_file(str(path))
        except Exception as exc:  # the library raises bare Exception
            message = f"Tokenizer {path} cannot be read: {exc}. Give the path of a tokenizer.json."
            raise TokenizerError(message) from exc
        tokenizer = cls(engine)
        missing = [token for token in SPECIAL_TOKENS if engine.token_to_id(token) is None]
        if missing:
            message = f"Tokenizer {path} lacks the special tokens {' '.join(missing)}."
            raise TokenizerError(message)
        return tokenizer

    def save(self, path: str | Path) -> None:
        """Write ``tokenizer.json`` in one step."""
        write_atomic(Path(path), self._engine.to_str())

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included."""
        return self._engine.get_vocab_size()

    @cached_property
    def special(self) -> SpecialIds:
        """Ids of the special tokens."""
        ids = {token: self._id(token) for token in SPECIAL_TOKENS}
        return SpecialIds(
            pad=ids["<pad>"],
            bos=ids["<s>"],
            eos=ids["</s>"],
            slot=ids["<mask>"],
            control={code: ids[code] for code in CONTROL_CODES},
        )

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The vocabulary's token strings by id, in byte-level spelling."""
        return tuple(self._engine.id_to_token(idx) or "" for idx in range(self.vocab_size))

    @cached_property
    def special_id_set(self) -> frozenset[int]:
        """All special ids: never part of a text."""
        return frozenset(self._id(token) for token in SPECIAL_TOKENS)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; no special id is ever among them."""
        return self._engine.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, using all cores."""
        encodings = self._engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the exact text of ordinary ids; special ids are left out.

        Bytes that do not yet make a character (a cut inside one) become U+FFFD.
        """
        ordinary = [int(idx) for idx in ids if int(idx) not in self.special_id_set]
        return self._engine.decode(ordinary, skip_special_tokens=False)

    def find_line_ends(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> list[int]:
        """Return the token counts up to each line end; a newline opens the next line."""
        array = np.asarray(ids, dtype=np.int64)
        if not array.size:
            return []
        starts = np.flatnonzero(self.opens_line[array])
        return [*(int(start) for start in starts if start > 0), int(array.size)]

    def view(self, kind: str, ids: Sequence[int], *, blank: bool = False) -> CellView:
        """Describe a tokenised cell to ``jupyt5.infilling``."""
        return CellView(kind, self.find_line_ends(ids), blank=blank)

    def target_view(
        self, kind: str, prefix_ids: Sequence[int], suffix_ids: Sequence[int]
    ) -> CellView:
        """Describe a target to fill: prefix and suffix, tokenised apart, with the slot between."""
        prefix_ends = self.find_line_ends(prefix_ids)
        suffix_ends = [len(prefix_ids) + end for end in self.find_line_ends(suffix_ids)]
        return CellView(
            kind,
            [*prefix_ends, *suffix_ends],
            prefix_lines=len(prefix_ends),
            suffix_lines=len(suffix_ends),
        )

    @cached_property
    def unk_id(self) -> int:
        """Id of ``<unk>``, which byte-level text never needs."""
        return self._id("<unk>")

    @cached_property
    def opens_line(self) -> npt.NDArray[np.bool_]:
        """Whether a token starts a new line, by id."""
        return np.array([token.startswith(_NEWLINES) for token in self.tokens], dtype=np.bool_)

    def _id(self, token: str) -> int:
        idx = self._engine.token_to_id(token)
        if idx is None:
            message = f"The tokenizer lacks the special token {token}."
            raise TokenizerError(message)
        return idx


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer.

    Args:
        texts: Cell sources.
        vocab_size: Ids in all, special tokens and the 256 bytes included.

    Raises:
        TokenizerError: If ``vocab_size`` leaves no room for the bytes.
    """
    smallest = 256 + len(SPECIAL_TOKENS)
    if vocab_size < smallest:
        message = f"A vocabulary of {vocab_size} is too small. Use at least {smallest}."
        raise TokenizerError(message)
    engine = _Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        limit_alphabet=256,
        max_token_length=64,
    )
    engine.train_from_iterator(texts, trainer)
    return Tokenizer(engine)
