"""What a report calls things: cells of notebooks, or whole programs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["VERDICT_MEANINGS", "Words", "choose_words"]

VERDICT_MEANINGS = {
    "passed": "every grading cell started and finished in this run",
    "wrong": "an assertion of a grading cell failed",
    "error": "another exception ended a cell",
    "syntax": "the solution cell is not Python",
    "timeout": "not done within the time limit",
    "died": "the interpreter went away: a crash, os._exit, a kill",
    "exit": "SystemExit or KeyboardInterrupt ended a cell",
    "oom": "the memory limit was reached",
    "limit": "another limit was reached: processes, file size or output",
    "context": "a cell that is not the model's failed first",
    "invalid": "the problem cannot judge anything here, so it was not run",
}
_OF_PROGRAMS = {
    "passed": "the program ran to its end, and its test passed or its output was right",
    "wrong": "an assertion of the test failed, or the output is not the reference's",
    "error": "another exception ended the program or its test",
    "syntax": "the program is not Python",
    "exit": "SystemExit or KeyboardInterrupt ended the program",
    "context": "what is not the model's failed first",
}
_MESSAGES = (
    (re.compile(r"\bSolution cell \d+"), "The program"),
    (re.compile(r"\bGrading cell \d+"), "The test"),
    (re.compile(r"\bthe solution cell\b"), "the solution"),
    (re.compile(r"\bgrading cell\b"), "test"),
)
_RAISED = "solution cell raised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one report.

    Attributes:
        programs: Whether each problem is a program of its own.
        meanings: Of each verdict.
        raised: For the flag of a solution that raised and passed all the same.
        raised_meaning: What that flag means.
        forked: For samples that were forked.
    """

    programs: bool = False
    meanings: Mapping[str, str] = field(default_factory=lambda: VERDICT_MEANINGS)
    raised: str = _RAISED
    raised_meaning: str = "the grading cells passed all the same, so these are passes"
    forked: str = "forked from the notebook's interpreter"

    def say(self, message: str) -> str:
        """Return a message or reason, which speaks of cells, in these words."""
        if self.programs:
            for pattern, words in _MESSAGES:
                message = pattern.sub(words, message)
        return message

    def name_flag(self, flag: str) -> str:
        """Return what a flag is called."""
        return self.raised if flag == _RAISED else flag


_PROGRAM_WORDS = Words(
    programs=True,
    meanings=VERDICT_MEANINGS | _OF_PROGRAMS,
    raised="solution raised",
    raised_meaning="the test passed all the same, so these are passes",
    forked="forked from an interpreter with the packages loaded",
)


def choose_words(problems: Sequence[Mapping[str, Any]]) -> Words:
    """Return the words for the problems in ``results.json``: a program's notebook is itself."""
    if problems and all(problem["notebook"] == problem["task_id"] for problem in problems):
        return _PROGRAM_WORDS
    return Words()
