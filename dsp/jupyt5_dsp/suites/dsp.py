"""Data Science Problems: notebook problems judged by the grading cells of their courses."""

from collections.abc import Mapping
from pathlib import Path

from jupyt5_dsp.problems import ProblemSet, load_problem_set
from jupyt5_dsp.suites.options import Option

__all__ = ["DspSuite"]


class DspSuite:
    """The suite of the JuPyT5 paper."""

    name = "dsp"
    version = "dsp-v1"
    about = "solution cells of course notebooks, judged by the courses' own tests"
    licence = "each repository's own"
    home = "https://github.com/microsoft/DataScienceProblems"
    options: tuple[Option, ...] = ()

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read the problem set; see ``load_problem_set`` for what it raises."""
        return load_problem_set(path)
