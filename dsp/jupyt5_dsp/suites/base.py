"""What a suite is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.suites.options import Option

__all__ = ["Suite"]


class Suite(Protocol):
    """A benchmark: where its problems come from, how they are shown, the version of its rules.

    Attributes:
        name: As in ``--suite``.
        version: Rises with any change that changes results.
        about: What it asks, in a line.
        licence: Of its data.
        home: Where they are published.
        options: What a user may choose; ``presentation`` is what a provider sees.
    """

    name: str
    version: str
    about: str
    licence: str
    home: str
    options: tuple[Option, ...]

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read the problems.

        Args:
            path: A folder, or the suite's own file.
            options: A value for each of its options.

        Raises:
            ProblemSetError: If there are none, or the file is damaged; names it and the record.
        """
        ...
