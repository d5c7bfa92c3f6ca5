"""Reading a finished corpus by column, a row group at a time, with one clear error a defect.

Columns are found by name, so a corpus may have more of them than this version writes.
"""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5.errors import CorpusError
from jupyt5_corpus.manifest import MANIFEST_NAME, read_manifest

__all__ = [
    "iter_row_groups",
    "open_shard",
    "removed_paths",
    "repositories_in",
    "require_manifest",
    "shard_paths",
]


def require_manifest(folder: Path) -> dict[str, object]:
    """Read the manifest of a corpus folder.

    Raises:
        CorpusError: If the folder holds no corpus.
    """
    manifest = read_manifest(folder) if folder.is_dir() else None
    if manifest is None:
        message = f"{folder} holds no corpus: no {MANIFEST_NAME} of ours. Check the path."
        raise CorpusError(message)
    return manifest


def repositories_in(folder: Path, manifest: Mapping[str, object]) -> int:
    """Return how many repositories came in.

    Raises:
        CorpusError: If the manifest does not say so, as those of older versions.
    """
    number = manifest.get("repositories_in")
    if not isinstance(number, int):
        message = f"{folder} is of an older version of jupyt5-corpus. Build the corpus again."
        raise CorpusError(message)
    return number


def shard_paths(folder: Path, manifest: Mapping[str, object]) -> list[Path]:
    """Return the shards of a corpus, in the manifest's order.

    Raises:
        CorpusError: If the manifest names a file that is not in the folder.
    """
    return _paths(folder, manifest, "shards")


def removed_paths(folder: Path, manifest: Mapping[str, object]) -> list[Path]:
    """Return the lists of removals of a corpus, in the manifest's order.

    Raises:
        CorpusError: If the manifest names a file that is not in the folder.
    """
    return _paths(folder, manifest, "removed_files")


def _paths(folder: Path, manifest: Mapping[str, object], field: str) -> list[Path]:
    names = [
        str(entry["file"]) for entry in cast("Sequence[Mapping[str, object]]", manifest[field])
    ]
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"{folder / MANIFEST_NAME} names {name!r}, outside of the corpus."
            raise CorpusError(f"{message} Do not use this folder.")
    return [folder / name for name in names]


@contextmanager
def open_shard(path: Path) -> Generator[pq.ParquetFile]:
    """Open a shard.

    Raises:
        CorpusError: If the file is missing or no Parquet file, also while it is read.
    """
    try:
        with pq.ParquetFile(path) as table_file:
            yield table_file
    except FileNotFoundError as exc:
        message = f"{path} is missing. Run `jupyt5-corpus check` on the folder."
        raise CorpusError(message) from exc
    except pa.ArrowException as exc:
        reason = str(exc).rstrip(".")
        message = f"{path} is not a readable Parquet file: {reason}. Build the corpus again."
        raise CorpusError(message) from exc
    except OSError as exc:
        # The decompressor's errors carry no number; those of the file system do.
        if exc.errno is not None:
            raise
        message = f"{path} is damaged: {str(exc).rstrip('.')}. Build the corpus again."
        raise CorpusError(message) from exc


def iter_row_groups(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read some columns of a shard, a row group at a time.

    Raises:
        CorpusError: If the file is missing, damaged or lacks a column.
    """
    with open_shard(path) as table_file:
        known = set(table_file.schema_arrow.names)
        for name in columns:
            if name not in known:
                message = f"{path} has no column {name}. Build the corpus again."
                raise CorpusError(message)
        for group_idx in range(table_file.num_row_groups):
            yield table_file.read_row_group(group_idx, columns=list(columns)).combine_chunks()
