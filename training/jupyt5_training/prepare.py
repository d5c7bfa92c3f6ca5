"""``jupyt5-train prepare``: a corpus of Parquet shards becomes token arrays.

Documents of any origin (``python_sources`` makes functions of them) go through ``write_data``.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5.console import progress
from jupyt5.errors import TrainingError, UsageError
from jupyt5.files import atomic_folder, require_new_folder, sha256_file, write_atomic
from jupyt5.tokenizer import Tokenizer, train_tokenizer
from jupyt5_training.arrays import DATA_NAME, KINDS, SPLITS

__all__ = ["Document", "PrepareConfig", "iter_rows", "prepare", "write_data"]

logger = logging.getLogger(__name__)

_COLUMNS = ["language", "split", "cells", "markdown_focused"]
_ROWS_PER_BATCH = 64
_MAX_VOCAB_SIZE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareConfig:
    """What goes into the arrays.

    Attributes:
        vocab_size: Size of the tokenizer trained here; unused with a given tokenizer.
        language: Keep notebooks of this language only; ``all`` keeps every one.
        markdown_focused_only: Keep Markdown-focused notebooks only (the paper's second set).
        max_target_copies: A cell text is a target at most so often; its further copies serve
            as context only. Templates and translations would fill the epoch otherwise.
        tokenizer_sample_bytes: Text that the tokenizer is trained on, drawn evenly.
    """

    vocab_size: int = 8192
    language: str = "python"
    markdown_focused_only: bool = False
    max_target_copies: int = 2
    tokenizer_sample_bytes: int = 24_000_000


@dataclass(frozen=True, slots=True)
class Document:
    """Cells that stand together: a notebook, or the parts of a function.

    ``split`` is one of ``SPLITS``; ``kinds`` (of ``KINDS``) and ``sources`` have one item a cell,
    none of them blank.
    """

    split: str
    kinds: tuple[str, ...]
    sources: tuple[str, ...]


def prepare(
    corpus: Path, out: Path, config: PrepareConfig, *, tokenizer_path: Path | None = None
) -> dict[str, object]:
    """Write token arrays for a corpus; the folder appears only when complete.

    Args:
        corpus: Folder made by ``jupyt5-corpus build``.
        out: New folder.
        config: What to keep.
        tokenizer_path: Use this tokenizer instead of training one.

    Returns:
        The content of ``data.json``.

    Raises:
        TrainingError: If the corpus is not one, or nothing is left to train on.
        FileExistsError: If ``out`` is not empty.
    """
    shards = _find_shards(corpus)
    return write_data(
        lambda: _iter_notebooks(shards, config),
        out,
        config,
        tokenizer_path=tokenizer_path,
        manifest_sha256=lambda: sha256_file(corpus / "manifest.json"),
    )


def write_data(
    documents: Callable[[], Iterator[Document]],
    out: Path,
    config: PrepareConfig,
    *,
    tokenizer_path: Path | None,
    manifest_sha256: Callable[[], str],
) -> dict[str, object]:
    """Write token arrays for documents; the folder appears only when complete.

    Args:
        documents: Starts an iteration over all of them, in the same order each time.
        out: New folder.
        config: Vocabulary, copies, sample.
        tokenizer_path: Use this tokenizer instead of training one.
        manifest_sha256: Names what the documents were read from; asked for last.

    Returns:
        The content of ``data.json``.

    Raises:
        TrainingError: If nothing is left to train on.
        FileExistsError: If ``out`` is not empty.
    """
    require_new_folder(out)
    tokenizer = _open_tokenizer(documents, config, tokenizer_path)
    with atomic_folder(out) as folder:
        counts = _write_arrays(documents(), folder, tokenizer, config)
        tokenizer.save(folder / "tokenizer.json")
        info: dict[str, object] = {
            "config": asdict(config),
            "corpus_manifest_sha256": manifest_sha256(),
            "counts": counts,
            "dtype": _dtype_for(tokenizer).name,
            "tokenizer_sha256": sha256_file(folder / "tokenizer.json"),
            "vocab_size": tokenizer.vocab_size,
        }
        write_atomic(folder / DATA_NAME, json.dumps(info, indent=2, sort_keys=True) + "\n")
    return info


def _open_tokenizer(
    documents: Callable[[], Iterator[Document]], config: PrepareConfig, path: Path | None
) -> Tokenizer:
    if path is not None:
        return Tokenizer.load(path)
    if config.vocab_size > _MAX_VOCAB_SIZE:
        message = (
            f"A vocabulary of {config.vocab_size} is too large. Use at most {_MAX_VOCAB_SIZE}."
        )
        raise UsageError(message)
    logger.info("training a tokenizer of %d ids", config.vocab_size)
    return train_tokenizer(_sample_texts(documents, config), config.vocab_size)


def iter_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file, some columns of each.

    Raises:
        TrainingError: If it cannot be read or lacks a column.
    """
    try:
        shard = pq.ParquetFile(path)
        names = shard.schema_arrow.names
        if not set(columns) <= set(names):
            missing = ", ".join(repr(name) for name in columns if name not in names)
            message = f"{path} has no column {missing}, only: {', '.join(names)}."
            raise TrainingError(message)
        for batch in shard.iter_batches(_ROWS_PER_BATCH, columns=list(columns)):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as exc:
        message = f"{path} cannot be read: {exc}. Make or fetch it again."
        raise TrainingError(message) from exc


def _find_shards(corpus: Path) -> tuple[Path, ...]:
    shards = tuple(sorted((corpus / "data").glob("*.parquet")))
    if not shards or not (corpus / "manifest.json").is_file():
        message = (
            f"{corpus} is not a finished corpus. "
            "Make one with: jupyt5-corpus build SOURCE --out DIR"
        )
        raise TrainingError(message)
    return shards


def _iter_notebooks(shards: Sequence[Path], config: PrepareConfig) -> Iterator[Document]:
    for shard in shards:
        for row in iter_rows(shard, _COLUMNS):
            if config.language != "all" and (row["language"] or "python") != config.language:
                continue
            if config.markdown_focused_only and not row["markdown_focused"]:
                continue
            # Blank and raw cells are skipped before C is counted, so they may as well go.
            cells = [
                cell
                for cell in row["cells"]
                if cell["kind"] in {"code", "markdown"} and cell["source"].strip()
            ]
            yield Document(
                row["split"],
                tuple(cell["kind"] for cell in cells),
                tuple(cell["source"] for cell in cells),
            )


def _sample_texts(
    documents: Callable[[], Iterator[Document]], config: PrepareConfig
) -> Iterator[str]:
    """Yield every k-th training document's cells, once each, up to the sample size."""
    total_bytes = sum(
        len(source)
        for document in progress(documents(), desc="measure", unit="doc")
        if document.split == "train"
        for source in document.sources
    )
    stride = max(1, round(total_bytes / config.tokenizer_sample_bytes))
    seen: set[bytes] = set()
    for idx, document in enumerate(documents()):
        if document.split != "train" or idx % stride:
            continue
        for source in document.sources:
            digest = _digest(source)
            if digest not in seen:
                seen.add(digest)
                yield source


def _write_arrays(
    documents: Iterator[Document], folder: Path, tokenizer: Tokenizer, config: PrepareConfig
) -> dict[str, dict[str, int]]:
    writers = {
        split: _SplitWriter(folder, split, tokenizer, config.max_target_copies) for split in SPLITS
    }
    for document in progress(documents, desc="tokenise", unit="doc"):
        writers[document.split].add(document)
    counts = {split: writer.close() for split, writer in writers.items()}
    if not counts["train"]["targets"]:
        message = (
            f"No training cell is left (language of notebooks: {config.language}). "
            "Use another corpus, or --language all for one in other languages."
        )
        raise TrainingError(message)
    return counts


class _SplitWriter:
    """Appends documents to one split's arrays."""

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, max_copies: int) -> None:
        self._folder = folder
        self._split = split
        self._tokenizer = tokenizer
        self._dtype = _dtype_for(tokenizer)
        self._max_copies = max_copies
        self._stream = (folder / f"{split}.tokens.bin").open("wb")
        self._lengths: list[int] = []
        self._kinds: list[int] = []
        self._notebook_offsets = [0]
        self._targets: list[int] = []
        self._copies: Counter[bytes] = Counter()

    def add(self, document: Document) -> None:
        for ids, kind, source in zip(
            self._tokenizer.encode_batch(document.sources),
            document.kinds,
            document.sources,
            strict=True,
        ):
            digest = _digest(source)
            self._copies[digest] += 1
            if self._copies[digest] <= self._max_copies and len(document.sources) > 1:
                self._targets.append(len(self._lengths))
            self._lengths.append(len(ids))
            self._kinds.append(KINDS.index(kind))
            self._stream.write(np.asarray(ids, self._dtype).tobytes())
        self._notebook_offsets.append(len(self._lengths))

    def close(self) -> dict[str, int]:
        self._stream.close()
        offsets = np.concatenate([[0], np.cumsum(np.asarray(self._lengths, np.int64))])
        arrays = {
            "cells": offsets.astype(np.int64),
            "kinds": np.asarray(self._kinds, np.uint8),
            "notebooks": np.asarray(self._notebook_offsets, np.int64),
            "targets": np.asarray(self._targets, np.int64),
        }
        for name, array in arrays.items():
            np.save(self._folder / f"{self._split}.{name}.npy", array, allow_pickle=False)
        return {
            "notebooks": len(self._notebook_offsets) - 1,
            "cells": len(self._lengths),
            "code_cells": self._kinds.count(KINDS.index("code")),
            "targets": len(self._targets),
            "tokens": int(offsets[-1]),
        }


def _digest(source: str) -> bytes:
    return hashlib.blake2b(source.encode("utf-8"), digest_size=12).digest()


def _dtype_for(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger]:
    if tokenizer.vocab_size > 1 << 32:  # pragma: no cover (no such tokenizer exists)
        message = "The vocabulary is too large."
        raise UsageError(message)
    wide = tokenizer.vocab_size > 1 << 16
    return cast("np.dtype[np.unsignedinteger]", np.dtype(np.uint32 if wide else np.uint16))
