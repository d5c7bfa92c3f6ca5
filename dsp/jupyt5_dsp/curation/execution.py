"""The filters that run something: does the reference pass, and nothing else?"""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from jupyt5.console import progress, watch_progress
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.parallel import run_parallel
from jupyt5_dsp.problems import Problem, ProblemSet, load_problem_set
from jupyt5_dsp.validation import Validation, validate_set

__all__ = ["filter_of", "judge_folder", "list_opened"]


def judge_folder(
    root_path: Path,
    execution: Execution,
    *,
    task_ids: Collection[str],
    hidden_paths: Sequence[Path],
    num_workers: int,
    log_path: Path,
    desc: str,
) -> tuple[list[Validation], Mapping[str, object]]:
    """Validate problems of a set; what ``log_path`` holds already is not done again.

    Args:
        root_path: The set.
        execution: How its cells are run.
        task_ids: The problems to validate.
        hidden_paths: Folders out of their sight, besides the set itself.
        num_workers: Notebooks at a time.
        log_path: Findings are added here as they come.
        desc: What the progress bar says.

    Returns:
        The findings in the order of the problems, and the environment they hold in.

    Raises:
        ExecutionError: If there is no sandbox, or nothing starts.
    """
    problem_set = _load(root_path, task_ids)
    walled = _wall(execution, [root_path, *hidden_paths])
    environment = describe_environment(problem_set, walled)
    with Grader(problem_set, walled) as grader, watch_progress(desc, "problem") as watch:
        findings = validate_set(
            grader, environment, num_workers=num_workers, log_path=log_path, watch=watch
        )
    return findings, environment


def list_opened(
    root_path: Path,
    execution: Execution,
    *,
    task_ids: Collection[str],
    hidden_paths: Sequence[Path],
    num_workers: int,
    log_path: Path,
) -> dict[str, tuple[str, ...]]:
    """Run notebooks with their references and list the files that they opened.

    Args:
        root_path: The set.
        execution: How its cells are run.
        task_ids: The problems whose notebooks to run, as far as these need them.
        hidden_paths: Folders out of their sight, besides the set itself.
        num_workers: Notebooks at a time.
        log_path: Lists are added here as they come, and taken from here.

    Returns:
        Path of each notebook → files and folders, relative to its repository.
    """
    problem_set = _load(root_path, task_ids)
    opened = _read_opened(log_path)
    todo: dict[str, list[Problem]] = {}
    for problem in problem_set.problems:
        if problem.notebook_path not in opened:
            todo.setdefault(problem.notebook_path, []).append(problem)
    walled = _wall(execution, [root_path, *hidden_paths])
    with Grader(problem_set, walled) as grader:

        def job(path: str, cancel: threading.Event) -> tuple[str, ...]:
            return grader.list_opened(todo[path], cancel=cancel)

        results = run_parallel(job, list(todo), num_workers=num_workers)
        bar = progress(results, desc="data files looked for", total=len(todo), unit="notebook")
        for path, paths in bar:
            opened[path] = paths
            append_jsonl(log_path, [{"notebook_path": path, "paths": list(paths)}])
    return opened


def _read_opened(log_path: Path) -> dict[str, tuple[str, ...]]:
    repair_jsonl(log_path)
    return {
        str(one["notebook_path"]): tuple(cast("list[str]", one["paths"]))
        for one in read_jsonl(log_path)
    }


def _load(root_path: Path, task_ids: Collection[str]) -> ProblemSet:
    whole = load_problem_set(root_path)
    wanted = frozenset(task_ids)
    chosen = tuple(problem for problem in whole.problems if problem.task_id in wanted)
    return replace(whole, problems=chosen)


def _wall(execution: Execution, hidden_paths: Sequence[Path]) -> Execution:
    sandbox = choose_sandbox(
        execution.sandbox.name, execution.interpreter, hidden_paths=hidden_paths
    )
    return replace(execution, sandbox=sandbox)


def filter_of(finding: Validation) -> str:
    """Return the name of the filter that a finding fails; "" if it fails none."""
    if finding.usable == "yes":
        return ""
    if finding.usable == "no":
        return "executes"
    return "stable" if finding.usable == "unstable" else "tests"
