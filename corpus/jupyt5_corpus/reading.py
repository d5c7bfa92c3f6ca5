"""Stage ``read``: a unit of the input becomes rows, keys, signatures and early removals."""

from collections.abc import Mapping
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from jupyt5_corpus import minhash
from jupyt5_corpus.filters.parse import parse
from jupyt5_corpus.keys import HELD, KEPT, OUT, KeyRecorder
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.metadata import Repository, read_blobs, read_repositories, repository_of
from jupyt5_corpus.removals import pack_removals
from jupyt5_corpus.row import Removal, Row
from jupyt5_corpus.sources import LicenceFile, RawFile, Unit, iter_files
from jupyt5_corpus.spec import load_context, load_spec, load_unit
from jupyt5_corpus.steps import (
    HELD_OUT_BY,
    LICENCES,
    NEAR_DUPLICATES,
    StepTimes,
    fingerprint_of,
    make_steps,
    run_steps,
)
from jupyt5_corpus.tables import RowWriter
from jupyt5_corpus.workers import should_stop

__all__ = ["read_unit"]

_NO_SIGNATURE = np.full(minhash.NUM_PERMUTATIONS, np.iinfo(np.uint32).max, np.uint32)


def read_unit(layout: Layout, unit_idx: int) -> Mapping[str, object]:
    """Read, parse and filter one unit.

    Returns:
        The unit's SHA-256, counts, and seconds by step.

    Raises:
        CorpusError: If the metadata of the source are damaged.
        KeyboardInterrupt: If the build stops; nothing of the unit then counts.
    """
    unit = load_unit(layout, unit_idx)
    start_s = process_time()
    fingerprint = unit.fingerprint()
    reader = _Reader(layout, unit_idx, unit)
    reader.times.add("hash input", start_s)
    with layout.whole(layout.rows(unit_idx)) as path, RowWriter(path) as writer:
        start_s = process_time()
        for item in iter_files(unit):
            reader.times.add("read input", start_s)
            if should_stop():
                raise KeyboardInterrupt
            row = reader.take(item)
            if row is not None:
                start_s = process_time()
                writer.write(row)
                reader.times.add("write rows", start_s)
            start_s = process_time()
    reader.times.add("write rows", start_s)
    reader.write()
    return {
        "sha256": fingerprint,
        "num_rows": reader.num_rows,
        "num_removed": len(reader.removals),
        "seconds": reader.times.seconds,
    }


class _Reader:
    """Judges a unit's files one by one and keeps what is not a row."""

    def __init__(self, layout: Layout, unit_idx: int, unit: Unit) -> None:
        recipe = load_spec(layout).recipe
        self.times = StepTimes()
        self.removals: list[Removal] = []
        self.num_rows = 0
        self._layout, self._unit_idx, self._unit = layout, unit_idx, unit
        self._steps = make_steps(recipe.early_steps, load_context(layout))
        self._signs = recipe.has(NEAR_DUPLICATES)
        self._reads_licences = recipe.has(LICENCES)
        self._licence_texts: dict[str, dict[str, str]] = {}
        self._recorder = KeyRecorder(unit_idx)
        self._signatures: list[NDArray[np.uint32]] = []
        self._repositories = read_repositories(unit.metadata_folder)

    def take(self, item: RawFile | LicenceFile) -> Row | None:
        """Judge one file; return its row if it stays."""
        if isinstance(item, LicenceFile):
            if self._reads_licences:
                self._licence_texts.setdefault(item.repo, {})[item.name] = item.text
            return None
        start_s = process_time()
        parsed = parse(item, self._repository_of(item), blob_sha=self._find_blob(item))
        self.times.add("parse", start_s)
        if isinstance(parsed, Removal):
            self._remove(parsed, OUT)
            return None
        row, removal = run_steps(parsed, self._steps, self.times)
        if removal is None:
            self._record(row, self.num_rows, KEPT)
            self.num_rows += 1
            return row
        is_held = removal.step in HELD_OUT_BY
        if is_held:
            self._record(row, len(self.removals), HELD)
            self.removals.append(removal)
        else:
            self._remove(removal, OUT)
        return None

    def write(self) -> None:
        """Store all but the rows."""
        layout, unit_idx = self._layout, self._unit_idx
        if self._licence_texts:
            self._judge_licences()
        with layout.whole(layout.early_removals(unit_idx)) as path:
            path.write_bytes(pack_removals(self.removals))
        with layout.whole(layout.keys(unit_idx)) as path:
            self._recorder.write(path, layout.repos(unit_idx))
        if not self._signs:
            return
        signatures = np.array(self._signatures, np.uint32).reshape(-1, minhash.NUM_PERMUTATIONS)
        _save(layout, layout.signatures(unit_idx), signatures)
        bands = np.split(signatures, minhash.NUM_BANDS, axis=1)
        _save(
            layout, layout.band_keys(unit_idx), np.array([minhash.band_key(band) for band in bands])
        )

    def _remove(self, removal: Removal, state: int) -> None:
        if self._recorder.add(removal, row_idx=len(self.removals), state=state):
            self._signatures.append(_NO_SIGNATURE)
        self.removals.append(removal)

    def _record(self, row: Row, row_idx: int, state: int) -> None:
        num_ngrams = 0
        if self._signs:
            start_s = process_time()
            fingerprint = fingerprint_of(row)
            self._signatures.append(fingerprint.signature)
            num_ngrams = fingerprint.num_ngrams
            self.times.add(NEAR_DUPLICATES, start_s)
        self._recorder.add(row, row_idx=row_idx, state=state, num_ngrams=num_ngrams)

    def _judge_licences(self) -> None:
        from jupyt5_corpus.filters import licences

        start_s = process_time()
        for repo, texts in self._licence_texts.items():
            licence = licences.of_files(texts)
            if licence is not None:
                self._recorder.add_found_licence(repo, licence, ", ".join(sorted(texts)))
        self.times.add(LICENCES, start_s)

    def _repository_of(self, file: RawFile) -> Repository:
        return repository_of(file.location.repo, file.repository, self._repositories)

    def _find_blob(self, file: RawFile) -> str | None:
        if not file.archive:
            return None
        return read_blobs(self._unit.metadata_folder, file.archive).get(file.name)


def _save(layout: Layout, path: Path, array: NDArray[np.generic]) -> None:
    with layout.whole(path) as temporary_path, temporary_path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
