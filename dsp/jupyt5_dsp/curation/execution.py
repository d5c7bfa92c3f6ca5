"""The filters that run something: does the reference pass, and nothing else?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.run import watch_progress
from jupyt5_dsp.validation import Validation, validate_set

__all__ = ["Judging", "filter_of", "judge_folder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How problems are run.

    Attributes:
        interpreter: Executes the cells.
        limits: Of solution and grading cells, and of the others; the paper gave each cell 600 s.
        sandbox: As ``--sandbox``.
        seed: Of hash seeds.
        num_workers: Notebooks at a time.
    """

    interpreter: Interpreter
    limits: Limits
    sandbox: str
    seed: int
    num_workers: int

    def plan(self, hidden_paths: Sequence[Path]) -> Execution:
        """Return how to execute with these folders out of sight.

        Raises:
            UsageError: If there is no such sandbox.
            ExecutionError: If it does not work here.
        """
        sandbox = choose_sandbox(self.sandbox, self.interpreter, hidden_paths=hidden_paths)
        return Execution(
            interpreter=self.interpreter, sandbox=sandbox, limits=self.limits, seed=self.seed
        )


def judge_folder(
    root_path: Path, judging: Judging, *, hidden_paths: Sequence[Path], log_path: Path, desc: str
) -> tuple[list[Validation], Mapping[str, object]]:
    """Validate a problem set; what ``log_path`` holds already is not done again.

    Returns:
        The findings in the order of the problems, and the environment they hold in.

    Raises:
        ExecutionError: If there is no sandbox, or nothing starts.
    """
    problem_set = load_problem_set(root_path)
    execution = judging.plan([root_path, *hidden_paths])
    environment = describe_environment(problem_set, execution)
    with Grader(problem_set, execution) as grader, watch_progress(desc, "problem") as watch:
        findings = validate_set(
            grader, environment, num_workers=judging.num_workers, log_path=log_path, watch=watch
        )
    return findings, environment


def filter_of(finding: Validation) -> str:
    """Return the name of the filter that a finding fails; "" if it fails none."""
    if finding.usable == "yes":
        return ""
    if finding.usable == "no":
        return "executes"
    return "stable" if finding.usable == "unstable" else "tests"
