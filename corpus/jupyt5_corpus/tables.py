"""The Parquet side: schemas, a streaming writer with bounded memory, and readers."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5.errors import CorpusError
from jupyt5_corpus.row import CellText, Key, Row

__all__ = [
    "CORPUS_SCHEMA",
    "PYARROW_VERSION",
    "RowWriter",
    "iter_keys",
    "iter_rows",
    "write_selected",
]

PYARROW_VERSION: str = pa.__version__

_CELLS = pa.list_(pa.struct([("kind", pa.string()), ("source", pa.string())]))
_ROW_FIELDS = [
    ("repo", pa.string()),
    ("path", pa.string()),
    ("commit", pa.string()),
    ("blob_sha", pa.string()),
    ("licence", pa.string()),
    ("licence_source", pa.string()),
    ("nbformat", pa.int32()),
    ("language", pa.string()),
    ("kernel", pa.string()),
    ("cells", _CELLS),
    ("num_code", pa.int32()),
    ("num_markdown", pa.int32()),
    ("markdown_fraction", pa.float64()),
    ("num_tokens_estimate", pa.int64()),
    ("content_hash", pa.string()),
    ("retrieved", pa.string()),
    ("markdown_focused", pa.bool_()),
    ("fork_of", pa.string()),
]
_WORK_FIELDS = [("is_substantial", pa.bool_()), ("is_old_version", pa.bool_())]
_ADDED_FIELDS = [
    ("duplicate_cluster", pa.string()),
    ("family", pa.string()),
    ("split", pa.string()),
]
_WORK_SCHEMA = pa.schema([*_ROW_FIELDS, *_WORK_FIELDS])
CORPUS_SCHEMA = pa.schema([*_ROW_FIELDS, *_ADDED_FIELDS])

# A row group is closed at whichever comes first, so memory stays flat whatever the input.
_ROWS_A_GROUP = 500
_CHARS_A_GROUP = 16 << 20
_ZSTD_LEVEL = 3
_KEY_COLUMNS = [field.name for field in fields(Key) if field.name not in {"unit_idx", "row_idx"}]


class RowWriter:
    """Writes rows to one Parquet file, a row group at a time."""

    def __init__(self, path: Path) -> None:
        self._writer = _open_writer(path, _WORK_SCHEMA)
        self._rows: list[Row] = []
        self._num_chars = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        try:
            if exc_type is None:
                self._flush()
        finally:
            self._writer.close()

    def write(self, row: Row) -> None:
        """Add a row; it reaches the disk when its row group is full or the file is closed."""
        self._rows.append(row)
        self._num_chars += sum(len(cell.source) for cell in row.cells)
        if len(self._rows) >= _ROWS_A_GROUP or self._num_chars >= _CHARS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = [
            _cells_array([row.cells for row in self._rows])
            if field.name == "cells"
            else pa.array([getattr(row, field.name) for row in self._rows], field.type)
            for field in _WORK_SCHEMA
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=_WORK_SCHEMA))
        self._rows, self._num_chars = [], 0


def iter_keys(path: Path, unit_idx: int) -> Iterator[Key]:
    """Read the keys of a unit's rows, without their cells."""
    row_idx = 0
    with pq.ParquetFile(path) as table_file:
        for batch in table_file.iter_batches(columns=_KEY_COLUMNS):
            for values in batch.to_pylist():
                yield Key(unit_idx=unit_idx, row_idx=row_idx, **values)
                row_idx += 1


def write_selected(
    source_path: Path,
    target_path: Path,
    *,
    dropped: Collection[int],
    clusters: Mapping[int, str],
    families: Mapping[str, tuple[str, str]],
) -> Mapping[str, int]:
    """Copy a unit's rows that stay, with the columns that only the whole corpus can tell.

    Args:
        source_path: The unit's rows.
        target_path: The corpus shard to write.
        dropped: Indices of rows that go.
        clusters: Row index → duplicate cluster.
        families: Repository → family and side of the split.

    Returns:
        Totals over the rows written, by name.
    """
    start = 0
    totals: Counter[str] = Counter()
    with (
        pq.ParquetFile(source_path) as table_file,
        _open_writer(target_path, CORPUS_SCHEMA) as writer,
    ):
        for group_idx in range(table_file.num_row_groups):
            group = table_file.read_row_group(group_idx)
            kept = [idx for idx in range(group.num_rows) if start + idx not in dropped]
            if kept:
                selected = _complete(
                    group.take(kept), [clusters.get(start + idx) for idx in kept], families
                )
                writer.write_table(selected)
                totals.update(_count(selected))
            start += group.num_rows
    return totals


def _complete(
    rows: pa.Table, clusters: list[str | None], families: Mapping[str, tuple[str, str]]
) -> pa.Table:
    """Add the columns that only the whole corpus can tell."""
    repos = [families[repo] for repo in rows.column("repo").to_pylist()]
    added = {
        "duplicate_cluster": clusters,
        "family": [family for family, _ in repos],
        "split": [side for _, side in repos],
    }
    for name, values in added.items():
        rows = rows.append_column(name, pa.array(values, pa.string()))
    return rows.select(CORPUS_SCHEMA.names).combine_chunks()


def iter_rows(path: Path) -> Iterator[Mapping[str, object]]:
    """Read a corpus shard row by row; ``cells`` is a tuple of ``CellText``.

    Raises:
        CorpusError: If the file is no Parquet file or its columns are not a corpus's.
    """
    try:
        with pq.ParquetFile(path) as table_file:
            if not table_file.schema_arrow.equals(CORPUS_SCHEMA):
                message = f"{path} has other columns than a corpus shard. Build the corpus again."
                raise CorpusError(message)
            for batch in table_file.iter_batches(batch_size=_ROWS_A_GROUP):
                for values in batch.to_pylist():
                    yield {**values, "cells": tuple(CellText(**cell) for cell in values["cells"])}
    except pa.ArrowException as exc:
        message = f"{path} is not a readable Parquet file: {exc}. Build the corpus again."
        raise CorpusError(message) from exc


def _open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=_ZSTD_LEVEL)


def _cells_array(cells_of_rows: Sequence[Sequence[CellText]]) -> pa.ListArray:
    offsets = [0, *accumulate(len(cells) for cells in cells_of_rows)]
    cells = [cell for cells in cells_of_rows for cell in cells]
    structs = pa.StructArray.from_arrays(
        [
            pa.array([cell.kind for cell in cells], pa.string()),
            pa.array([cell.source for cell in cells], pa.string()),
        ],
        fields=list(_CELLS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


def _count(table: pa.Table) -> dict[str, int]:
    def total(name: str) -> int:
        return sum(int(value) for value in table.column(name).to_pylist())

    sides = table.column("split").to_pylist()
    return {
        "num_notebooks": table.num_rows,
        "num_validation_notebooks": sides.count("validation"),
        "num_markdown_focused": total("markdown_focused"),
        "num_code_cells": total("num_code"),
        "num_markdown_cells": total("num_markdown"),
        "num_tokens_estimate": total("num_tokens_estimate"),
    }
