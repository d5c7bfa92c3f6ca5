"""What ``fetch`` writes: numbered shards, tables of repositories, and the state to go on from.

The list is cut into batches of repositories, one shard each. Repositories that are done lie in
``work/<batch>/``; when a batch is done they become ``<batch>.tar.zst``, and ``work/<batch>.json``,
written last, marks it. The tables are made of these marks.
"""

import fcntl
import shutil
import tarfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic
from jupyt5_corpus.compression import open_to_pack
from jupyt5_corpus.fetch.client import Fetched
from jupyt5_corpus.fetch.targets import Failure, without_credentials
from jupyt5_corpus.metadata import REPOS_NAME

__all__ = ["FAILED_NAME", "SKIPPED_NAME", "FetchFolder", "Result"]

FAILED_NAME = "failed.jsonl"
SKIPPED_NAME = "skipped.jsonl"
_STATE_NAME = "fetch.json"

Result = Mapping[str, object]
"""The lines that one entry of the list adds to the tables: ``repos``, ``failed``, ``skipped``."""

_TABLES = {"repos": REPOS_NAME, "failed": FAILED_NAME, "skipped": SKIPPED_NAME}


@dataclass(frozen=True, slots=True)
class FetchFolder:
    """The folder that ``fetch`` fills."""

    path: Path

    @property
    def work(self) -> Path:
        """Folder of the state."""
        return self.path / "work"

    @contextmanager
    def claimed(self, identity: Mapping[str, object]) -> Generator[None]:
        """Take the folder for this list, or find that it was taken for it before.

        Raises:
            UsageError: If it holds something else, or another process fills it.
        """
        self._claim(identity)
        with (self.work / _STATE_NAME).open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                message = f"Another process fills {self.path}. Wait for it, or stop it."
                raise UsageError(message) from exc
            yield

    def _claim(self, identity: Mapping[str, object]) -> None:
        state_path = self.work / _STATE_NAME
        wanted = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)
        if state_path.is_file():
            if state_path.read_bytes() != wanted:
                message = (
                    f"{self.path} was filled from another list or with other --repos-per-shard. "
                    "Choose another --out or remove it."
                )
                raise UsageError(message)
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            message = f"{self.path} exists and holds something else. Choose another --out."
            raise UsageError(message)
        self.work.mkdir(parents=True, exist_ok=True)
        write_atomic(state_path, wanted)

    def is_done(self, batch_idx: int) -> bool:
        """Tell whether a batch is done."""
        return self._marker(batch_idx).is_file()

    def begin(self, batch_idx: int) -> None:
        """Make the place for a batch's repositories and clear away what was being fetched."""
        pieces = self._pieces(batch_idx)
        pieces.mkdir(exist_ok=True)
        for unfinished in pieces.glob("clone-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def piece(self, batch_idx: int, place: int) -> Path:
        """Return where the archive of one repository of a batch belongs."""
        return self._pieces(batch_idx) / f"{place:05d}.tar"

    def keep(self, batch_idx: int, place: int, fetched: Fetched) -> Result:
        """Note that a repository is done; its archive lies there already."""
        result = _result_of(fetched, self._shard(batch_idx).name)
        write_atomic(self.piece(batch_idx, place).with_suffix(".json"), orjson.dumps(result))
        return result

    def find(self, batch_idx: int, place: int) -> Result | None:
        """Return what ``keep`` noted in an earlier run, None if nothing."""
        path = self.piece(batch_idx, place).with_suffix(".json")
        return cast("Result", orjson.loads(path.read_bytes())) if path.is_file() else None

    def finish(self, batch_idx: int, results: Sequence[Result | Failure]) -> None:
        """Make a shard of a batch's repositories and mark the batch as done."""
        pieces = [
            self.piece(batch_idx, place)
            for place, result in enumerate(results)
            if not isinstance(result, Failure)
        ]
        if pieces:
            temporary_path = self.work / f"{batch_idx:05d}.tar.zst.tmp"
            _join(pieces, temporary_path)
            temporary_path.replace(self._shard(batch_idx))
        lines: dict[str, list[object]] = {name: [] for name in _TABLES}
        for result in results:
            found = {"failed": [asdict(result)]} if isinstance(result, Failure) else result
            for name, entries in found.items():
                lines[name] += cast("list[object]", entries)
        write_atomic(self._marker(batch_idx), orjson.dumps(lines))
        shutil.rmtree(self._pieces(batch_idx), ignore_errors=True)

    def write_tables(self) -> Mapping[str, object]:
        """Write the tables of all batches that are done, and return their counts."""
        reasons: dict[str, int] = {}
        counts = {"repositories": 0, "notebooks": 0, "skipped": 0}
        temporary_paths = {name: self.work / f"{name}.tmp" for name in _TABLES}
        streams = {name: path.open("wb") for name, path in temporary_paths.items()}
        try:
            for name, entry in self._entries():
                streams[name].write(orjson.dumps(entry) + b"\n")
                if name == "failed":
                    reason = str(entry["reason"])
                    reasons[reason] = reasons.get(reason, 0) + 1
                elif name == "skipped":
                    counts["skipped"] += 1
                else:
                    counts["repositories"] += 1
                    counts["notebooks"] += cast("int", entry["n_notebooks"])
        finally:
            for stream in streams.values():
                stream.close()
        for name, path in temporary_paths.items():
            path.replace(self.path / _TABLES[name])
        return {**counts, "failed": dict(sorted(reasons.items()))}

    def _entries(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        for marker in sorted(self.work.glob("[0-9]*.json")):
            for name, entries in orjson.loads(marker.read_bytes()).items():
                for entry in entries:
                    yield name, entry

    def _shard(self, batch_idx: int) -> Path:
        return self.path / f"{batch_idx:05d}.tar.zst"

    def _marker(self, batch_idx: int) -> Path:
        return self.work / f"{batch_idx:05d}.json"

    def _pieces(self, batch_idx: int) -> Path:
        return self.work / f"{batch_idx:05d}"


def _result_of(fetched: Fetched, shard: str) -> Result:
    target = fetched.target
    repository = {
        "owner": target.owner,
        "repo": target.name,
        "url": without_credentials(target.url),
        "commit": fetched.commit,
        "licence": target.licence,
        "fork_of": target.fork_of,
        "retrieved": fetched.retrieved,
        "n_notebooks": fetched.num_notebooks,
        "bytes": fetched.num_bytes,
        "shard": shard,
    }
    place = {"owner": target.owner, "repo": target.name}
    return {"repos": [repository], "skipped": [place | asdict(each) for each in fetched.skipped]}


def _join(pieces: Sequence[Path], path: Path) -> None:
    with (
        open_to_pack(path) as stream,
        tarfile.open(
            fileobj=stream, mode="w|", errors="surrogateescape", format=tarfile.PAX_FORMAT
        ) as shard,
    ):
        for piece in pieces:
            with tarfile.open(piece, "r:", errors="surrogateescape") as archive:
                for member in archive:
                    shard.addfile(member, archive.extractfile(member))
                    shard.members.clear()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
