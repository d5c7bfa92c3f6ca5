"""What every stage of a build must know, kept in the work folder for whoever runs the stage."""

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from jupyt5.errors import CorpusError
from jupyt5.files import write_atomic
from jupyt5_corpus.holdout_lists import load
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.own_steps import load_python
from jupyt5_corpus.recipe import Recipe
from jupyt5_corpus.row import Removal, Row
from jupyt5_corpus.sources import Unit
from jupyt5_corpus.steps import SECRETS, StepContext

__all__ = [
    "BuildSpec",
    "describe_unit",
    "load_context",
    "load_spec",
    "load_unit",
    "save_spec",
    "save_unit",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """A build.

    Attributes:
        out: Folder to make.
        recipe: The recipe.
        num_units: Units of the input.
        metadata_inputs: Name and SHA-256 of the sources' metadata files.
        versions: Versions that the bytes depend on.
    """

    out: Path
    recipe: Recipe
    num_units: int
    metadata_inputs: tuple[Mapping[str, object], ...]
    versions: Mapping[str, str]


def describe_unit(unit: Unit) -> str:
    """Return what the manifest calls a unit: of its path only what the source itself has."""
    if not unit.names:
        return unit.label
    ends = dict.fromkeys((unit.names[0], unit.names[-1]))
    inside = " … ".join(ends).encode("utf-8", "replace").decode()
    number = f" ({len(unit.names)})" if len(ends) > 1 else ""
    return f"{unit.label}/{inside}{number}"


def save_spec(layout: Layout, spec: BuildSpec) -> None:
    """Store the description of the build."""
    write_atomic(layout.spec, pickle.dumps(spec))


def stamp_of(layout: Layout) -> int:
    """Return what tells a build from an earlier one in the same folder; for caches."""
    return layout.spec.stat().st_mtime_ns


def load_spec(layout: Layout) -> BuildSpec:
    """Load what ``save_spec`` stored; once a process.

    Raises:
        CorpusError: If it belongs to another user.
    """
    return _load_spec(layout, stamp_of(layout))


@lru_cache(maxsize=1)
def _load_spec(layout: Layout, _stamp: int) -> BuildSpec:
    return cast("BuildSpec", _load_own(layout.spec))


def save_unit(layout: Layout, unit_idx: int, unit: Unit) -> None:
    """Store a unit; its names need not be text that JSON could hold."""
    with layout.whole(layout.unit(unit_idx)) as path:
        path.write_bytes(pickle.dumps(unit))


def load_unit(layout: Layout, unit_idx: int) -> Unit:
    """Load what ``save_unit`` stored.

    Raises:
        CorpusError: If it belongs to another user.
    """
    return cast("Unit", _load_own(layout.unit(unit_idx)))


def _load_own(path: Path) -> object:
    """Load what a build of this user stored: a pickle of somebody else could run anything."""
    with path.open("rb") as stream:
        owner = os.fstat(stream.fileno()).st_uid
        if hasattr(os, "geteuid") and owner != os.geteuid():
            message = (
                f"{path} belongs to another user (id {owner}) and is not read. Remove the folder "
                "or choose another --out."
            )
            raise CorpusError(message)
        return pickle.load(stream)  # noqa: S301


def load_context(layout: Layout) -> StepContext:
    """Load what steps need besides rows; once a process."""
    return _load_context(layout, stamp_of(layout))


@lru_cache(maxsize=1)
def _load_context(layout: Layout, _stamp: int) -> StepContext:
    recipe = load_spec(layout).recipe
    own_steps: object = {}
    if recipe.python_path is not None:
        own_steps = load_python(recipe.python_path, recipe.label).get("STEPS", {})
    return StepContext(
        holdouts=load(recipe.holdout_files),
        opt_out=recipe.opt_out,
        own_steps=cast("Mapping[str, Callable[..., Row | Removal]]", own_steps),
        label=recipe.label,
        rules_dir=layout.rules if recipe.has(SECRETS) else None,
    )
