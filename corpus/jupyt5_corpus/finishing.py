"""Stage ``finish``: a unit's rows become a shard of the corpus and a list of removals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any, cast

import numpy as np
import orjson

from jupyt5.files import sha256_file
from jupyt5_corpus.filters import exact_duplicates, holdout, removal_of
from jupyt5_corpus.keys import HELD
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.plan import CLUSTER, COPY, EXACT, FORK, NEAR, NEAR_COPY
from jupyt5_corpus.removals import LIKENESSES, count_reasons, pack_removals, read_removals
from jupyt5_corpus.row import Key, Removal, Row
from jupyt5_corpus.spec import load_context, load_spec, stamp_of
from jupyt5_corpus.steps import NEAR_DUPLICATES, StepTimes, make_steps, run_steps
from jupyt5_corpus.tables import (
    Added,
    CorpusWriter,
    iter_keys,
    iter_work_rows,
    read_places,
    write_selected,
)
from jupyt5_corpus.workers import should_stop

__all__ = ["finish_unit"]

_OTHER_UNITS_IN_MEMORY = 64

_REASONS = {
    EXACT: (exact_duplicates.STEP, "exact_duplicate"),
    NEAR: (NEAR_DUPLICATES, "near_duplicate"),
    COPY: (holdout.STEP, "holdout_copy"),
    NEAR_COPY: (holdout.STEP, "holdout_near_copy"),
    FORK: (holdout.STEP, "holdout_fork"),
}

_SAME, _SIMILAR = LIKENESSES
_LIKENESS = {EXACT: "same cells as", NEAR: _SIMILAR, COPY: _SAME, NEAR_COPY: _SIMILAR}


def finish_unit(layout: Layout, unit_idx: int) -> Mapping[str, object]:
    """Write one unit's shard and its list of removals.

    Returns:
        SHA-256 of both files, totals, removals by step and reason, and seconds by step.

    Raises:
        KeyboardInterrupt: If the build stops; nothing of the unit then counts.
    """
    finisher = _Finisher(layout, unit_idx)
    times = StepTimes()
    start_s = process_time()
    with layout.whole(layout.shard(unit_idx)) as path:
        if finisher.late_steps:
            totals = finisher.write_rows(path, times)
        else:
            totals = finisher.copy_rows(path)
            times.add("write shard", start_s)
    with layout.whole(layout.removed(unit_idx)) as path:
        path.write_bytes(pack_removals(finisher.removals))
    return {
        "sha256": sha256_file(layout.shard(unit_idx)),
        "removed_sha256": sha256_file(layout.removed(unit_idx)),
        "removed": count_reasons(finisher.removals),
        "totals": totals,
        "seconds": times.seconds,
    }


class _Finisher:
    """One unit's rows with what the plan says about them."""

    def __init__(self, layout: Layout, unit_idx: int) -> None:
        self._layout, self._rows_path = layout, layout.rows(unit_idx)
        self._repos = _read_repo_plan(layout, unit_idx)
        self._dropped: set[int] = set()
        self._added: list[Added] = []
        self.removals = list(read_removals(layout.early_removals(unit_idx)))
        self.late_steps = load_spec(layout).recipe.late_steps
        decisions = _read_decisions(layout, unit_idx)
        for key in iter_keys(self._rows_path, unit_idx):
            action, *other = decisions.get(key.row_idx, (0,))
            if action in _REASONS:
                self._dropped.add(key.row_idx)
                self.removals.append(self._removal_for(key, action, other))
            family, split, _ = self._repos[key.repo]
            cluster = key.content_hash if action == CLUSTER else None
            self._added.append(Added(cluster, family, split))

    def copy_rows(self, path: Path) -> Mapping[str, int]:
        """Write the rows that stay as they are; return their totals."""
        return write_selected(
            self._rows_path,
            path,
            dropped=self._dropped,
            added=self._added,
            licences={repo: licence for repo, (_, _, licence) in self._repos.items() if licence},
        )

    def write_rows(self, path: Path, times: StepTimes) -> Mapping[str, int]:
        """Write the rows that stay and pass the late steps; return their totals."""
        steps = make_steps(self.late_steps, load_context(self._layout))
        with CorpusWriter(path) as writer:
            start_s = process_time()
            for row_idx, row in enumerate(iter_work_rows(self._rows_path)):
                times.add("read rows", start_s)
                if should_stop():
                    raise KeyboardInterrupt
                if row_idx not in self._dropped:
                    last, removal = run_steps(self._with_licence(row), steps, times)
                    start_s = process_time()
                    if removal is None:
                        writer.add(last, self._added[row_idx])
                    else:
                        self.removals.append(removal)
                    times.add("write shard", start_s)
                start_s = process_time()
        times.add("write shard", start_s)
        return writer.totals

    def _with_licence(self, row: Row) -> Row:
        """Fill in the licence that was found in the repository's files."""
        licence = self._repos[row.repo][2]
        if row.licence is not None or licence is None:
            return row
        return replace(row, licence=licence[0], licence_source=licence[1])

    def _removal_for(self, key: Key, action: int, other: Sequence[int]) -> Removal:
        step, reason = _REASONS[action]
        if action == FORK:
            detail = f"most notebooks of {key.repo} are held out"
        else:
            detail = f"{_LIKENESS[action]} {self._place_of(*other)}"
        return removal_of(key, step=step, reason=reason, detail=detail)

    def _place_of(self, unit_idx: int, row_idx: int, state: int) -> str:
        stamp = stamp_of(self._layout)
        if state == HELD:
            origin = _read_early_removals(self._layout, unit_idx, stamp)[row_idx]
            return f"{origin.repo}/{origin.path} ({origin.detail})"
        repo, path, commit = _read_places(self._layout, unit_idx, stamp)[row_idx]
        return f"{repo}/{path}{f' at {commit}' if commit else ''}"


def _read_decisions(layout: Layout, unit_idx: int) -> Mapping[int, tuple[int, int, int, int]]:
    decisions = np.load(layout.decisions(unit_idx), allow_pickle=False)
    return {
        row: (action, other_unit, other_row, other_state)
        for row, action, other_unit, other_row, other_state in decisions.tolist()
    }


def _read_repo_plan(
    layout: Layout, unit_idx: int
) -> Mapping[str, tuple[str, str, tuple[str, str] | None]]:
    table = cast("dict[str, dict[str, Any]]", orjson.loads(layout.repo_plan(unit_idx).read_bytes()))
    return {
        repo: (entry["family"], entry["split"], entry["licence"] and tuple(entry["licence"]))
        for repo, entry in table.items()
    }


@lru_cache(maxsize=_OTHER_UNITS_IN_MEMORY)
def _read_places(layout: Layout, unit_idx: int, _stamp: int) -> list[tuple[str, str, str | None]]:
    return read_places(layout.rows(unit_idx))


@lru_cache(maxsize=_OTHER_UNITS_IN_MEMORY)
def _read_early_removals(layout: Layout, unit_idx: int, _stamp: int) -> list[Removal]:
    return list(read_removals(layout.early_removals(unit_idx)))
