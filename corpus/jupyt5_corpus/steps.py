"""All steps by name, and how a recipe's choice of them becomes functions over one row."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, cast

from jupyt5_corpus.filters import (
    RowStep,
    exact_duplicates,
    holdout,
    markdown_focused,
    normalise,
    parse,
)
from jupyt5_corpus.fingerprint import Fingerprint, fingerprint
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.opt_out import STEP as OPT_OUT
from jupyt5_corpus.opt_out import OptOut, judge
from jupyt5_corpus.own_steps import guard_step
from jupyt5_corpus.row import CellText, Removal, Row

__all__ = [
    "HELD_OUT_BY",
    "LANGUAGE",
    "LICENCES",
    "NEAR_DUPLICATES",
    "OPT_OUT",
    "OVERLAP",
    "QUALITY",
    "SECRETS",
    "STEP_NAMES",
    "StepChoice",
    "StepContext",
    "StepTimes",
    "check_options",
    "fill_options",
    "fingerprint_of",
    "make_steps",
    "run_steps",
]

# Named here, since the modules of some are heavy to import.
LANGUAGE, LICENCES, SECRETS, QUALITY = "language", "licences", "secrets", "quality"
NEAR_DUPLICATES, OVERLAP = "near_duplicates", "overlap"

STEP_NAMES = (
    parse.STEP,
    normalise.STEP,
    OPT_OUT,
    holdout.STEP,
    OVERLAP,
    LANGUAGE,
    exact_duplicates.STEP,
    NEAR_DUPLICATES,
    LICENCES,
    SECRETS,
    QUALITY,
    markdown_focused.STEP,
)

_POLICY = "permissive"
"""Licences that stay unless a recipe says more."""

HELD_OUT_BY = frozenset({holdout.STEP, OVERLAP})
"""Steps whose removals draw their copies after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChoice:
    """A step of a recipe and its options."""

    name: str
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """What steps need besides the row and their options; ``label`` is the recipe's, for errors."""

    holdouts: Holdouts
    opt_out: OptOut | None
    own_steps: Mapping[str, Callable[..., Row | Removal]]
    label: str = ""
    rules_dir: Path | None = None


@dataclass(slots=True)
class StepTimes:
    """Seconds of processor time that each step took so far; for reports, never for output."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, start_s: float) -> None:
        """Count the time since ``start_s`` (``process_time``)."""
        self.seconds[name] = self.seconds.get(name, 0.0) + process_time() - start_s


def fill_options(choice: StepChoice) -> StepChoice:
    """Return a choice with the values of options that cannot be missing."""
    if choice.name != LICENCES:
        return choice
    return StepChoice(name=choice.name, options={"policy": _POLICY, **choice.options})


def check_options(choice: StepChoice) -> str | None:
    """Return what is wrong with the options of one of our steps, None if nothing is."""
    if choice.name not in STEP_NAMES:
        return None  # the recipe's own: it takes what it takes
    known = _known_options(choice.name)
    unknown = sorted(choice.options.keys() - known)
    if unknown:
        offer = ", ".join(sorted(known)) or "none"
        return f"step {choice.name} has no option {', '.join(unknown)} (it has: {offer})"
    for option, value in choice.options.items():
        expected = _wrong_value(choice.name, value)
        if expected is not None:
            return f"{option} of step {choice.name} is {value!r}, not {expected}"
    return None


def make_steps(choices: Iterable[StepChoice], context: StepContext) -> list[tuple[str, RowStep]]:
    """Turn choices into functions over one row."""
    steps: list[tuple[str, RowStep]] = []
    for choice in choices:
        if choice.name == OVERLAP:
            # A step of its own, so that its time is not taken for that of the comparison.
            steps.append(("fingerprint", _make_fingerprint))
        steps.append((choice.name, _make_step(choice, context)))
    return steps


def run_steps(
    row: Row, steps: Iterable[tuple[str, RowStep]], times: StepTimes
) -> tuple[Row, Removal | None]:
    """Pass a row through steps until one removes it; return its last state, and the removal."""
    for name, step in steps:
        start_s = process_time()
        result = step(row)
        times.add(name, start_s)
        if isinstance(result, Removal):
            return row, result
        row = result
    return row, None


def fingerprint_of(row: Row) -> Fingerprint:
    """Return the fingerprint of a row's cells; made once for steps that ask one after the other."""
    global _last
    if _last is None or _last[0] is not row.cells:
        _last = (row.cells, fingerprint(row.cells))
    return _last[1]


_last: tuple[tuple[CellText, ...], Fingerprint] | None = None


def _make_step(choice: StepChoice, context: StepContext) -> RowStep:
    options = choice.options
    if choice.name in context.own_steps:
        step = partial(context.own_steps[choice.name], **options)
        return guard_step(choice.name, step, context.label)
    match choice.name:
        case "normalise":
            return normalise.normalise
        case "opt_out":
            assert context.opt_out is not None
            return partial(judge, opt_out=context.opt_out)
        case "holdout":
            return partial(holdout.hold_out, holdouts=context.holdouts, rules_dir=context.rules_dir)
        case "overlap":
            return partial(_hold_out_overlap, rules_dir=context.rules_dir)
        case "markdown_focused":
            return markdown_focused.mark_markdown_focused
        case _:
            return _make_heavy_step(choice, context)


def _make_heavy_step(choice: StepChoice, context: StepContext) -> RowStep:
    """Make a step whose module is imported only where a recipe has it."""
    options: Mapping[str, Any] = choice.options
    match choice.name:
        case "language":
            from jupyt5_corpus.filters.language import fill_language

            return fill_language
        case "licences":
            from jupyt5_corpus.filters import licences

            return partial(licences.judge, **options)
        case "secrets":
            from jupyt5_corpus.filters.secrets import redact

            return partial(redact, rules_dir=context.rules_dir)
        case "quality":
            from jupyt5_corpus.filters import quality

            return partial(quality.measure, limits=quality.Limits(**options))
        case name:
            raise AssertionError(name)


def _known_options(name: str) -> frozenset[str]:
    match name:
        case "holdout":
            return frozenset({"expected_lists"})
        case "licences":
            return frozenset({"policy"})
        case "quality":
            from jupyt5_corpus.filters.quality import Limits

            return frozenset(each.name for each in fields(Limits))
        case _:
            return frozenset()


def _wrong_value(name: str, value: object) -> str | None:
    """Return what an option of a step must be, None if this value is it."""
    match name:
        case "holdout":
            is_good = isinstance(value, list) and all(
                isinstance(each, str) for each in cast("list[object]", value)
            )
            return None if is_good else "a list of texts"
        case "licences":
            from jupyt5_corpus.filters.licences import POLICIES

            return None if value in POLICIES else f"one of {', '.join(POLICIES)}"
        case _:
            is_good = isinstance(value, int | float | None) and not isinstance(value, bool)
            return None if is_good else "a number"


def _make_fingerprint(row: Row) -> Row:
    fingerprint_of(row)
    return row


def _hold_out_overlap(row: Row, *, rules_dir: Path | None) -> Row | Removal:
    from jupyt5_corpus.benchmark_index import load_bundled
    from jupyt5_corpus.filters.overlap import hold_out_overlap

    index = load_bundled()
    return hold_out_overlap(row, fingerprint_of(row), index, rules_dir=rules_dir)
