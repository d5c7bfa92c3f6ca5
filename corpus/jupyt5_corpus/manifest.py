"""The manifest: what a corpus was made from and how, what came in, what went and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError
from jupyt5_corpus.split import side_of

__all__ = [
    "MANIFEST_NAME",
    "identity_of",
    "make_identity",
    "make_manifest",
    "read_manifest",
    "render",
]

MANIFEST_NAME = "manifest.json"
_FORMAT = "jupyt5-corpus"
_IDENTITY_FIELDS = ("format", "inputs", "recipe", "versions")


def make_identity(
    inputs: Sequence[Mapping[str, object]],
    recipe: Mapping[str, object],
    versions: Mapping[str, str],
) -> dict[str, object]:
    """Return what decides the bytes of a corpus: input, recipe and versions."""
    return {"format": _FORMAT, "inputs": list(inputs), "recipe": recipe, "versions": versions}


def identity_of(manifest: Mapping[str, object]) -> dict[str, object]:
    """Return the identity that a manifest records."""
    return {field: manifest.get(field) for field in _IDENTITY_FIELDS}


def make_manifest(
    identity: Mapping[str, object],
    results: Sequence[Mapping[str, object]],
    families: Mapping[str, tuple[str, str]],
) -> dict[str, object]:
    """Add up the units' results.

    Args:
        identity: See ``make_identity``.
        results: One a unit: ``shard``, ``removed_file``, ``removed`` (step → reason → count),
            ``totals``.
        families: Repository → family and side.
    """
    totals = _add_up([cast("Mapping[str, int]", result["totals"]) for result in results])
    by_step: dict[str, dict[str, int]] = {}
    for result in results:
        removed_of_unit = cast("Mapping[str, Mapping[str, int]]", result["removed"])
        for step, reasons in removed_of_unit.items():
            by_step[step] = _add_up([by_step.get(step, {}), reasons])
    removed = _add_up(list(by_step.values()))
    num_kept = totals.pop("num_notebooks", 0)
    num_in = num_kept + sum(removed.values())
    recipe = cast("Mapping[str, Sequence[str]]", identity["recipe"])
    return {
        **identity,
        "notebooks_in": num_in,
        "notebooks_kept": num_kept,
        "removed": removed,
        "steps": _describe_steps(recipe["steps"], by_step, num_in),
        "totals": totals,
        "split": _describe_split(families, totals.pop("num_validation_notebooks", 0), num_kept),
        "shards": [result["shard"] for result in results],
        "removed_files": [result["removed_file"] for result in results],
    }


def render(manifest: Mapping[str, object]) -> bytes:
    """Write a manifest or an identity as JSON, always the same way."""
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n"


def read_manifest(folder: Path) -> dict[str, object] | None:
    """Read a folder's manifest, None if it has none of ours.

    Raises:
        CorpusError: If there is one that cannot be read.
    """
    path = folder / MANIFEST_NAME
    try:
        manifest: object = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as exc:
        message = f"{path} is damaged: {exc}. Build the corpus again in another folder."
        raise CorpusError(message) from exc
    if not isinstance(manifest, dict):
        return None
    known = cast("dict[str, object]", manifest)
    return known if known.get("format") == _FORMAT else None


def _describe_steps(
    steps: Sequence[str], by_step: Mapping[str, Mapping[str, int]], num_in: int
) -> list[dict[str, object]]:
    described: list[dict[str, object]] = []
    for step in steps:
        removed = by_step.get(step, {})
        num_out = num_in - sum(removed.values())
        described.append(
            {"step": step, "notebooks_in": num_in, "notebooks_out": num_out, "removed": removed}
        )
        num_in = num_out
    return described


def _describe_split(
    families: Mapping[str, tuple[str, str]], num_validation: int, num_kept: int
) -> dict[str, int]:
    names = {family for family, _ in families.values()}
    sides = [side for _, side in families.values()]
    return {
        "num_repositories": len(families),
        "num_families": len(names),
        "num_validation_families": sum(side_of(name) == "validation" for name in names),
        "num_validation_repositories": sides.count("validation"),
        "num_validation_notebooks": num_validation,
        "num_train_notebooks": num_kept - num_validation,
    }


def _add_up(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = sorted({name for each in counts for name in each})
    return {name: sum(each.get(name, 0) for each in counts) for name in names}
