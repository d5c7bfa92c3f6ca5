"""The paper's dataset table for a corpus of ours, as text, Markdown or JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from jupyt5_corpus.paper import PAPER_FIGURES
from jupyt5_corpus.stats import CorpusStats

__all__ = ["as_json", "as_markdown", "as_text"]

_HEAD = ("", "this corpus", "JuPyT5 paper")
_NOTES = (
    "Tokens: here UTF-8 bytes of cell sources / 3.5, in the paper PyMT5's tokenizer. Cells and "
    "tokens are those of the notebooks in the corpus. n/a: the recipe has no step for it.",
    "The paper's shares are computed from its rounded numbers; it prints 69.5 % code cells, 38 % "
    "Markdown tokens and 3/5 Markdown-focused notebooks. It does not say whether its cells are "
    "those of all notebooks or of the unique ones, nor how many holdouts it removed.",
)
_MOST_SHOWN = 8
_NOTHING = "-"
_NOT_KNOWN = "n/a"
"""Where the recipe has no step for it."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the table: a figure and what its share is taken of."""

    label: str
    figure: str
    share_of: str | None = None


_LINES = (
    _Line("repositories", "num_repositories_in"),
    _Line("notebooks read", "num_notebooks"),
    _Line("unique notebooks", "num_unique_notebooks", "num_compared_notebooks"),
    _Line("notebooks in the corpus", "num_kept_notebooks", "num_notebooks"),
    _Line("cells", "num_cells"),
    _Line("code cells", "num_code_cells", "num_cells"),
    _Line("Markdown cells", "num_markdown_cells", "num_cells"),
    _Line("tokens", "num_tokens"),
    _Line("code tokens", "num_code_tokens", "num_tokens"),
    _Line("Markdown tokens", "num_markdown_tokens", "num_tokens"),
    _Line("Markdown-focused notebooks", "num_focused_notebooks", "num_kept_notebooks"),
    _Line("Markdown-focused tokens", "num_focused_tokens", "num_tokens"),
)


def as_text(stats: CorpusStats) -> str:
    """Return the table and what else is worth knowing, for a terminal."""
    rows = [_HEAD, *_iter_rows(stats)]
    widths = [max(len(row[idx]) for row in rows) for idx in range(3)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip()
        for row in rows
    ]
    lines += ["", *_NOTES, ""]
    lines += [f"{label}: {values}" for label, values in _iter_details(stats)]
    return "\n".join(lines)


def as_markdown(stats: CorpusStats) -> str:
    """Return the same as Markdown."""
    lines = [_markdown_row(_HEAD), "|---|---:|---:|"]
    lines += [_markdown_row(row) for row in _iter_rows(stats)]
    lines += ["", *_NOTES, ""]
    lines += [f"- {_escape(label)}: {_escape(values)}" for label, values in _iter_details(stats)]
    return "\n".join(lines)


def as_json(stats: CorpusStats) -> Mapping[str, object]:
    """Return ``corpus`` (all counts) and ``paper`` (its figures by the same names)."""
    return {"corpus": asdict(stats), "paper": dict(PAPER_FIGURES)}


def _iter_rows(stats: CorpusStats) -> Iterator[tuple[str, str, str]]:
    names = {name for line in _LINES for name in (line.figure, line.share_of) if name}
    here: dict[str, int | None] = {name: getattr(stats, name) for name in names}
    # It compared all that it read, and its training set is its unique notebooks, less holdouts
    # that it does not count.
    paper = {
        **PAPER_FIGURES,
        "num_compared_notebooks": PAPER_FIGURES["num_notebooks"],
        "num_kept_notebooks": PAPER_FIGURES["num_unique_notebooks"],
    }
    for line in _LINES:
        in_paper = _cell(paper, line, _rounded) if line.figure in PAPER_FIGURES else _NOTHING
        yield line.label, _cell(here, line, _grouped), in_paper
        if line.figure == "num_cells":
            yield "cells a notebook", _rate(here, "num_kept_notebooks"), _paper_cells(paper)


def _cell(figures: Mapping[str, int | None], line: _Line, show: Callable[[int], str]) -> str:
    count = figures[line.figure]
    if count is None:
        return _NOT_KNOWN
    whole = figures[line.share_of] if line.share_of else 0
    share = f" ({100 * count / whole:.1f} %)" if whole else ""
    return show(count) + share


def _rate(figures: Mapping[str, int | None], notebooks: str) -> str:
    num_cells, num_notebooks = figures["num_cells"], figures[notebooks]
    return (
        f"{num_cells / num_notebooks:.1f}" if num_notebooks and num_cells is not None else _NOTHING
    )


def _paper_cells(paper: Mapping[str, int | None]) -> str:
    return f"{_rate(paper, 'num_notebooks')} or {_rate(paper, 'num_unique_notebooks')}"


def _iter_details(stats: CorpusStats) -> Iterator[tuple[str, str]]:
    yield "Notebooks that came in", _grouped(stats.num_notebooks_in)
    yield "Repositories in the corpus", _grouped(stats.num_repositories)
    for step, reasons in stats.removed.items():
        if reasons:
            counts = ", ".join(f"{name} {_grouped(count)}" for name, count in reasons.items())
            yield f"Removed by {step}", counts
    num_redactions = stats.num_redactions
    yield "Redactions", _NOT_KNOWN if num_redactions is None else _grouped(num_redactions)
    for label, counts in stats.groups.items():
        yield label.capitalize(), _most_frequent(list(counts.items()))


def _most_frequent(counts: Sequence[tuple[str, int]]) -> str:
    shown = [f"{value} {_grouped(count)}" for value, count in counts[:_MOST_SHOWN]]
    rest = counts[_MOST_SHOWN:]
    if rest:
        shown.append(f"{len(rest)} others {_grouped(sum(count for _, count in rest))}")
    return ", ".join(shown)


def _grouped(count: int) -> str:
    return f"{count:,}"


def _rounded(count: int) -> str:
    """Write a figure as the paper does: 7.24 M, 221 M, 27.2 B."""
    for size, unit in ((1_000_000_000, "B"), (1_000_000, "M")):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return _grouped(count)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Keep a value from the notebooks from being read as markup."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in text)
