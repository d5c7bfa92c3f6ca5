"""Suites by name. A new suite is one file here and one line in ``_SUITES``."""

import difflib
from pathlib import Path
from typing import Protocol

from jupyt5.errors import UsageError
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.suites.dsp import DspSuite

__all__ = ["Suite", "find_suite", "list_suites"]


class Suite(Protocol):
    """A benchmark: where its problems come from, and the version of its rules."""

    name: str
    version: str

    def load(self, root_path: Path) -> ProblemSet:
        """Read the problem set; see ``load_problem_set`` for what it raises."""
        ...


_SUITES: tuple[Suite, ...] = (DspSuite(),)


def list_suites() -> tuple[str, ...]:
    """Return the names of all suites."""
    return tuple(suite.name for suite in _SUITES)


def find_suite(name: str) -> Suite:
    """Return the suite called ``name``.

    Raises:
        UsageError: If there is none; names the nearest.
    """
    for suite in _SUITES:
        if suite.name == name:
            return suite
    near = difflib.get_close_matches(name, list_suites(), n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    message = f"Suite {name!r} is unknown.{guess} Known suites: {', '.join(list_suites())}."
    raise UsageError(message)
