"""The filters of a build, in their order, and the record of what each of them took away."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = [
    "NOTEBOOK_FILTERS",
    "PROBLEM_FILTERS",
    "TEXT_FILTERS",
    "Filter",
    "Rejection",
    "count_at_filters",
    "render_counts",
]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter's name in files, and what is left after it, in words."""

    name: str
    keeps: str


NOTEBOOK_FILTERS = (
    Filter("location", "notebooks that are no checkpoints and no other step of a course"),
    Filter("readable", "readable notebooks"),
    Filter("language", "Python notebooks"),
    Filter("nbgrader", "notebooks with nbgrader's marks"),
    Filter("identical", "notebooks unlike any before"),
    Filter("solution", "notebooks with a code cell to fill"),
)
# On solution cells, by their text and that of the cells after them.
TEXT_FILTERS = (
    Filter("filled", "solution cells with an answer"),
    Filter("python3", "answers and tests that are Python 3"),
    Filter("grading", "solution cells with a grading cell after them"),
    Filter("assert", "grading cells that assert something"),
    Filter("refers", "assertions that refer to a name of the solution"),
    Filter("limit", "problems within --limit"),
    Filter("duplicate", "problems unlike any other that is good"),
)
# On solution cells that passed the former, by running them.
PROBLEM_FILTERS = (
    *TEXT_FILTERS,
    Filter("executes", "references that pass here"),
    Filter("tests", "tests that refuse wrong answers"),
    Filter("stable", "references that pass every time"),
    Filter("data", "references that pass with the kept data files alone"),
)

# Filters that are there only when asked for.
_OPTIONAL = frozenset({"limit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """What was left out, and why.

    Attributes:
        filter: Name of the filter.
        reason: Why, in words.
        repository: Name of the repository.
        path: The notebook, relative to the repository.
        cell_index: The solution cell; None where the whole notebook was left out.
        duplicate_of: The problem or notebook that was kept in its place.
    """

    filter: str
    reason: str
    repository: str
    path: str
    cell_index: int | None = None
    duplicate_of: str | None = None

    def as_record(self) -> dict[str, object]:
        """Return the line of ``rejected.jsonl``."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def count_at_filters(
    found: Sequence[tuple[str, str]],
    solutions: Sequence[tuple[str, str, int]],
    rejections: Sequence[Rejection],
    *,
    problem_filters: Sequence[Filter] = PROBLEM_FILTERS,
) -> list[dict[str, object]]:
    """Count what is left after every filter.

    Args:
        found: Repository and path of every notebook file.
        solutions: Repository, path and cell of every solution cell in notebooks that passed the
            filters on notebooks.
        rejections: All of them.
        problem_filters: Those that were applied to solution cells.

    Returns:
        For each filter: ``filter``, ``keeps``, ``removed``, and what is left: ``repositories``,
        ``notebooks`` and, once cells are looked at, ``problems``.
    """
    notebooks = set(found)
    rows = [_row(Filter("found", "notebook files"), 0, notebooks)]
    for one in NOTEBOOK_FILTERS:
        gone = {(r.repository, r.path) for r in rejections if r.filter == one.name}
        notebooks -= gone
        rows.append(_row(one, len(gone), notebooks))
    left = set(solutions)
    rows.append(_row(Filter("cells", "code cells to fill"), 0, {s[:2] for s in left}, len(left)))
    for one in problem_filters:
        lost = {
            (r.repository, r.path, r.cell_index)
            for r in rejections
            if r.filter == one.name and r.cell_index is not None
        }
        if one.name in _OPTIONAL and not lost:
            continue
        left -= lost
        rows.append(_row(one, len(lost), {s[:2] for s in left}, len(left)))
    return rows


def render_counts(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the counts as a table for people."""
    header = f"{'filter':<10} {'removed':>8} {'notebooks':>10} {'problems':>9}  left are"
    lines = [header]
    for row in rows:
        problems = row.get("problems", "")
        lines.append(
            f"{row['filter']:<10} {row['removed']:>8} {row['notebooks']:>10} {problems:>9}  "
            f"{row['keeps']}"
        )
    return "\n".join(lines)


def _row(
    one: Filter, removed: int, notebooks: set[tuple[str, str]], num_problems: int | None = None
) -> dict[str, object]:
    row: dict[str, object] = {
        "filter": one.name,
        "keeps": one.keeps,
        "removed": removed,
        "repositories": len({repository for repository, _ in notebooks}),
        "notebooks": len(notebooks),
    }
    if num_problems is not None:
        row["problems"] = num_problems
    return row
