# pyright: basic
"""Sharded checkpoints on disk: safetensors shards, a manifest of hashes, one rename at the end.

Every rank writes ``shard-RANK-….safetensors`` into ``.step-….tmp``; once all are written, rank 0
adds the small files and ``manifest.json`` (name, size and SHA-256 of every file) and renames the
folder. So a folder ``step-…`` was complete when it appeared, and damage done later shows. Nothing
on disk is a pickle: what torch.distributed.checkpoint must know is read from the shards' headers.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from jupyt5.files import sha256_file, write_atomic

__all__ = ["MANIFEST_NAME", "ShardWriter", "find_damage", "remove_unfinished", "sync_folder"]

MANIFEST_NAME = "manifest.json"

_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileRecord:
    """What the manifest says of one file."""

    name: str
    num_bytes: int
    sha256: str


class ShardWriter(HuggingFaceStorageWriter):
    """Writes one checkpoint, all ranks together.

    Args:
        path: The folder to appear, on storage that all ranks share; one that is there already is
            replaced.
        add_files: Called by rank 0 with the unfinished folder when all shards are written.
    """

    def __init__(self, path: Path, *, add_files: Callable[[Path], None]) -> None:
        super().__init__(str(_unfinished(path)), save_distributed=True)
        self._final_path = path
        self._add_files = add_files

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Leave the folder alone: it is made once, below."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Make the unfinished folder, on rank 0, before any rank writes."""
        folder = _unfinished(self._final_path)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return super().prepare_global_plan(plans)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's shard and take its hash along to rank 0."""
        folder = _unfinished(self._final_path)
        records: dict[str, _FileRecord] = {}
        results: list[WriteResult] = []
        for result in super().write_data(plan, planner).wait():
            name = result.storage_data.relative_path
            if name not in records:
                records[name] = _describe(folder / name)
            results.append(replace(result, storage_data=records[name]))
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Add the small files and the manifest and let the folder appear; on rank 0."""
        folder = _unfinished(self._final_path)
        shards = {
            result.storage_data.name: result.storage_data for part in results for result in part
        }
        self._add_files(folder)
        others = [_describe(path) for path in folder.iterdir() if path.name not in shards]
        records = sorted([*shards.values(), *others], key=lambda record: record.name)
        manifest = {
            "format_version": _FORMAT_VERSION,
            "files": [asdict(record) for record in records],
        }
        write_atomic(folder / MANIFEST_NAME, json.dumps(manifest, indent=2) + "\n")
        sync_folder(folder)
        _replace_folder(folder, self._final_path)


def find_damage(folder: Path, *, part: int = 0, num_parts: int = 1) -> list[str]:
    """Compare a checkpoint with its manifest.

    Args:
        folder: The checkpoint.
        part: Which part of the files to read, so that ranks can share the work.
        num_parts: Number of parts.

    Returns:
        What is wrong, one phrase a file; empty for a whole checkpoint.
    """
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_text("utf-8"))
        records = [_FileRecord(**fields) for fields in manifest["files"]]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        return [f"{MANIFEST_NAME} is missing or damaged ({exc})"]
    problems = [_compare(folder, record) for record in records[part::num_parts]]
    # The reader takes every shard in the folder.
    unknown = {path.name for path in folder.glob("*.safetensors")} - {r.name for r in records}
    problems += [f"{name} is not in {MANIFEST_NAME}" for name in sorted(unknown)[part::num_parts]]
    return [problem for problem in problems if problem]


def remove_unfinished(folder: Path) -> None:
    """Remove what an earlier process left when it died while writing."""
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk, so that a rename outlives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unfinished(path: Path) -> Path:
    return path.parent / f".{path.name}.tmp"


def _describe(path: Path) -> _FileRecord:
    return _FileRecord(name=path.name, num_bytes=path.stat().st_size, sha256=sha256_file(path))


def _compare(folder: Path, record: _FileRecord) -> str:
    path = folder / record.name
    if path.parent != folder:
        return f"{record.name} is not the name of a file here"
    try:
        num_bytes = path.stat().st_size
        if num_bytes != record.num_bytes:
            return f"{record.name} has {num_bytes} bytes instead of {record.num_bytes}"
        return "" if sha256_file(path) == record.sha256 else f"{record.name} was changed"
    except FileNotFoundError:
        return f"{record.name} is missing"
    except OSError as exc:
        return f"{record.name} cannot be read ({exc.strerror})"


def _replace_folder(new: Path, path: Path) -> None:
    """Rename ``new`` to ``path``; one that stands there (a rollback's) goes first."""
    if path.exists():
        old = path.parent / f".{path.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        new.rename(path)
    sync_folder(path.parent)
