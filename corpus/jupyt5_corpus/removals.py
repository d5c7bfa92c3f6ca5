"""Lists of what was removed, with reasons, as packed JSON lines."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import orjson

from jupyt5_corpus.compression import compress, open_packed
from jupyt5_corpus.row import Removal

__all__ = ["count_reasons", "pack_removals", "read_removals"]


def pack_removals(removals: Iterable[Removal]) -> bytes:
    """Write a list of removals."""
    return compress(b"".join(orjson.dumps(asdict(removal)) + b"\n" for removal in removals))


def read_removals(path: Path) -> Iterator[Removal]:
    """Read a list of removals.

    Raises:
        CorpusError: If the file is damaged.
    """
    with open_packed(path) as stream:
        for line in stream:
            yield Removal(**orjson.loads(line))


def count_reasons(removals: Iterable[Removal]) -> dict[str, dict[str, int]]:
    """Count removals: step → reason → number."""
    counts: dict[str, dict[str, int]] = {}
    for removal in removals:
        of_step = counts.setdefault(removal.step, {})
        of_step[removal.reason] = of_step.get(removal.reason, 0) + 1
    return counts
