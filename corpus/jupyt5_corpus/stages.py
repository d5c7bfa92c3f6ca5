"""The two stages of a build that run unit by unit, in worker processes.

``read_unit`` turns an input unit into rows and removals in the work folder; ``write_unit`` turns
them into a shard of the corpus, once all units have been read. Each leaves a marker file, last,
after its data: a unit with a marker is done, also for a build that is started again.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from jupyt5.files import sha256_file, write_atomic
from jupyt5_corpus.compression import compress, open_packed
from jupyt5_corpus.filters import RowStep, apply_steps
from jupyt5_corpus.filters.parse import parse
from jupyt5_corpus.metadata import Repository, read_blobs, read_repositories
from jupyt5_corpus.row import Removal, Row
from jupyt5_corpus.sources import Unit, iter_files
from jupyt5_corpus.tables import RowWriter, write_selected

__all__ = ["Layout", "UnitPlan", "read_removals", "read_unit", "write_unit"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a build in progress keeps its files; all names carry the unit's index."""

    folder: Path

    @property
    def work(self) -> Path:
        """Folder of everything that is not part of the finished corpus."""
        return self.folder / "work"

    def rows(self, unit_idx: int) -> Path:
        """Rows of a unit that the steps over single rows kept."""
        return self.work / f"rows-{unit_idx:05d}.parquet"

    def early_removals(self, unit_idx: int) -> Path:
        """What these steps removed."""
        return self.work / f"removed-{unit_idx:05d}.jsonl.zst"

    def marker(self, stage: str, unit_idx: int) -> Path:
        """Marker of a finished stage, with its counts."""
        return self.work / f"{stage}-{unit_idx:05d}.json"

    def shard(self, unit_idx: int) -> Path:
        """Finished shard."""
        return self.folder / "data" / f"part-{unit_idx:05d}.parquet"

    def removed(self, unit_idx: int) -> Path:
        """Finished list of removals."""
        return self.folder / "removed" / f"part-{unit_idx:05d}.jsonl.zst"

    @contextmanager
    def whole(self, path: Path) -> Generator[Path]:
        """Yield a name in the work folder; the file gets its own when the block succeeds.

        So nothing unfinished ever lies in the folders that become the corpus.
        """
        temporary_path = self.work / f"{path.name}.tmp"
        yield temporary_path
        temporary_path.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlan:
    """What the steps over all notebooks decided about one unit's rows, by row index."""

    removals: Mapping[int, Removal]
    clusters: Mapping[int, str]
    families: Mapping[str, tuple[str, str]]


def read_unit(
    layout: Layout,
    unit_idx: int,
    unit: Unit,
    *,
    steps: Sequence[RowStep],
    should_stop: Callable[[], bool],
) -> None:
    """Read, parse and filter one unit.

    Raises:
        CorpusError: If the archive or its metadata are damaged.
        KeyboardInterrupt: If ``should_stop`` says so; nothing of the unit then counts.
    """
    removals: list[Removal] = []
    num_rows = 0
    with layout.whole(layout.rows(unit_idx)) as rows_path, RowWriter(rows_path) as writer:
        for item in apply_steps(_parsed(unit), steps):
            if should_stop():
                raise KeyboardInterrupt
            if isinstance(item, Removal):
                removals.append(item)
            else:
                writer.write(item)
                num_rows += 1
    write_atomic(layout.early_removals(unit_idx), _pack(removals))
    counts = {"num_rows": num_rows, "num_removed": len(removals)}
    write_atomic(layout.marker("read", unit_idx), orjson.dumps(counts))


def write_unit(layout: Layout, unit_idx: int, plan: UnitPlan) -> None:
    """Write one unit's shard and its list of removals."""
    with layout.whole(layout.shard(unit_idx)) as shard_path:
        totals = write_selected(
            layout.rows(unit_idx),
            shard_path,
            dropped=plan.removals.keys(),
            clusters=plan.clusters,
            families=plan.families,
        )
    removals = list(read_removals(layout.early_removals(unit_idx)))
    removals += [plan.removals[row_idx] for row_idx in sorted(plan.removals)]
    with layout.whole(layout.removed(unit_idx)) as removed_path:
        removed_path.write_bytes(_pack(removals))
    result = {
        "sha256": sha256_file(layout.shard(unit_idx)),
        "removed_sha256": sha256_file(layout.removed(unit_idx)),
        "removed": _count_reasons(removals),
        "totals": totals,
    }
    write_atomic(layout.marker("written", unit_idx), orjson.dumps(result))


def read_removals(path: Path) -> Iterator[Removal]:
    """Read a list of removals.

    Raises:
        CorpusError: If the file is damaged.
    """
    with open_packed(path) as stream:
        for line in stream:
            yield Removal(**orjson.loads(line))


def _parsed(unit: Unit) -> Iterator[Row | Removal]:
    repositories = read_repositories(unit.metadata_folder)
    blobs = read_blobs(unit.metadata_folder, unit.label)
    unknown = Repository()
    for raw_file in iter_files(unit):
        repository = repositories.get(raw_file.location.repo.lower(), unknown)
        yield parse(raw_file, repository, blob_sha=blobs.get(raw_file.name))


def _pack(removals: Sequence[Removal]) -> bytes:
    return compress(b"".join(orjson.dumps(asdict(removal)) + b"\n" for removal in removals))


def _count_reasons(removals: Sequence[Removal]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for removal in removals:
        of_step = counts.setdefault(removal.step, {})
        of_step[removal.reason] = of_step.get(removal.reason, 0) + 1
    return counts
