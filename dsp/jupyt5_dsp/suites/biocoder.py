"""BioCoder: functions of bioinformatics projects, tested by fuzzing (Tang et al. 2024)."""

from collections.abc import Mapping
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5_dsp.biocoder.checker import OutputTest
from jupyt5_dsp.biocoder.loader import load_problems
from jupyt5_dsp.biocoder.programs import make_set, make_test
from jupyt5_dsp.biocoder.prompts import DEFAULT_BUDGET_TOKENS, FORMS
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.programs import find_file
from jupyt5_dsp.suites.options import CORRECTIONS, PRESENTATION, Option

__all__ = ["BioCoderSuite", "read_count"]

_FILES = {
    "python-public": ("python_public.jsonl", "test_tasks.jsonl"),
    "python-similar": ("python_similar.json", "python_similar_v1.json"),
    "python-hidden": ("python_hidden.json", "python_hidden_v1.json"),
    "java-public": ("java_public.json",),
    "java-similar": ("java_similar.json",),
    "java-hidden": ("java_hidden.json",),
    "functions": ("functions.jsonl",),
}


class BioCoderSuite:
    """Functions in their context; a sample passes if it prints what the reference prints."""

    name = "biocoder"
    version = "biocoder-v4"
    about = "functions of bioinformatics projects, compared with the reference on generated inputs"
    licence = "none stated; the functions are those of their projects"
    home = "https://github.com/gersteinlab/biocoder"
    options = (
        Option(
            name=PRESENTATION,
            default="summary-top",
            choices=FORMS,
            about="the paper's prompt forms",
        ),
        Option(
            name="set",
            default="python-public",
            choices=tuple(_FILES),
            about="which file of the folder; only rows with a context can be executed",
        ),
        Option(name="inputs", default="10", about="generated inputs of each problem"),
        Option(name="input-seed", default="0", about="of the generated inputs"),
        Option(
            name="context-tokens",
            default=str(DEFAULT_BUDGET_TOKENS),
            about="most tokens of a prompt, 3.5 bytes each; more is cut off its surroundings",
        ),
        CORRECTIONS,
    )

    def load(self, path: Path, options: Mapping[str, str]) -> ProblemSet:
        """Read a file of problems; see ``Suite.load``."""
        problems = load_problems(find_file(path, _FILES[options["set"]]))
        num_inputs = read_count(options, "inputs", least=1)
        seed = read_count(options, "input-seed", least=0)
        tests: dict[str, OutputTest] = {}
        reasons: dict[str, str] = {}
        for problem in problems:
            test = make_test(problem, num_inputs=num_inputs, seed=seed)
            if isinstance(test, str):
                reasons[problem.task_id] = test
            else:
                tests[problem.task_id] = test
        return make_set(
            problems,
            tests,
            form=options[PRESENTATION],
            budget_tokens=read_count(options, "context-tokens", least=1),
            reasons=reasons,
            corrects=options["corrections"] == "yes",
        )


def read_count(options: Mapping[str, str], name: str, *, least: int) -> int:
    """Return the whole number that an option holds.

    Raises:
        UsageError: If it holds none, or one that is less than ``least``.
    """
    text = options[name]
    if not text.isdecimal() or int(text) < least:
        message = f"Option {name}={text} is no whole number from {least} up. Give one."
        raise UsageError(message)
    return int(text)
