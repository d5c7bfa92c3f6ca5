"""The filters that run something: does the reference pass, and nothing else?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.run import watch_progress
from jupyt5_dsp.validation import Validation, validate_set

__all__ = ["filter_of", "judge_folder"]


def judge_folder(
    root_path: Path,
    execution: Execution,
    *,
    hidden_paths: Sequence[Path],
    num_workers: int,
    log_path: Path,
    desc: str,
) -> tuple[list[Validation], Mapping[str, object]]:
    """Validate a problem set; what ``log_path`` holds already is not done again.

    Args:
        root_path: The set.
        execution: How its cells are run.
        hidden_paths: Folders out of their sight, besides the set itself.
        num_workers: Notebooks at a time.
        log_path: Findings are added here as they come.
        desc: What the progress bar says.

    Returns:
        The findings in the order of the problems, and the environment they hold in.

    Raises:
        ExecutionError: If there is no sandbox, or nothing starts.
    """
    problem_set = load_problem_set(root_path)
    sandbox = choose_sandbox(
        execution.sandbox.name, execution.interpreter, hidden_paths=[root_path, *hidden_paths]
    )
    walled = replace(execution, sandbox=sandbox)
    environment = describe_environment(problem_set, walled)
    with Grader(problem_set, walled) as grader, watch_progress(desc, "problem") as watch:
        findings = validate_set(
            grader, environment, num_workers=num_workers, log_path=log_path, watch=watch
        )
    return findings, environment


def filter_of(finding: Validation) -> str:
    """Return the name of the filter that a finding fails; "" if it fails none."""
    if finding.usable == "yes":
        return ""
    if finding.usable == "no":
        return "executes"
    return "stable" if finding.usable == "unstable" else "tests"
