"""What a work folder may hold of a problem set: data files, and notebooks without answers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["Copies", "plan_copies"]

_CHECKPOINTS = ".ipynb_checkpoints"
_BLANKED_NBFORMAT = 4


@dataclass(frozen=True, slots=True)
class Copies:
    """How files of the set are copied; those that are not named are copied as they are.

    Attributes:
        left_out: Files that are not copied, because answers may stand in them.
        blanked: Notebooks without their reference solutions, by path.
    """

    left_out: frozenset[Path]
    blanked: Mapping[Path, bytes]


def plan_copies(problem_set: ProblemSet) -> Copies:
    """Say what is copied of the set.

    Only notebooks that have problems are copied, and only where they can be blanked: other ones,
    their backups and Jupyter's checkpoints may well be the same notebooks with the answers.
    """
    root_path = problem_set.root_path
    if root_path is None:
        return Copies(frozenset(), {})
    blanked = dict(_blank_notebooks(problem_set, root_path))
    # The answers of the set are no data file of its notebooks.
    left_out = {*root_path.glob("*.jsonl*"), *_iter_notebook_files(root_path)}
    return Copies(frozenset(left_out - blanked.keys()), blanked)


def _iter_notebook_files(root_path: Path) -> Iterator[Path]:
    for path in root_path.rglob("*"):
        parts = path.relative_to(root_path).parts
        is_notebook = ".ipynb" in path.name.lower() or _CHECKPOINTS in parts
        if is_notebook and path.is_file():
            yield path


def _blank_notebooks(problem_set: ProblemSet, root_path: Path) -> Iterator[tuple[Path, bytes]]:
    problems_by_path: dict[str, list[Problem]] = {}
    for problem in problem_set.problems:
        problems_by_path.setdefault(problem.notebook_path, []).append(problem)
    for path, problems in problems_by_path.items():
        if _CHECKPOINTS in PurePosixPath(path).parts:
            continue
        content = _blank(problem_set, root_path / path, problems)
        if content is not None:
            yield root_path / path, content


def _blank(problem_set: ProblemSet, path: Path, problems: Sequence[Problem]) -> bytes | None:
    """Return the notebook without its reference solutions; None if that is not sure to work."""
    notebook = problem_set.notebooks[problems[0].notebook_path]
    if notebook.nbformat != _BLANKED_NBFORMAT:
        return None
    try:
        raw = path.read_bytes()
        document: Any = json.loads(raw.decode("utf-8-sig"))
        cells = document["cells"]
        # The indices of the problems are those of the notebook reader; it may skip oddities.
        same = [_source_of(cell) for cell in cells] == [cell.source for cell in notebook.cells]
        if not same or "worksheets" in document:
            return None
        for problem in problems:
            if problem.cell_idx < len(cells):
                cells[problem.cell_idx]["source"] = problem_set.prefix_of(problem)
        return json.dumps(document).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _source_of(cell: Mapping[str, str | list[str]]) -> str:
    source = cell.get("source") or ""
    return source if isinstance(source, str) else "".join(source)
