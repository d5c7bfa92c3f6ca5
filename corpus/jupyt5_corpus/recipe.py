"""What a build does, in order, and the record of it that the manifest carries."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import orjson

from jupyt5 import __version__
from jupyt5_corpus import split
from jupyt5_corpus.filters import RowStep, exact_duplicates, holdout, markdown_focused, parse
from jupyt5_corpus.holdout_lists import HoldoutFile, Holdouts, count_entries, load
from jupyt5_corpus.tables import PYARROW_VERSION

__all__ = ["STEPS", "Recipe", "versions"]

STEPS = (parse.STEP, holdout.STEP, exact_duplicates.STEP, markdown_focused.STEP)
"""The steps as the manifest lists them; the mark is set early but counted on what is kept."""

_NAME = "exact-1"
"""Raise the number whenever the same input would give other rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The choices of one build: here, which holdout lists apply."""

    holdout_files: Sequence[HoldoutFile]

    def load_holdouts(self) -> Holdouts:
        """Read the holdout lists.

        Raises:
            CorpusError: If a line of one is malformed.
        """
        return load(self.holdout_files)

    def row_steps(self, holdouts: Holdouts) -> tuple[RowStep, ...]:
        """Return the steps over single rows, after parsing."""
        return partial(holdout.hold_out, holdouts=holdouts), markdown_focused.mark_markdown_focused

    def record(self, holdouts: Holdouts) -> Mapping[str, object]:
        """Return what the manifest says about the recipe."""
        return {
            "name": _NAME,
            "steps": list(STEPS),
            "split": split.RULE,
            "holdouts": [
                {"file": each.name, "sha256": sha256(each.data).hexdigest()}
                for each in self.holdout_files
            ],
            "holdout_entries": dict(count_entries(holdouts)),
        }


def versions() -> Mapping[str, str]:
    """Return the versions that the bytes of a corpus depend on."""
    return {
        "jupyt5": __version__,
        "python": platform.python_version(),
        "pyarrow": PYARROW_VERSION,
        "orjson": orjson.__version__,
    }
