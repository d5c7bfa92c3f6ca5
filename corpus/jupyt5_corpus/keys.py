"""Keys: the few bytes of a notebook that decisions about the whole corpus need.

A unit's keys are a numpy array in a file of its own, with a table of its repositories beside it.
Joined over all units they take ``KEY.itemsize`` bytes a notebook, whatever its size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5.files import write_atomic
from jupyt5_corpus.row import Removal, Row

__all__ = [
    "HELD",
    "KEPT",
    "KEY",
    "OUT",
    "Joined",
    "KeyRecorder",
    "Keys",
    "RepoFacts",
    "group_contents",
    "read_keys",
    "read_repos",
]

KEPT, HELD, OUT = 0, 1, 2
"""States after the early steps: still in, held out, removed for another reason."""

KEY = np.dtype(
    [
        ("digest_hi", "<u8"),  # first 16 bytes of the content hash: no two texts share them
        ("digest_lo", "<u8"),
        ("place_hash", "<u8"),  # of repository, path and commit
        ("unit", "<u4"),
        ("row", "<u4"),  # place among the unit's rows, or among its early removals
        ("repo", "<u4"),  # number in the unit's table of repositories; later in the corpus's
        ("num_ngrams", "<u4"),
        ("path_chars", "<u2"),
        ("state", "u1"),
        ("is_substantial", "?"),
        ("is_fork", "?"),
        ("is_old_version", "?"),
        ("is_checkpoint", "?"),
        ("is_markdown_focused", "?"),
    ]
)
"""One notebook: 48 bytes."""

Keys = NDArray[np.void]
"""An array of ``KEY``."""

_CHECKPOINTS = ".ipynb_checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoFacts:
    """What a unit knows about a repository.

    Attributes:
        fork_of: The repository it was forked from.
        licence: Its licence and where that was read, if the source's metadata tell.
        found_licence: What its licence files say, and their names, if there are any.
    """

    fork_of: str | None
    licence: tuple[str, str] | None
    found_licence: tuple[str, str] | None


class KeyRecorder:
    """Collects a unit's keys while its notebooks are read; ``write`` stores them."""

    def __init__(self, unit_idx: int) -> None:
        self._unit_idx = unit_idx
        self._records: list[tuple[object, ...]] = []
        self._repos: dict[str, int] = {}
        self._forks: dict[str, str] = {}
        self._licences: dict[str, tuple[str, str]] = {}
        self._found_licences: dict[str, tuple[str, str]] = {}

    def add(self, item: Row | Removal, *, row_idx: int, state: int, num_ngrams: int = 0) -> bool:
        """Take in one notebook.

        Args:
            item: The notebook, or the record of its removal.
            row_idx: Its place among the unit's rows, or among the unit's removals.
            state: One of ``KEPT``, ``HELD``, ``OUT``.
            num_ngrams: Distinct n-grams of its text, where they were counted.

        Returns:
            Whether a key was made: a notebook that could not be read has none.
        """
        repo_idx = self._repos.setdefault(item.repo, len(self._repos))
        if item.fork_of is not None:
            self._forks[item.repo] = item.fork_of
        if isinstance(item, Row) and item.licence is not None:
            self._licences.setdefault(item.repo, (item.licence, item.licence_source or ""))
        if item.content_hash is None:
            return False
        self._records.append(
            (
                int(item.content_hash[:16], 16),
                int(item.content_hash[16:32], 16),
                _hash_place(item),
                self._unit_idx,
                row_idx,
                repo_idx,
                num_ngrams,
                min(len(item.path), 0xFFFF),
                state,
                item.is_substantial,
                item.fork_of is not None,
                isinstance(item, Row) and item.is_old_version,
                _CHECKPOINTS in item.path.split("/"),
                isinstance(item, Row) and item.markdown_focused,
            )
        )
        return True

    def add_found_licence(self, repo: str, licence: str, names: str) -> None:
        """Take in what the licence files of a repository say."""
        self._found_licences[repo] = (licence, names)

    def write(self, keys_path: Path, repos_path: Path) -> None:
        """Store the keys, in the order of ``add``, and the table of repositories.

        Raises:
            OSError: If a file cannot be written.
        """
        keys = np.array(self._records, dtype=KEY)
        with keys_path.open("wb") as stream:
            np.save(stream, keys, allow_pickle=False)
        # Licences of repositories without a notebook don't matter.
        table = {
            repo: [
                self._forks.get(repo),
                self._licences.get(repo),
                self._found_licences.get(repo),
            ]
            for repo in self._repos
        }
        write_atomic(repos_path, orjson.dumps(table))


def read_repos(path: Path) -> dict[str, RepoFacts]:
    """Read a unit's table of repositories; their order is that of the numbers in its keys."""
    table = cast("dict[str, Any]", orjson.loads(path.read_bytes()))
    return {
        repo: RepoFacts(
            fork_of=fork_of,
            licence=licence and tuple(licence),
            found_licence=found and tuple(found),
        )
        for repo, (fork_of, licence, found) in table.items()
    }


def read_keys(paths: Sequence[Path]) -> Keys:
    """Read the keys of all units, one after the other, into one array."""
    parts = [cast("Keys", np.load(path, allow_pickle=False)) for path in paths]
    return np.concatenate(parts) if parts else np.empty(0, KEY)


def group_contents(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put equal contents together.

    Returns:
        The order that sorts the keys by content, and where each content begins in it, with the
        number of keys at the end. Within a content the kept ones come first, then those held out;
        else the order of the keys is kept.
    """
    order = np.lexsort((keys["state"], keys["digest_lo"], keys["digest_hi"]))
    hi, lo = keys["digest_hi"][order], keys["digest_lo"][order]
    is_first = np.ones(order.size, np.bool_)
    is_first[1:] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1])
    return order, np.append(np.flatnonzero(is_first), order.size)


class Joined:
    """Arrays of all units, memory-mapped, indexed as if they were one after the other."""

    def __init__(self, paths: Sequence[Path], chosen: NDArray[np.int64]) -> None:
        """Take the units' files, and which rows of all of them this array shall have."""
        self._parts = [cast("NDArray[np.uint32]", np.load(path, mmap_mode="r")) for path in paths]
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])
        self._chosen = chosen

    def __getitem__(self, idxs: NDArray[np.int64] | NDArray[np.uint32], /) -> NDArray[np.uint32]:
        """Fetch some rows."""
        rows = self._chosen[idxs]
        part_idxs = np.searchsorted(self._starts, rows, side="right") - 1
        fetched = np.empty((rows.size, self._parts[0].shape[1]), np.uint32)
        for part_idx in np.unique(part_idxs).tolist():
            is_here = part_idxs == part_idx
            fetched[is_here] = self._parts[part_idx][rows[is_here] - self._starts[part_idx]]
        return fetched


def _hash_place(item: Row | Removal) -> int:
    place = f"{item.repo}\0{item.path}\0{item.commit or ''}"
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:8])
