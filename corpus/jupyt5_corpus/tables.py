"""The Parquet side: schemas, a streaming writer with bounded memory, and readers."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5.errors import CorpusError
from jupyt5_corpus.content import is_substantial
from jupyt5_corpus.row import CellText, Key, Row, Signals

__all__ = [
    "CORPUS_SCHEMA",
    "PYARROW_VERSION",
    "Added",
    "CorpusWriter",
    "RowWriter",
    "count_rows",
    "iter_corpus",
    "iter_keys",
    "iter_rows",
    "iter_work_rows",
    "open_writer",
    "read_places",
    "write_selected",
]

PYARROW_VERSION: str = pa.__version__

_CELLS = pa.list_(pa.struct([("kind", pa.string()), ("source", pa.string())]))
_SIGNALS = pa.struct(
    [
        ("num_code_lines", pa.int64()),
        ("max_line_chars", pa.int64()),
        ("mean_line_chars", pa.float64()),
        ("alphanumeric_fraction", pa.float64()),
        ("comment_fraction", pa.float64()),
    ]
)
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
    ("num_redactions", pa.int32()),
    ("signals", _SIGNALS),
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
_ROW_COLUMNS = [field.name for field in fields(Row) if field.name not in {"cells", "signals"}]


class Added(NamedTuple):
    """What a row of the corpus has besides a ``Row``: what only the whole corpus can tell."""

    duplicate_cluster: str | None
    family: str
    split: str


class RowWriter:
    """Writes rows to one Parquet file of the work folder, a row group at a time."""

    _schema = _WORK_SCHEMA

    def __init__(self, path: Path) -> None:
        self._writer = open_writer(path, self._schema)
        self._rows: list[Row] = []
        self._added: list[Added] = []
        self._num_chars = 0
        self._totals: dict[str, int] = {}

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
        columns = [self._column(field) for field in self._schema]
        batch = pa.record_batch(columns, schema=self._schema)
        self._writer.write_batch(batch)
        self._count(batch)
        self._rows, self._added, self._num_chars = [], [], 0

    def _count(self, batch: pa.RecordBatch) -> None:
        """Look at what was written; rows of the work folder are not counted."""

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name == "cells":
            return _cells_array([row.cells for row in self._rows])
        if field.name == "signals":
            values = [row.signals and asdict(row.signals) for row in self._rows]
            return pa.array(values, field.type)
        records = self._added if field.name in Added._fields else self._rows
        return pa.array([getattr(record, field.name) for record in records], field.type)


class CorpusWriter(RowWriter):
    """Writes rows to a shard of the corpus and counts them."""

    _schema = CORPUS_SCHEMA

    @property
    def totals(self) -> Mapping[str, int]:
        """Totals over the rows written, by name; whole once the file is closed."""
        return self._totals

    def add(self, row: Row, added: Added) -> None:
        """Add a row with what only the whole corpus can tell."""
        self._added.append(added)
        self.write(row)

    def _count(self, batch: pa.RecordBatch) -> None:
        counts = count_rows(pa.Table.from_batches([batch]))
        self._totals = _add_counts(self._totals, counts)


def iter_work_rows(path: Path) -> Iterator[Row]:
    """Read the rows that ``RowWriter`` wrote, a row group at a time."""
    with pq.ParquetFile(path) as table_file:
        for group_idx in range(table_file.num_row_groups):
            group = table_file.read_row_group(group_idx)
            columns = [group.column(name).to_pylist() for name in _ROW_COLUMNS]
            cells_of_rows = _cells_of(group.column("cells"))
            for cells, *values in zip(cells_of_rows, *columns, strict=True):
                yield Row(cells=cells, **dict(zip(_ROW_COLUMNS, values, strict=True)))


def iter_keys(path: Path, unit_idx: int) -> Iterator[Key]:
    """Read the rows that ``RowWriter`` wrote without their cells."""
    row_idx = 0
    with pq.ParquetFile(path) as table_file:
        for batch in table_file.iter_batches(columns=_KEY_COLUMNS):
            for values in batch.to_pylist():
                yield Key(unit_idx=unit_idx, row_idx=row_idx, **values)
                row_idx += 1


def read_places(path: Path) -> list[tuple[str, str, str | None]]:
    """Read repository, path and commit of every row that ``RowWriter`` wrote."""
    columns = pq.read_table(path, columns=["repo", "path", "commit"]).to_pydict()
    return list(zip(columns["repo"], columns["path"], columns["commit"], strict=True))


def write_selected(
    source_path: Path,
    target_path: Path,
    *,
    dropped: Collection[int],
    added: Sequence[Added],
    licences: Mapping[str, tuple[str, str]],
) -> Mapping[str, int]:
    """Copy a unit's rows that stay, without making Python objects of their cells.

    Args:
        source_path: The unit's rows.
        target_path: The corpus shard to write.
        dropped: Indices of rows that go.
        added: The added columns of every row, dropped ones too.
        licences: Repository → licence and its source, for rows that have none.

    Returns:
        Totals over the rows written, by name.
    """
    start = 0
    totals: dict[str, int] = {}
    with (
        pq.ParquetFile(source_path) as table_file,
        open_writer(target_path, CORPUS_SCHEMA) as writer,
    ):
        for group_idx in range(table_file.num_row_groups):
            group = table_file.read_row_group(group_idx)
            kept = [idx for idx in range(group.num_rows) if start + idx not in dropped]
            if kept:
                selected = _license(group.take(kept), licences)
                selected = _complete(selected, [added[start + idx] for idx in kept])
                writer.write_table(selected)
                totals = _add_counts(totals, count_rows(selected))
            start += group.num_rows
    return totals


def _license(rows: pa.Table, licences: Mapping[str, tuple[str, str]]) -> pa.Table:
    """Fill in the licences that were found in the repositories' files."""
    if not licences:
        return rows
    known = rows.select(["repo", "licence", "licence_source"]).to_pydict()
    pairs = [
        (licence, source) if licence is not None else licences.get(repo, (None, None))
        for repo, licence, source in zip(*known.values(), strict=True)
    ]
    for name, values in zip(("licence", "licence_source"), zip(*pairs, strict=True), strict=True):
        column_idx = rows.column_names.index(name)
        rows = rows.set_column(column_idx, name, pa.array(values, pa.string()))
    return rows


def _complete(rows: pa.Table, added: Sequence[Added]) -> pa.Table:
    """Add the columns that only the whole corpus can tell."""
    for name, values in zip(Added._fields, zip(*added, strict=True), strict=True):
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


def iter_corpus(path: Path) -> Iterator[tuple[Row, Added]]:
    """Read a corpus shard row by row, each with what only the whole corpus can tell.

    Raises:
        CorpusError: As ``iter_rows``.
    """
    for values in iter_rows(path):
        record = dict(values)
        added = Added(*(cast("str", record.pop(name)) for name in Added._fields))
        signals = cast("Mapping[str, Any] | None", record.pop("signals"))
        cells = cast("tuple[CellText, ...]", record["cells"])
        row = Row(
            **cast("dict[str, Any]", record),
            signals=None if signals is None else Signals(**signals),
            is_substantial=is_substantial(cell.source for cell in cells),
            is_old_version=False,  # no longer known, and nobody asks
        )
        yield row, added


def open_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a file of the corpus for writing, always with the same settings."""
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


def _cells_of(column: pa.ChunkedArray) -> Iterator[tuple[CellText, ...]]:
    lists = column.combine_chunks()
    structs = lists.flatten()
    kinds, sources = structs.field("kind").to_pylist(), structs.field("source").to_pylist()
    end = 0
    for num_cells in lists.value_lengths().to_pylist():
        start, end = end, end + num_cells
        yield tuple(
            CellText(kind=kind, source=source)
            for kind, source in zip(kinds[start:end], sources[start:end], strict=True)
        )


def count_rows(table: pa.Table) -> dict[str, int]:
    """Count some rows of a corpus; the counts of parts add up to those of the whole."""

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
        "num_redactions": total("num_redactions"),
    }


def _add_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + number for name, number in other.items()}
