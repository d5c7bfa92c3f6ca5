"""Raw notebooks in Parquet files.

Columns ``repo``, ``path``, ``content``, and where known ``commit``, ``licence`` or ``license``.
"""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.sources.records import (
    LicenceFile,
    Location,
    Problem,
    RawFile,
    check_size,
    is_unsafe,
    make_file,
    readable,
)

__all__ = ["PARQUET_SUFFIX", "files_of_table"]

PARQUET_SUFFIX = ".parquet"

_NEEDED = ("repo", "path", "content")
_OPTIONAL = ("commit", "licence", "license")
# Held in memory at once; notebooks have 0.2 to 0.7 MB on average.
_ROWS_A_BATCH = 16
_MAX_RATIO = 1_000
_ALWAYS_ALLOWED_BYTES = 256 << 20


def files_of_table(path: Path) -> Iterator[RawFile | LicenceFile]:
    """Read a table's notebooks, and licence files where it has them.

    Where it is damaged, what was read before counts, and the table itself comes last, as a file
    with a problem. A group of rows that unpacks to far too much is such a file, too.
    """
    problem: Problem | None
    try:
        with (
            path.open("rb") as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as table,
        ):
            problem = _check_columns(table.schema_arrow)
            for number in range(0 if problem else table.num_row_groups):
                bomb = _check_ratio(table, number)
                if bomb:
                    yield _problem_file(path, bomb)
                else:
                    yield from _files(table, number, readable(path.name))
    except OSError as exc:
        # Arrow's own errors carry no number; those of the file system do.
        reason = "damaged_parquet" if exc.errno is None else "unreadable_archive"
        problem = (reason, exc.strerror or str(exc))
    except (pa.ArrowException, ValueError) as exc:
        problem = ("damaged_parquet", str(exc))
    if problem:
        yield _problem_file(path, problem)


def _problem_file(path: Path, problem: Problem) -> RawFile:
    name = readable(path.name)
    location = Location(repo=name.removesuffix(PARQUET_SUFFIX), old_commit=None, path=name)
    return RawFile(name=name, location=location, data=None, problem=problem, archive=name)


def _check_columns(schema: pa.Schema) -> Problem | None:
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        return "missing_columns", f"no column {', '.join(missing)} among {', '.join(schema.names)}"
    for name in _NEEDED + _OPTIONAL:
        kind = schema.field(name).type if name in schema.names else pa.string()
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if not is_text and not (name == "content" and is_binary):
            return "missing_columns", f"column {name} is {kind}, no text"
    return None


def _check_ratio(table: pq.ParquetFile, number: int) -> Problem | None:
    """Refuse rows that unpack to far more than honest data do (see ``compression``)."""
    group = table.metadata.row_group(number)
    for chunk in (group.column(column) for column in range(group.num_columns)):
        allowed = max(chunk.total_compressed_size * _MAX_RATIO, _ALWAYS_ALLOWED_BYTES)
        if chunk.path_in_schema in _NEEDED + _OPTIONAL and chunk.total_uncompressed_size > allowed:
            unpacked = f"{chunk.path_in_schema} unpacks to {chunk.total_uncompressed_size} bytes"
            return "decompression_bomb", f"row group {number}: {unpacked}"
    return None


def _files(table: pq.ParquetFile, number: int, archive: str) -> Iterator[RawFile | LicenceFile]:
    columns = [name for name in _NEEDED + _OPTIONAL if name in table.schema_arrow.names]
    for batch in table.iter_batches(
        _ROWS_A_BATCH, row_groups=[number], columns=columns, use_threads=False
    ):
        contents = batch.column("content")
        names = batch.drop_columns(["content"])
        rows = names.cast(pa.schema([(name, pa.binary()) for name in names.column_names]))
        for row, content in zip(rows.to_pylist(), contents, strict=True):
            texts = {name: (value or b"").decode("utf-8", "replace") for name, value in row.items()}
            yield _make_file(texts, content, archive)


def _make_file(row: Mapping[str, str], content: pa.Scalar, archive: str) -> RawFile | LicenceFile:
    repo, path = row["repo"].strip("/"), row["path"]
    licence = row.get("licence") or row.get("license") or None
    commit = row.get("commit") or None
    repository = Repository(
        licence=licence, licence_source=archive if licence else None, commit=commit
    )
    data, problem = _read(content)
    if not repo or is_unsafe(path) or is_unsafe(repo):
        data, problem = None, ("unsafe_path", "no repo, no path, or one that leads out")
    location = Location(repo=repo or archive, old_commit=None, path=path)
    return make_file(
        f"{location.repo}/{path}",
        location,
        data,
        problem=problem,
        archive=archive,
        repository=repository if commit or licence else None,
    )


def _read(content: pa.Scalar) -> tuple[bytes | None, Problem | None]:
    buffer = content.as_buffer()
    if buffer is None:
        return None, ("missing_content", "the table has no content for it")
    problem = check_size(buffer.size)
    return None if problem else buffer.to_pybytes(), problem
