"""Suites by name. A new suite is one file here and one line in ``_SUITES``; see docs/suites.md."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.suites.base import Suite
from jupyt5_dsp.suites.biocoder import BioCoderSuite
from jupyt5_dsp.suites.dsp import DspSuite
from jupyt5_dsp.suites.humaneval import HumanEvalSuite
from jupyt5_dsp.suites.mbpp import MbppSuite
from jupyt5_dsp.suites.options import PRESENTATION, Option, read_options
from jupyt5_dsp.suites.rosalind import RosalindSuite

__all__ = [
    "PRESENTATION",
    "Option",
    "Suite",
    "find_suite",
    "list_suites",
    "load_suite",
    "read_options",
]

_SUITES: tuple[Suite, ...] = (
    DspSuite(),
    HumanEvalSuite(),
    MbppSuite(),
    BioCoderSuite(),
    RosalindSuite(),
)


def list_suites() -> tuple[Suite, ...]:
    """Return all suites."""
    return _SUITES


def find_suite(name: str) -> Suite:
    """Return the suite called ``name``.

    Raises:
        UsageError: If there is none; names the nearest.
    """
    names = [suite.name for suite in _SUITES]
    if name in names:
        return _SUITES[names.index(name)]
    near = difflib.get_close_matches(name, names, n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    message = f"Suite {name!r} is unknown.{guess} Known suites: {', '.join(names)}."
    raise UsageError(message)


def load_suite(suite: Suite, path: Path, given: Mapping[str, str] | None = None) -> ProblemSet:
    """Read a suite's problems, with its defaults for options that are not given.

    Raises:
        UsageError: If an option or its value is unknown.
        ProblemSetError: If there are no problems, or the file is damaged.
    """
    return suite.load(path, read_options(suite.name, suite.options, given or {}))
