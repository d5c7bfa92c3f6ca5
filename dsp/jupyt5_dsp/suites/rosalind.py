"""BioCoder's Rosalind problems: whole programs, one stored input each."""

from collections.abc import Mapping
from pathlib import Path

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.biocoder.checker import OutputTest
from jupyt5_dsp.biocoder.programs import PROGRAM_STOPS, make_set
from jupyt5_dsp.biocoder.prompts import DEFAULT_BUDGET_TOKENS
from jupyt5_dsp.biocoder.rosalind import load_rosalind, make_rosalind_test, read_pairs
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.programs import find_file
from jupyt5_dsp.suites.options import CORRECTIONS, PRESENTATION, Option

__all__ = ["RosalindSuite"]

_FILES = ("rosalind.jsonl",)
_PAIRS = ("rosalind_testcases.tar.xz", "rosalind_testcases.tar.gz", "rosalind_testcases.tar")


class RosalindSuite:
    """Programs that read a file and print an answer."""

    name = "rosalind"
    version = "rosalind-v3"
    about = "bioinformatics exercises: a program that reads a file and prints the answer"
    licence = "references MIT, (c) 2022 Dan Halligan; inputs not stated"
    home = "https://github.com/gersteinlab/biocoder"
    options = (
        Option(
            name=PRESENTATION,
            default="description",
            choices=("description",),
            about="what main(file) has to do, and the statement where the file has one",
        ),
        CORRECTIONS,
    )

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read ``rosalind.jsonl`` and the archive of pairs beside it; see ``Suite.load``."""
        list_path = find_file(path, _FILES)
        problems = load_rosalind(list_path)
        pairs_path = _find_pairs(list_path.parent)
        pairs = read_pairs(pairs_path)
        if not any(problem.task_id in pairs for problem in problems):
            message = (
                f"None of the {len(problems)} problems of {list_path}, such as "
                f"{problems[0].task_id!r}, has an input in {pairs_path}. Give a rosalind.jsonl "
                "whose ids are those of the archive; BioCoder's functions are --suite biocoder."
            )
            raise ProblemSetError(message)
        tests: dict[str, OutputTest] = {}
        reasons: dict[str, str] = {}
        for problem in problems:
            test = make_rosalind_test(problem, pairs)
            if isinstance(test, str):
                reasons[problem.task_id] = test
            else:
                tests[problem.task_id] = test
        return make_set(
            problems,
            tests,
            form="summary-only",
            budget_tokens=DEFAULT_BUDGET_TOKENS,
            reasons=reasons,
            stops=PROGRAM_STOPS,
            corrects=options["corrections"] == "yes",
        )


def _find_pairs(folder: Path) -> Path:
    try:
        return find_file(folder, _PAIRS)
    except ProblemSetError as exc:
        message = (
            f"{folder} has no {_PAIRS[0]} with inputs and answers. Put it beside the problems."
        )
        raise ProblemSetError(message) from exc
