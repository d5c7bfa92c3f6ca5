"""What is counted at the filters, and what a set is about."""

from pathlib import Path, PurePosixPath

from jupyt5.notebook import Cell, Notebook
from jupyt5_dsp.curation.candidates import Candidate, SourceNotebook
from jupyt5_dsp.curation.filters import Rejection, count_at_filters, render_counts
from jupyt5_dsp.curation.sources import Repository
from jupyt5_dsp.curation.survey import Subject, make_survey, render_survey


def make_candidates(name: str, *sources: tuple[str, str]) -> list[Candidate]:
    """Make a notebook of (solution, test) pairs, one candidate each."""
    cells = tuple(Cell(None, "code", source) for pair in sources for source in pair)
    repository = Repository(path=Path("/nowhere"), name="r")
    notebook = SourceNotebook(repository, PurePosixPath(name), Notebook(cells, 4, 2), cells)
    return [Candidate(notebook, 2 * idx, (2 * idx + 1,)) for idx in range(len(sources))]


def test_survey_counts_topics_modules_data_and_sizes() -> None:
    learning = (
        "from sklearn import svm\nimport os.path\nsoftmax = 1",
        "assert softmax # regression",
    )
    frames = ("import pandas as pd\nframe = pd.read_csv('x')", "assert frame.groupby('a')")
    plain = ("def reverse(words):\n    return words[::-1]", "assert reverse('ab') == 'ba'")
    nothing = ("x = 1", "assert x")
    candidates = make_candidates("a.ipynb", learning, frames) + make_candidates("b.ipynb", plain)
    candidates += make_candidates("c.ipynb", nothing) + make_candidates("d.ipynb", nothing)
    survey = make_survey([Subject(one, str(one.notebook.path) == "a.ipynb") for one in candidates])
    assert (survey.problems, survey.notebooks, survey.repositories) == (5, 4, 1)
    assert survey.distinct_tests == 4
    assert (survey.data_dependent.count, survey.data_dependent.percent) == (2, 40.0)
    assert survey.notebooks_by_problems == {1: 3, 2: 1}
    assert survey.mean_problems_per_notebook == 1.25
    assert survey.median_solution_lines == 2
    topics = {topic: share.count for topic, share in survey.topics.items() if share.count}
    assert topics == {"machine learning": 1, "data science": 1, "programming": 1, "other": 2}
    assert list(survey.top_modules) == ["os", "pandas", "sklearn"]
    assert survey.top_modules["sklearn"].percent == 25.0
    table = render_survey(survey)
    assert "| data dependent | 2 (40.0 %) |" in table
    assert "| os (standard library) | 1 (25.0 %) |" in table


def test_counts_add_up() -> None:
    found = [("r", f"{name}.ipynb") for name in "abc"]
    solutions = [("r", "a.ipynb", 1), ("r", "a.ipynb", 4), ("r", "b.ipynb", 1)]

    def lose(name: str, path: str, idx: int | None = None) -> Rejection:
        return Rejection(filter=name, reason="", repository="r", path=path, cell_index=idx)

    rejections = [
        lose("readable", "c.ipynb"),
        lose("assert", "b.ipynb", 1),
        lose("duplicate", "a.ipynb", 4),
    ]
    rows = {str(row["filter"]): row for row in count_at_filters(found, solutions, rejections)}
    assert [rows[name]["notebooks"] for name in ("found", "location", "readable")] == [3, 3, 2]
    assert [rows[name]["problems"] for name in ("cells", "assert", "duplicate")] == [3, 2, 1]
    assert rows["assert"]["notebooks"] == 1
    assert "limit" not in rows
    table = render_counts(list(rows.values())).splitlines()
    assert len(table) == len(rows) + 1
    assert table[-1].split()[:4] == ["data", "0", "1", "1"]
