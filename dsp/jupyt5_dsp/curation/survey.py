"""What a problem set is about: the tables of the paper's survey, by keyword instead of by hand.

The paper classified 50 notebooks by hand: mathematics 39.5 %, programming 26 %, data science 20 %,
machine learning 12.5 %; 35 % of the problems depended on a data file; 3.6 problems a notebook.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median_low

from jupyt5.notebook import Cell
from jupyt5_dsp.curation.candidates import Candidate
from jupyt5_dsp.curation.names import parse_cell

__all__ = ["Share", "Subject", "Survey", "make_survey", "render_survey"]

# A topic's words count once each; on equal counts the first topic in this order wins.
_TOPICS = {
    "machine learning": (
        r"sklearn|scikit|tensorflow|keras|torch|classif\w*|regressi\w*|cross[- ]?validat\w*|"
        r"neural|gradient descent|overfit\w*|train(?:ing)? (?:set|data)|x_train|y_train|"
        r"k[- ]?means|cluster\w*|logistic|perceptron|random forest|decision tree|accuracy|"
        r"backprop\w*|softmax|likelihood"
    ),
    "data science": (
        r"pandas|pd|dataframe\w*|data ?set|csv|groupby|merge|column\w*|rows?|missing values?|"
        r"read_\w+|json|sql|histogram|plot\w*|tidy|series|tweets?|html|xml"
    ),
    "mathematics": (
        r"derivativ\w*|integra\w*|matri\w*|vectors?|probabilit\w*|equation\w*|sympy|linalg|"
        r"eigen\w*|polynom\w*|primes?|sum of|norm|distribution|theorem|random walk|"
        r"differential|sin|cos|sqrt|mean|variance|logarithm\w*|fibonacci|factorial|euler|"
        r"\\frac|\\sum|\\int"
    ),
    "programming": (
        r"strings?|lists?|dict\w*|sort\w*|class(?:es)?|recursi\w*|loops?|files?|words?|letters?|"
        r"characters?|algorithm\w*|tuple|regex|parse|print|iterat\w*|counts?|encrypt\w*"
    ),
}
_WORDS = {
    topic: re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)
    for topic, words in _TOPICS.items()
}
_NUM_TOP_MODULES = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """A problem under survey, and whether its notebook reads data files."""

    candidate: Candidate
    has_data: bool


@dataclass(frozen=True, slots=True)
class Share:
    """So many of a whole."""

    count: int
    percent: float

    def __str__(self) -> str:
        return f"{self.count} ({self.percent:.1f} %)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What ``survey.json`` holds.

    Attributes:
        problems: How many there are.
        notebooks: In how many notebooks.
        repositories: In how many repositories.
        distinct_tests: How many of the problems have a test of their own.
        data_dependent: Problems whose notebook reads a data file.
        median_solution_lines: Lines of the median reference.
        mean_problems_per_notebook: Over the notebooks that have any.
        notebooks_by_problems: Number of problems → number of notebooks that have so many.
        topics: Topic → share of the problems.
        top_modules: Most imported modules → share of the notebooks.
    """

    problems: int
    notebooks: int
    repositories: int
    distinct_tests: int
    data_dependent: Share
    median_solution_lines: int
    mean_problems_per_notebook: float
    notebooks_by_problems: Mapping[int, int]
    topics: Mapping[str, Share]
    top_modules: Mapping[str, Share]


def make_survey(subjects: Sequence[Subject]) -> Survey:
    """Count topics, modules, data dependency and problems a notebook."""
    candidates = [subject.candidate for subject in subjects]
    notebooks = {one.notebook.set_path: one.notebook for one in candidates}
    sizes = Counter(one.notebook.set_path for one in candidates)
    topics = Counter(_find_topic(one) for one in candidates)
    modules = Counter(
        name for notebook in notebooks.values() for name in set(_iter_modules(notebook.cells))
    )
    top = sorted(modules.items(), key=lambda item: (-item[1], item[0]))[:_NUM_TOP_MODULES]
    tests = {tuple(one.notebook.cells[i].source for i in one.grading_idxs) for one in candidates}
    lines = [len(_solution_of(one).strip().splitlines()) for one in candidates]
    return Survey(
        problems=len(candidates),
        notebooks=len(notebooks),
        repositories=len({one.notebook.repository.name for one in candidates}),
        distinct_tests=len(tests),
        data_dependent=_share(sum(subject.has_data for subject in subjects), len(candidates)),
        median_solution_lines=median_low(lines) if lines else 0,
        mean_problems_per_notebook=round(fmean(sizes.values()), 2) if sizes else 0.0,
        notebooks_by_problems=dict(sorted(Counter(sizes.values()).items())),
        topics={topic: _share(topics[topic], len(candidates)) for topic in (*_TOPICS, "other")},
        top_modules={name: _share(count, len(notebooks)) for name, count in top},
    )


def render_survey(survey: Survey) -> str:
    """Return the survey as Markdown tables."""
    lines = ["| statistic | value |", "|---|---:|"]
    for name, value in asdict(survey).items():
        if isinstance(value, int | float):
            lines.append(f"| {name.replace('_', ' ')} | {value} |")
    lines.append(f"| data dependent | {survey.data_dependent} |")
    lines += ["", "| topic (by keyword) | problems |", "|---|---:|"]
    lines += [f"| {topic} | {share} |" for topic, share in survey.topics.items()]
    lines += ["", "| module | notebooks that import it |", "|---|---:|"]
    for name, share in survey.top_modules.items():
        note = " (standard library)" if name in sys.stdlib_module_names else ""
        lines.append(f"| {name}{note} | {share} |")
    lines += ["", "| problems in a notebook | notebooks |", "|---:|---:|"]
    lines += [f"| {size} | {count} |" for size, count in survey.notebooks_by_problems.items()]
    return "\n".join(lines) + "\n"


def _find_topic(candidate: Candidate) -> str:
    cells = candidate.notebook.cells
    own = (candidate.cell_idx, *candidate.grading_idxs)
    near = [*range(max(candidate.cell_idx - 3, 0), candidate.cell_idx), *own]
    text = "\n".join(cells[idx].source for idx in near)
    scores = {
        topic: len({word.lower() for word in pattern.findall(text)})
        for topic, pattern in _WORDS.items()
    }
    best = max(scores, key=lambda topic: scores[topic])
    return best if scores[best] else "other"


def _iter_modules(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        tree = parse_cell(cell.source) if cell.kind == "code" else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


def _solution_of(candidate: Candidate) -> str:
    return candidate.notebook.cells[candidate.cell_idx].source


def _share(count: int, total: int) -> Share:
    return Share(count, round(100 * count / total, 1) if total else 0.0)
