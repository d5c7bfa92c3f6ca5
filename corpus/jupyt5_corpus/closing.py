"""The last stage, ``close``: manifest, dataset card and decontamination report, then the name."""

import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from jupyt5_corpus.description import describe_corpus
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.manifest import make_manifest, read_manifest
from jupyt5_corpus.repositories import count_repositories
from jupyt5_corpus.spec import BuildSpec, describe_unit, load_spec, load_unit
from jupyt5_corpus.stages import Stage, list_stages

__all__ = ["close_build", "log_rates"]

logger = logging.getLogger(__name__)


def close_build(layout: Layout, out: Path | None = None) -> Mapping[str, object]:
    """Describe the corpus and give it its name.

    Args:
        layout: A build with all other stages done, or with its manifest already there.
        out: The name; None for the one the build was begun with.

    Returns:
        The manifest.

    Raises:
        CorpusError: If a stage is not done.
        OSError: If the folder cannot be written.
    """
    manifest = read_manifest(layout.folder)
    if manifest is None:
        spec = load_spec(layout)
        out = out or spec.out
        manifest = _describe(layout, spec)
    assert out is not None
    if layout.work.is_dir():
        shutil.rmtree(layout.work)
    layout.folder.replace(out)
    return manifest


def log_rates(stages: Iterable[Stage]) -> None:
    """Log how long each step took, a notebook, in one process."""
    seconds: Counter[str] = Counter()
    num_notebooks = 0
    for stage in stages:
        for result in stage.results():
            seconds.update(cast("Mapping[str, float]", result.get("seconds", {})))
            num_notebooks += cast("int", result.get("num_rows", 0))
            num_notebooks += cast("int", result.get("num_removed", 0))
    if not num_notebooks:
        return
    total_s = sum(seconds.values())
    logger.info(
        "%d notebooks, %.1f s of work: %.0f a second and process",
        num_notebooks,
        total_s,
        num_notebooks / max(total_s, 1e-9),
    )
    for name, spent_s in seconds.items():
        logger.info(
            "%8.3f ms a notebook  %4.1f %%  %s",
            1000 * spent_s / num_notebooks,
            100 * spent_s / total_s,
            name,
        )


def _describe(layout: Layout, spec: BuildSpec) -> Mapping[str, object]:
    stages = list_stages(layout)
    inputs: list[Mapping[str, object]] = [
        {"name": describe_unit(load_unit(layout, unit_idx)), "sha256": result["sha256"]}
        for unit_idx, result in enumerate(stages["read"].results())
    ]
    identity = {
        "inputs": [*inputs, *spec.metadata_inputs],
        "recipe": spec.recipe.record(),
        "versions": spec.versions,
    }
    results = [
        _add_names(layout, unit_idx, result)
        for unit_idx, result in enumerate(stages["finish"].results())
    ]
    (plan,) = stages["plan"].results()
    unit_idxs = range(spec.num_units)
    manifest = make_manifest(
        {**identity, "repositories_in": plan["num_repositories"]},
        results,
        count_repositories(map(layout.shard, unit_idxs)),
    )

    def write(name: str, content: bytes) -> None:
        with layout.whole(layout.folder / name) as path:
            path.write_bytes(content)

    return describe_corpus(manifest, map(layout.removed, unit_idxs), write)


def _add_names(layout: Layout, unit_idx: int, result: Mapping[str, object]) -> Mapping[str, object]:
    shard = layout.shard(unit_idx).relative_to(layout.folder).as_posix()
    removed = layout.removed(unit_idx).relative_to(layout.folder).as_posix()
    totals = cast("Mapping[str, int]", result["totals"])
    rows = totals.get("num_notebooks", 0)
    return {
        "totals": totals,
        "removed": result["removed"],
        "shard": {"file": shard, "sha256": result["sha256"], "rows": rows},
        "removed_file": {"file": removed, "sha256": result["removed_sha256"]},
    }
