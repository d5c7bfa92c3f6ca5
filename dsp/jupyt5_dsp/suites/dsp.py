"""Data Science Problems: notebook problems judged by the grading cells of their courses."""

from pathlib import Path

from jupyt5_dsp.problems import ProblemSet, load_problem_set

__all__ = ["DspSuite"]


class DspSuite:
    """The suite of the JuPyT5 paper. The version rises with any change that changes results."""

    name = "dsp"
    version = "dsp-v1"

    def load(self, root_path: Path) -> ProblemSet:
        """Read the problem set; see ``load_problem_set`` for what it raises."""
        return load_problem_set(root_path)
