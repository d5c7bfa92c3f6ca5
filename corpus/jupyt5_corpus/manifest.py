"""The manifest: what a corpus was made from and how, what came in, what went and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError

__all__ = ["MANIFEST_NAME", "add_up", "make_manifest", "read_manifest", "render"]

MANIFEST_NAME = "manifest.json"
_FORMAT = "jupyt5-corpus"


def make_manifest(
    identity: Mapping[str, object],
    results: Sequence[Mapping[str, object]],
    split: Mapping[str, object],
) -> dict[str, object]:
    """Add up the units' results.

    Args:
        identity: ``inputs``, ``recipe``, ``versions``; and ``repositories_in``, how many came in.
        results: One a unit: ``shard``, ``removed_file``, ``removed`` (step → reason → count),
            ``totals``.
        split: Counts of repositories and families in the corpus.
    """
    totals = add_up([cast("Mapping[str, int]", result["totals"]) for result in results])
    by_step: dict[str, dict[str, int]] = {}
    for result in results:
        removed_of_unit = cast("Mapping[str, Mapping[str, int]]", result["removed"])
        for step, reasons in removed_of_unit.items():
            by_step[step] = add_up([by_step.get(step, {}), reasons])
    removed = add_up(list(by_step.values()))
    num_kept = totals.pop("num_notebooks", 0)
    num_validation = totals.pop("num_validation_notebooks", 0)
    num_in = num_kept + sum(removed.values())
    recipe = cast("Mapping[str, Sequence[str]]", identity["recipe"])
    return {
        "format": _FORMAT,
        **identity,
        "notebooks_in": num_in,
        "notebooks_kept": num_kept,
        "removed": removed,
        "steps": _describe_steps(recipe["steps"], by_step, num_in),
        "totals": totals,
        "split": {
            **split,
            "num_validation_notebooks": num_validation,
            "num_train_notebooks": num_kept - num_validation,
        },
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


def add_up(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add counts up by name."""
    names = sorted({name for each in counts for name in each})
    return {name: sum(each.get(name, 0) for each in counts) for name in names}
