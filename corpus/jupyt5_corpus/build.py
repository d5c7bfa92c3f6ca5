"""``jupyt5-corpus build``: from sources to a finished corpus folder.

A build works in ``OUT.partial`` and renames it to ``OUT`` when all is done, so ``OUT`` is whole or
absent. A build that was stopped goes on from the units that have a marker; the result has the
same bytes.
"""

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson

from jupyt5.console import progress
from jupyt5.errors import UsageError
from jupyt5.files import sha256_file, write_atomic
from jupyt5_corpus.filters import RowStep
from jupyt5_corpus.manifest import (
    MANIFEST_NAME,
    identity_of,
    make_identity,
    make_manifest,
    read_manifest,
    render,
)
from jupyt5_corpus.metadata import FILES_NAME, REPOS_NAME
from jupyt5_corpus.plan import CorpusPlan, make_plan
from jupyt5_corpus.recipe import Recipe, versions
from jupyt5_corpus.sources import Unit, find_units
from jupyt5_corpus.stages import Layout, UnitPlan, read_unit, write_unit
from jupyt5_corpus.workers import run_jobs, should_stop

__all__ = ["build_corpus"]

_STATE_NAME = "build.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ReadJob:
    layout: Layout
    unit_idx: int
    unit: Unit
    steps: tuple[RowStep, ...]

    @property
    def marker(self) -> Path:
        return self.layout.marker("read", self.unit_idx)


@dataclass(frozen=True, slots=True)
class _WriteJob:
    layout: Layout
    unit_idx: int
    plan: UnitPlan


def build_corpus(
    sources: Sequence[Path], out: Path, *, recipe: Recipe, num_workers: int
) -> Mapping[str, object]:
    """Build a corpus, or recognise that ``out`` already holds it.

    Args:
        sources: Folders of shards, archives, folders of notebooks.
        out: Folder to make.
        recipe: Which holdout lists apply.
        num_workers: Worker processes; the result does not depend on it.

    Returns:
        The manifest of the finished corpus.

    Raises:
        UsageError: If a source is missing or ``out`` holds something else.
        CorpusError: If a source or a holdout list is damaged.
        OSError: If ``out`` cannot be written.
    """
    out = out.resolve()
    holdouts = recipe.load_holdouts()
    units = find_units(sources)
    identity = make_identity(_describe_inputs(units), recipe.record(holdouts), versions())
    finished = _find_finished(out, identity)
    if finished is not None:
        logger.info("%s already holds the corpus of this input; nothing to do.", out)
        return finished
    layout = Layout(out.with_name(f"{out.name}.partial"))
    _check_unclaimed(layout, identity)
    try:
        _begin(layout, identity)
        if read_manifest(layout.folder) is None:
            _read_all(layout, units, recipe.row_steps(holdouts), num_workers)
            _write_corpus(layout, identity, len(units), num_workers)
        return _finish(layout, out)
    except BaseException:
        _tidy_after_failure(layout)
        raise


def _write_corpus(
    layout: Layout, identity: Mapping[str, object], num_units: int, num_workers: int
) -> None:
    """Write the shards that the plan over all units asks for, then the manifest, last."""
    plan = make_plan(layout, range(num_units))
    _write_all(layout, plan, num_units, num_workers)
    manifest = _make_manifest(layout, identity, plan, num_units)
    with layout.whole(layout.folder / MANIFEST_NAME) as manifest_path:
        manifest_path.write_bytes(render(manifest))


def _describe_inputs(units: Sequence[Unit]) -> list[Mapping[str, object]]:
    inputs: list[Mapping[str, object]] = [
        {"name": unit.label, "sha256": unit.fingerprint()}
        for unit in progress(units, desc="Hashing the input", total=len(units), unit="unit")
    ]
    for folder in dict.fromkeys(unit.metadata_folder for unit in units):
        for name in (REPOS_NAME, FILES_NAME):
            if (folder / name).is_file():
                inputs.append({"name": name, "sha256": sha256_file(folder / name)})
    return inputs


def _find_finished(out: Path, identity: Mapping[str, object]) -> Mapping[str, object] | None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    manifest = read_manifest(out) if out.is_dir() else None
    if manifest is None:
        message = f"{out} exists and holds no corpus. Choose another --out or remove it."
        raise UsageError(message)
    if _differs(identity_of(manifest), identity):
        message = (
            f"{out} holds a corpus of other input, other options or another version. "
            "Choose another --out or remove it."
        )
        raise UsageError(message)
    return manifest


def _check_unclaimed(layout: Layout, identity: Mapping[str, object]) -> None:
    """Refuse a partial folder that is not the stopped build of this very corpus."""
    folder = layout.folder
    if not folder.is_file() and not any(map(_is_foreign, folder.rglob("*"))):
        return
    manifest = read_manifest(folder) if folder.is_dir() else None
    known: Mapping[str, object] | None = identity_of(manifest) if manifest else None
    if known is None and _state_path(layout).is_file():
        known = cast("Mapping[str, object]", orjson.loads(_state_path(layout).read_bytes()))
    if known is None or _differs(known, identity):
        message = (
            f"{folder} is not the stopped build of this corpus: other input, other options "
            "or another version. Remove it or choose another --out."
        )
        raise UsageError(message)
    logger.info("Going on with the build in %s.", folder)


def _begin(layout: Layout, identity: Mapping[str, object]) -> None:
    for needed in (layout.work, layout.folder / "data", layout.folder / "removed"):
        needed.mkdir(parents=True, exist_ok=True)
    if not _state_path(layout).is_file():
        write_atomic(_state_path(layout), render(identity))


def _read_all(
    layout: Layout, units: Sequence[Unit], steps: tuple[RowStep, ...], num_workers: int
) -> None:
    jobs = [
        _ReadJob(layout, unit_idx, unit, steps)
        for unit_idx, unit in enumerate(units)
        if not layout.marker("read", unit_idx).is_file()
    ]
    if len(jobs) < len(units):
        logger.info("%d of %d units were read before.", len(units) - len(jobs), len(units))
    done = run_jobs(_do_read, jobs, num_workers)
    for job in progress(done, desc="Reading", total=len(jobs), unit="unit"):
        counts = orjson.loads(job.marker.read_bytes())
        logger.info("Read %s: %d kept so far, %d removed.", job.unit.label, *counts.values())


def _write_all(layout: Layout, plan: CorpusPlan, num_units: int, num_workers: int) -> None:
    jobs = [
        _WriteJob(layout, unit_idx, plan.for_unit(unit_idx))
        for unit_idx in range(num_units)
        if not layout.marker("written", unit_idx).is_file()
    ]
    done = run_jobs(_do_write, jobs, num_workers)
    for _ in progress(done, desc="Writing", total=len(jobs), unit="shard"):
        pass


def _do_read(job: _ReadJob) -> None:
    read_unit(job.layout, job.unit_idx, job.unit, steps=job.steps, should_stop=should_stop)


def _do_write(job: _WriteJob) -> None:
    write_unit(job.layout, job.unit_idx, job.plan)


def _make_manifest(
    layout: Layout, identity: Mapping[str, object], plan: CorpusPlan, num_units: int
) -> Mapping[str, object]:
    results: list[Mapping[str, object]] = []
    for unit_idx in range(num_units):
        result = orjson.loads(layout.marker("written", unit_idx).read_bytes())
        shard = layout.shard(unit_idx).relative_to(layout.folder).as_posix()
        removed = layout.removed(unit_idx).relative_to(layout.folder).as_posix()
        rows = result["totals"].get("num_notebooks", 0)
        result["shard"] = {"file": shard, "sha256": result["sha256"], "rows": rows}
        result["removed_file"] = {"file": removed, "sha256": result["removed_sha256"]}
        results.append(result)
    return make_manifest(identity, results, plan.families)


def _finish(layout: Layout, out: Path) -> Mapping[str, object]:
    shutil.rmtree(layout.work)
    layout.folder.replace(out)
    manifest = read_manifest(out)
    assert manifest is not None
    return manifest


def _tidy_after_failure(layout: Layout) -> None:
    """Keep what a new start can use; leave nothing behind if that is nothing."""
    if any(layout.work.glob("read-*.json")):
        logger.info("Finished units are kept in %s; run the command again.", layout.folder)
    elif read_manifest(layout.folder) is None:
        shutil.rmtree(layout.folder, ignore_errors=True)


def _is_foreign(path: Path) -> bool:
    """Tell whether a path cannot come from a build that was killed while it began."""
    return not path.is_dir() and not path.name.startswith(f".{_STATE_NAME}")


def _state_path(layout: Layout) -> Path:
    return layout.work / _STATE_NAME


def _differs(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return render(one) != render(other)
