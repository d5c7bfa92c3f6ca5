"""Where a build in progress keeps its files, and how a file appears whole or not at all."""

import errno
import fcntl
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jupyt5.errors import UsageError

__all__ = ["Layout"]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of a build in progress; files of one unit carry its index."""

    folder: Path

    @property
    def work(self) -> Path:
        """Folder of everything that is not part of the finished corpus."""
        return self.folder / "work"

    @property
    def state(self) -> Path:
        """What is being built, so that only the same build goes on here."""
        return self.work / "build.json"

    @property
    def spec(self) -> Path:
        """All that the stages must know about the build."""
        return self.work / "spec.pickle"

    @property
    def rules(self) -> Path:
        """Compiled rules of the detectors of secrets."""
        return self.work / "rules"

    def logs(self, stage: str) -> Path:
        """Folder of the engine's own files."""
        return self.work / "engine" / stage

    def unit(self, unit_idx: int) -> Path:
        """The unit itself: which files it is."""
        return self.work / f"unit-{unit_idx:05d}.pickle"

    def rows(self, unit_idx: int) -> Path:
        """Rows of a unit that the early steps kept."""
        return self.work / f"rows-{unit_idx:05d}.parquet"

    def early_removals(self, unit_idx: int) -> Path:
        """What the early steps removed."""
        return self.work / f"removed-{unit_idx:05d}.jsonl.zst"

    def keys(self, unit_idx: int) -> Path:
        """Keys of a unit's notebooks, the removed ones too."""
        return self.work / f"keys-{unit_idx:05d}.npy"

    def repos(self, unit_idx: int) -> Path:
        """A unit's repositories."""
        return self.work / f"repos-{unit_idx:05d}.json"

    def signatures(self, unit_idx: int) -> Path:
        """MinHash signatures, in the order of the keys."""
        return self.work / f"signatures-{unit_idx:05d}.npy"

    def band_keys(self, unit_idx: int) -> Path:
        """Their bands' keys, a row a band."""
        return self.work / f"bands-{unit_idx:05d}.npy"

    def edges(self, band_idx: int) -> Path:
        """Pairs of notebooks that agree in a band of their signatures."""
        return self.work / f"edges-{band_idx:05d}.npy"

    def decisions(self, unit_idx: int) -> Path:
        """What the plan decided about a unit's rows."""
        return self.work / f"plan-{unit_idx:05d}.npy"

    def repo_plan(self, unit_idx: int) -> Path:
        """What the plan says about a unit's repositories."""
        return self.work / f"plan-repos-{unit_idx:05d}.json"

    def marker(self, stage: str, item_idx: int) -> Path:
        """Marker of a finished item of a stage, with its counts; written last."""
        return self.work / f"done-{stage}-{item_idx:05d}.json"

    def shard(self, unit_idx: int) -> Path:
        """Finished shard."""
        return self.folder / "data" / f"part-{unit_idx:05d}.parquet"

    def removed(self, unit_idx: int) -> Path:
        """Finished list of removals."""
        return self.folder / "removed" / f"part-{unit_idx:05d}.jsonl.zst"

    @contextmanager
    def claimed(self) -> Generator[None]:
        """Keep other builds out of the folder; a process that is killed loses its claim.

        The lock lies beside the folder, which comes and goes under it.

        Raises:
            UsageError: If another process builds here.
            OSError: If the lock cannot be written.
        """
        path = self.folder.with_name(f"{self.folder.name}.lock")
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def whole(self, path: Path) -> Generator[Path]:
        """Yield a name in the work folder; the file gets its own when the block succeeds.

        So nothing unfinished ever lies in the folders that become the corpus.
        """
        temporary_path = self.work / f"{path.name}.tmp"
        yield temporary_path
        temporary_path.replace(path)


def _lock(path: Path) -> BinaryIO:
    while True:
        stream = path.open("ab")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The build before may have ended, and its file gone, since ours was opened.
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                return stream
        except BlockingIOError as exc:
            stream.close()
            message = (
                f"Another process builds in {path.with_suffix('')}. "
                "Wait for it, stop it, or choose another --out."
            )
            raise UsageError(message) from exc
        except FileNotFoundError:
            pass
        except OSError as exc:
            if exc.errno not in _NO_LOCKS:
                raise
            logger.warning("The file system has no locks: start no second build of this --out.")
            return stream
        stream.close()
