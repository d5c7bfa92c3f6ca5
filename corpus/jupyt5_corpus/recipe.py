"""Recipes: which steps a build takes, in which order, and the record of it in the manifest.

A recipe is a YAML file, or a Python file with a dictionary ``RECIPE`` of the same content::

    name: mine
    steps:
      - parse
      - holdout
      - exact_duplicates
      - licences: {policy: permissive+none}

The first step is ``parse``. Steps before ``exact_duplicates`` see every notebook, steps after it
what is left. A Python file may also define steps: functions ``(Row, **options) -> Row | Removal``
in a dictionary ``STEPS``, by name. A step returns the row, a changed copy of it
(``dataclasses.replace``), or the removal of the notebook::

    from jupyt5_corpus.filters import removal_of

    def no_short(row, min_cells):
        if len(row.cells) < min_cells:
            detail = f"{len(row.cells)} cells"
            return removal_of(row, step="no_short", reason="too_short", detail=detail)
        return row

    STEPS = {"no_short": no_short}
    RECIPE = {"name": "mine", "steps": ["parse", {"no_short": {"min_cells": 2}}]}
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import cast

import orjson
import yaml

from jupyt5 import __version__
from jupyt5.errors import UsageError
from jupyt5_corpus import split
from jupyt5_corpus.benchmark_index import bundled_data
from jupyt5_corpus.filters import exact_duplicates, holdout, markdown_focused, parse
from jupyt5_corpus.holdout_lists import HoldoutFile, count_entries, load
from jupyt5_corpus.opt_out import OptOut
from jupyt5_corpus.own_steps import bad_recipe, load_python
from jupyt5_corpus.steps import (
    LICENCES,
    NEAR_DUPLICATES,
    OPT_OUT,
    OVERLAP,
    SECRETS,
    STEP_NAMES,
    StepChoice,
    check_options,
    fill_options,
)
from jupyt5_corpus.tables import PYARROW_VERSION

__all__ = ["BUILT_IN", "Recipe", "load_recipe", "versions"]

BUILT_IN = ("default", "paper")

_REVISION = 2
"""Raise whenever the same recipe would give other rows."""


_PACKAGES = {
    LICENCES: ("licenseclassifier", "license-expression"),
    SECRETS: ("bc-detect-secrets", "kingfisher-secret-scanner", "tldextract"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The choices of one build.

    Attributes:
        name: As the recipe calls itself.
        label: What errors call the recipe: its file's name, or that of a built-in one.
        steps: All steps with their options, ``parse`` first.
        holdout_files: Holdout lists.
        opt_out: What its owners want out, if a list was given.
        python_path: File whose ``STEPS`` the recipe uses, if it is a Python file.
        digest: SHA-256 of the recipe's own file.
    """

    name: str
    label: str
    steps: tuple[StepChoice, ...]
    holdout_files: tuple[HoldoutFile, ...] = ()
    opt_out: OptOut | None = None
    python_path: Path | None = None
    digest: str

    def has(self, step: str) -> bool:
        """Tell whether the recipe has a step of this name."""
        return any(choice.name == step for choice in self.steps)

    def options(self, step: str) -> Mapping[str, object]:
        """Return the options of a step, none if the recipe does not have it."""
        for choice in self.steps:
            if choice.name == step:
                return choice.options
        return {}

    @property
    def early_steps(self) -> tuple[StepChoice, ...]:
        """Steps over single rows that see every notebook; the mark is made here in any case."""
        early = self.steps[1 : self._first_corpus_step()]
        marks = (choice for choice in self.steps if choice.name == markdown_focused.STEP)
        return (*(each for each in early if each.name != markdown_focused.STEP), *marks)

    @property
    def late_steps(self) -> tuple[StepChoice, ...]:
        """Steps over single rows after duplicates went."""
        later = self.steps[self._first_corpus_step() :]
        done = {*_CORPUS_STEPS, markdown_focused.STEP}
        return tuple(choice for choice in later if choice.name not in done)

    def skipped(self) -> list[Mapping[str, str]]:
        """Return what the recipe asks for and this build cannot do, with the reason."""
        if not self.has(holdout.STEP):
            return []
        expected = cast("Sequence[str]", self.options(holdout.STEP).get("expected_lists", ()))
        holdouts = load(self.holdout_files)
        sources = {
            source.lower()
            for table in (holdouts.repos, holdouts.contents, holdouts.cells)
            for source in table.values()
        }
        return [
            {"step": holdout.STEP, "list": name, "reason": "no such list was given (--holdout)"}
            for name in expected
            if not any(name.lower() in source for source in sources)
        ]

    def record(self) -> Mapping[str, object]:
        """Return what the manifest says about the recipe.

        Raises:
            CorpusError: If a holdout list is malformed.
        """
        return {
            "name": self.name,
            "revision": _REVISION,
            "sha256": self.digest,
            "steps": [choice.name for choice in self.steps],
            "options": {
                choice.name: dict(choice.options) for choice in self.steps if choice.options
            },
            "split": split.RULE,
            "holdouts": [_describe_file(each) for each in self.holdout_files],
            "holdout_entries": dict(count_entries(load(self.holdout_files))),
            "overlap_index": _describe_index() if self.has(OVERLAP) else None,
            "opt_out": None if self.opt_out is None else self.opt_out.record(),
            "skipped": self.skipped(),
        }

    def _first_corpus_step(self) -> int:
        names = [choice.name for choice in self.steps]
        return min(
            (names.index(name) for name in _CORPUS_STEPS if name in names), default=len(names)
        )


_CORPUS_STEPS = (exact_duplicates.STEP, NEAR_DUPLICATES)


def load_recipe(
    name_or_path: str,
    *,
    holdout_files: Sequence[HoldoutFile] = (),
    opt_out: OptOut | None = None,
) -> Recipe:
    """Load a built-in recipe or a recipe file.

    Args:
        name_or_path: ``default``, ``paper``, or a ``.yaml``, ``.yml`` or ``.py`` file.
        holdout_files: Lists for the step ``holdout``.
        opt_out: List for the step ``opt_out``; without it the step is left out.

    Raises:
        UsageError: If there is no such recipe, or it cannot be used; says why.
    """
    label, data, python_path = _read_source(name_or_path)
    if python_path is None:
        try:
            content: object = yaml.safe_load(data)
        except yaml.YAMLError as exc:
            raise bad_recipe(label, f"no valid YAML ({' '.join(str(exc).split())})") from exc
        own_steps: Mapping[str, object] = {}
    else:
        module = load_python(python_path, label)
        content, own_steps = module.get("RECIPE"), _own_steps(label, module)
    name, choices = _read_content(label, content)
    choices = _place_opt_out(choices, is_wanted=opt_out is not None)
    _check_order(label, choices, own_steps)
    if holdout_files and not any(each.name == holdout.STEP for each in choices):
        raise bad_recipe(label, "a holdout list is given, but the recipe has no step holdout")
    return Recipe(
        name=name,
        label=label,
        steps=choices,
        holdout_files=tuple(holdout_files),
        opt_out=opt_out,
        python_path=python_path,
        digest=sha256(data).hexdigest(),
    )


def _place_opt_out(choices: tuple[StepChoice, ...], *, is_wanted: bool) -> tuple[StepChoice, ...]:
    """Put the step first after ``parse``, or leave it out."""
    others = tuple(each for each in choices if each.name != OPT_OUT)
    if not is_wanted or not others:
        return others
    return (others[0], StepChoice(name=OPT_OUT, options={}), *others[1:])


def versions(recipe: Recipe) -> Mapping[str, str]:
    """Return the versions that the bytes of a corpus made with a recipe depend on."""
    packages = ["numpy"] if recipe.has(OVERLAP) or recipe.has(NEAR_DUPLICATES) else []
    for step, needed in _PACKAGES.items():
        packages += needed if recipe.has(step) else ()
    return {
        "jupyt5": __version__,
        "python": platform.python_version(),
        "pyarrow": PYARROW_VERSION,
        "orjson": orjson.__version__,
        **{package: metadata.version(package) for package in packages},
    }


def _read_source(name_or_path: str) -> tuple[str, bytes, Path | None]:
    if name_or_path in BUILT_IN:
        resource = files("jupyt5_corpus") / "recipes" / f"{name_or_path}.yaml"
        return name_or_path, resource.read_bytes(), None
    path = Path(name_or_path)
    if path.suffix not in {".yaml", ".yml", ".py"}:
        message = (
            f"There is no recipe {name_or_path!r}. "
            f"Give one of {', '.join(BUILT_IN)}, or a .yaml or .py file."
        )
        raise UsageError(message)
    try:
        data = path.read_bytes()
    except OSError as exc:
        message = f"Recipe {path} cannot be read: {exc.strerror}. Check the path."
        raise UsageError(message) from exc
    return path.name, data, path.resolve() if path.suffix == ".py" else None


def _read_content(label: str, content: object) -> tuple[str, tuple[StepChoice, ...]]:
    if not isinstance(content, dict):
        raise bad_recipe(label, "no mapping with name and steps")
    entries = cast("dict[str, object]", content)
    unknown = sorted(map(str, entries.keys() - {"name", "steps"}))
    if unknown:
        raise bad_recipe(label, f"it has {', '.join(unknown)} besides name and steps")
    name, steps = entries.get("name"), entries.get("steps")
    if not isinstance(name, str):
        raise bad_recipe(label, "name must be a text" if "name" in entries else "it has no name")
    if not isinstance(steps, list) or not steps:
        raise bad_recipe(label, "steps must be a list of at least one step")
    return name, tuple(_read_step(label, each) for each in cast("list[object]", steps))


def _read_step(label: str, entry: object) -> StepChoice:
    if isinstance(entry, str):
        return fill_options(StepChoice(name=entry, options={}))
    if isinstance(entry, dict) and len(cast("dict[object, object]", entry)) == 1:
        ((name, options),) = cast("dict[object, object]", entry).items()
        if isinstance(name, str) and isinstance(options, dict | None):
            given = cast("dict[str, object]", options or {})
            _check_plain(label, name, given)
            return fill_options(StepChoice(name=name, options=given))
    raise bad_recipe(label, f"{entry!r} is neither a step's name nor `name: {{option: value}}`")


def _check_plain(label: str, name: str, options: object) -> None:
    """Refuse options that the manifest could not hold, e.g. sets or functions."""
    try:
        orjson.dumps(options)
    except TypeError as exc:
        raise bad_recipe(label, f"options of step {name} are no plain data ({exc})") from exc


def _check_order(
    label: str, choices: Sequence[StepChoice], own_steps: Mapping[str, object]
) -> None:
    names = [choice.name for choice in choices]
    for choice in choices:
        if choice.name not in STEP_NAMES and choice.name not in own_steps:
            known = ", ".join([*STEP_NAMES, *own_steps])
            raise bad_recipe(label, f"there is no step {choice.name}; known are {known}")
        problem = check_options(choice)
        if problem is not None:
            raise bad_recipe(label, problem)
    if names[:1] != [parse.STEP]:
        raise bad_recipe(label, f"the first step is not {parse.STEP}")
    if len(set(names)) < len(names):
        raise bad_recipe(label, "a step is there twice")
    # Copies of what these remove are found among the duplicates; a licence comes from the plan.
    orders = [
        (early, late)
        for early in (holdout.STEP, OVERLAP)
        for late in (exact_duplicates.STEP, NEAR_DUPLICATES)
    ]
    orders += [(exact_duplicates.STEP, NEAR_DUPLICATES), (exact_duplicates.STEP, LICENCES)]
    for early, late in orders:
        if early in names and late in names and names.index(early) > names.index(late):
            raise bad_recipe(label, f"step {early} must stand before {late}")
    if NEAR_DUPLICATES in names and exact_duplicates.STEP not in names:
        raise bad_recipe(label, f"{NEAR_DUPLICATES} needs {exact_duplicates.STEP} before it")


def _own_steps(label: str, module: Mapping[str, object]) -> Mapping[str, object]:
    steps = module.get("STEPS", {})
    if not isinstance(steps, dict) or not all(
        map(callable, cast("dict[str, object]", steps).values())
    ):
        raise bad_recipe(label, "STEPS is no dictionary of functions")
    return cast("dict[str, object]", steps)


def _describe_index() -> Mapping[str, str]:
    return {"sha256": sha256(bundled_data()).hexdigest()}


def _describe_file(file: HoldoutFile) -> Mapping[str, str]:
    return {"file": file.name, "sha256": sha256(file.data).hexdigest()}
