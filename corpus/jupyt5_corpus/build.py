"""``jupyt5-corpus build``: from sources to a finished corpus folder.

A build works in ``OUT.partial`` and renames it to ``OUT`` when all is done, so ``OUT`` is whole or
absent. A build that was stopped goes on from the items that have a marker; the result has the
same bytes. Only one build of an ``OUT`` runs at a time; jobs of Slurm take no part in that, but
handing them in does.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import UsageError
from jupyt5.files import sha256_file, write_atomic
from jupyt5_corpus.closing import close_build, log_rates
from jupyt5_corpus.engines import Engine, SlurmEngine
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.manifest import read_manifest, render
from jupyt5_corpus.metadata import FILES_NAME, REPOS_NAME
from jupyt5_corpus.recipe import Recipe, versions
from jupyt5_corpus.sources import Unit, find_units
from jupyt5_corpus.spec import BuildSpec, describe_unit, save_spec, save_unit
from jupyt5_corpus.stages import list_stages
from jupyt5_corpus.steps import SECRETS

__all__ = ["build_corpus", "submit_build"]

logger = logging.getLogger(__name__)


def build_corpus(
    sources: Sequence[Path], out: Path, *, recipe: Recipe, engine: Engine, num_hashers: int = 1
) -> Mapping[str, object]:
    """Build a corpus, or recognise that ``out`` already holds it.

    Args:
        sources: Folders of shards, archives, folders of notebooks, clones.
        out: Folder to make.
        recipe: The steps to take.
        engine: What runs the stages; the result does not depend on it.
        num_hashers: Threads that hash the input where ``out`` is there already.

    Returns:
        The manifest of the finished corpus.

    Raises:
        UsageError: If a source is missing or there twice, if ``out`` lies in one or holds
            something else, or if another build of it is running.
        CorpusError: If the sources' metadata or a holdout list are damaged, or a worker is lost.
        OSError: If ``out`` cannot be written.
    """
    out = out.resolve()
    units = _find_input(sources, out)
    with _claim(units, out, recipe, num_hashers) as (layout, finished):
        if finished is not None:
            return finished
        try:
            if read_manifest(layout.folder) is None:
                _begin(layout, units, out, recipe)
                stages = list_stages(layout)
                for stage in stages.values():
                    engine.run(stage)
                log_rates(stages.values())
            return close_build(layout, out)
        except BaseException:
            _tidy_after_failure(layout)
            raise


def submit_build(
    sources: Sequence[Path], out: Path, *, recipe: Recipe, engine: SlurmEngine
) -> Path | Mapping[str, object]:
    """Hand a build in to Slurm.

    Args:
        sources: As for ``build_corpus``, on a file system that all nodes see; so is ``out``.
        out: Folder to make. Scripts and logs of the jobs go to ``OUT.jobs``.
        recipe: The steps to take.
        engine: How to hand it in.

    Returns:
        The script that hands the jobs in; the manifest, if ``out`` already holds the corpus.

    Raises:
        UsageError: As ``build_corpus``, or if Slurm's options are incomplete.
        CorpusError: As ``build_corpus``, or if Slurm refuses a job.
    """
    engine.check()
    out = out.resolve()
    units = _find_input(sources, out)
    with _claim(units, out, recipe, engine.workers) as (layout, finished):
        if finished is not None:
            return finished
        _begin(layout, units, out, recipe)
        jobs = out.with_name(f"{out.name}.jobs")
        return engine.submit(list(list_stages(layout).values()), _close, jobs)


def _close(layout: Layout) -> None:
    close_build(layout)


def _find_input(sources: Sequence[Path], out: Path) -> tuple[Unit, ...]:
    sources = [source.resolve() for source in sources]
    for source in sources:
        if out.is_relative_to(source):
            message = f"--out {out} lies in the source {source}. Choose another --out."
            raise UsageError(message)
    units = find_units(sources)
    # A folder is cut into units by its parts, so that an archive may be given with its folder.
    counts = Counter(unit.path / name for unit in units for name in unit.names or ("",))
    path, count = max(counts.items(), key=itemgetter(1))
    if count > 1:
        message = f"{path} is among the sources {count} times. Give each source once."
        raise UsageError(message)
    return units


@contextmanager
def _claim(
    units: Sequence[Unit], out: Path, recipe: Recipe, num_hashers: int
) -> Generator[tuple[Layout, Mapping[str, object] | None]]:
    """Take the output for this build, unless it is there already; then give its manifest."""
    layout = Layout(out.with_name(f"{out.name}.partial"))
    finished = _find_same(out, units, recipe, num_hashers)
    if finished is not None:
        yield layout, finished
        return
    with layout.claimed():
        # A build that held the claim may have ended meanwhile.
        finished = _find_same(out, units, recipe, num_hashers)
        if finished is None:
            _check_unclaimed(layout, units, recipe, num_hashers)
        yield layout, finished


def _find_same(
    out: Path, units: Sequence[Unit], recipe: Recipe, num_hashers: int
) -> Mapping[str, object] | None:
    """Return the manifest of the finished corpus, None if there is none; refuse all others."""
    finished = _find_finished(out)
    if finished is None:
        return None
    if not _is_same(finished, units, recipe, num_hashers):
        message = (
            f"{out} holds a corpus of other input, other options or another version. "
            "Choose another --out or remove it."
        )
        raise UsageError(message)
    logger.info("%s already holds the corpus of this input; nothing to do.", out)
    return finished


def _find_finished(out: Path) -> Mapping[str, object] | None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    manifest = read_manifest(out) if out.is_dir() else None
    if manifest is None:
        message = f"{out} exists and holds no corpus. Choose another --out or remove it."
        raise UsageError(message)
    return manifest


def _is_same(
    manifest: Mapping[str, object],
    units: Sequence[Unit],
    recipe: Recipe,
    num_hashers: int,
) -> bool:
    """Tell whether a corpus was made from this input with this recipe and these versions."""
    inputs = cast("Sequence[Mapping[str, object]]", manifest["inputs"])
    metadata = _metadata_inputs(units)
    names = [describe_unit(unit) for unit in units] + [each["name"] for each in metadata]
    if (
        _differs(manifest["recipe"], recipe.record())
        or _differs(manifest["versions"], versions(recipe))
        or [each["name"] for each in inputs] != names
    ):
        return False
    # Threads do: hashing lets others run.
    with ThreadPoolExecutor(num_hashers) as pool:
        digests = list(pool.map(Unit.fingerprint, units))
    digests += [str(each["sha256"]) for each in metadata]
    return digests == [each["sha256"] for each in inputs]


def _check_unclaimed(
    layout: Layout, units: Sequence[Unit], recipe: Recipe, num_hashers: int
) -> None:
    """Refuse a partial folder that is not the stopped build of this very corpus."""
    folder = layout.folder
    if not folder.is_file() and not any(_is_foreign(path, layout) for path in folder.rglob("*")):
        return
    manifest = read_manifest(folder) if folder.is_dir() else None
    if manifest is not None:
        is_ours = _is_same(manifest, units, recipe, num_hashers)
    else:
        is_ours = layout.state.is_file() and layout.state.read_bytes() == _state(units, recipe)
    if not is_ours:
        message = (
            f"{folder} is not the stopped build of this corpus: other input, other options "
            "or another version. Remove it or choose another --out."
        )
        raise UsageError(message)
    logger.info("Going on with the build in %s.", folder)


def _begin(layout: Layout, units: Sequence[Unit], out: Path, recipe: Recipe) -> None:
    if layout.state.is_file():
        return
    state = _state(units, recipe)
    for needed in (layout.work, layout.folder / "data", layout.folder / "removed"):
        needed.mkdir(parents=True, exist_ok=True)
    for unit_idx, unit in enumerate(units):
        save_unit(layout, unit_idx, unit)
    if recipe.python_path is not None:
        copy = layout.work / "recipe.py"
        shutil.copyfile(recipe.python_path, copy)
        recipe = replace(recipe, python_path=copy)
    if recipe.has(SECRETS):
        from jupyt5_corpus.filters import secrets

        secrets.prepare(layout.rules)
    spec = BuildSpec(
        out=out.resolve(),
        recipe=recipe,
        num_units=len(units),
        metadata_inputs=tuple(_metadata_inputs(units)),
        versions=versions(recipe),
    )
    save_spec(layout, spec)
    # Last: a folder with it has all the rest.
    write_atomic(layout.state, state)


def _state(units: Sequence[Unit], recipe: Recipe) -> bytes:
    """Describe a build as far as that costs little; the units' hashes come later."""
    inputs = [
        {"name": describe_unit(unit), "num_bytes": unit.num_bytes, "stamp": _stamp(unit)}
        for unit in units
    ]
    inputs += _metadata_inputs(units)
    return render({"inputs": inputs, "recipe": recipe.record(), "versions": versions(recipe)})


def _stamp(unit: Unit) -> list[object]:
    paths = [unit.path / name for name in unit.names] or [unit.path]
    stamps: list[object] = [len(paths)]
    for path in paths:
        try:
            facts = path.stat()
        except OSError as exc:
            stamps.append(exc.errno)
        else:
            stamps += [facts.st_size, facts.st_mtime_ns]
    return stamps


def _metadata_inputs(units: Sequence[Unit]) -> list[Mapping[str, object]]:
    return [
        {"name": name, "sha256": sha256_file(folder / name)}
        for folder in dict.fromkeys(unit.metadata_folder for unit in units)
        for name in (REPOS_NAME, FILES_NAME)
        if (folder / name).is_file()
    ]


def _tidy_after_failure(layout: Layout) -> None:
    """Keep what a new start can use; leave nothing behind if that is nothing."""
    if any(layout.work.glob("done-*.json")):
        logger.info("Finished parts are kept in %s; run the command again.", layout.folder)
    elif read_manifest(layout.folder) is None:
        shutil.rmtree(layout.folder, ignore_errors=True)


def _is_foreign(path: Path, layout: Layout) -> bool:
    """Tell whether a path cannot come from a build that was killed while it began."""
    if path.is_dir() or layout.rules in path.parents:
        return False
    is_of_beginning = path.name.startswith(("unit-", ".")) or path.name in {
        "recipe.py",
        "spec.pickle",
    }
    return path.parent != layout.work or not is_of_beginning


def _differs(one: object, other: object) -> bool:
    return orjson.dumps(one) != orjson.dumps(other)
