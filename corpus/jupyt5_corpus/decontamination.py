"""The decontamination report: every notebook that a holdout step removed, and why.

Two files with the same entries, sorted: JSON lines for programs and an HTML page for readers. An
entry names the benchmark, the problem where it is known, and the matched text, quoted from the
notebook.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from jupyt5_corpus.removals import LIKENESSES, NOT_QUOTED
from jupyt5_corpus.row import Removal

__all__ = ["HTML_NAME", "JSONL_NAME", "Entry", "make_entries", "render_html", "render_jsonl"]

JSONL_NAME = "decontamination.jsonl"
HTML_NAME = "decontamination.html"

_OVERLAP = re.compile(
    r"[^:]+: (?P<num_ngrams>\d+) n-grams of \d+ words of (?P<problem>\S+); "
    r"cell (?P<cell>\d+): (?P<text>.*)",
    re.DOTALL,
)
_CELL = re.compile(r"[^:]+: cell (?P<cell>\d+) is [0-9a-f]{64}: (?P<text>.*)", re.DOTALL)
_ORIGIN = re.compile(r" \((?P<benchmark>[^():]+): .*\)$", re.DOTALL)
_SENTENCES: Mapping[str, str] = {
    "holdout_cell": "one of its cells is held out, to the letter",
    "holdout_content": "its whole content is held out",
    "holdout_copy": "equal to a notebook that is held out",
    "holdout_fork": "its repository consists mostly of held-out notebooks and copies of them",
    "holdout_near_copy": "nearly equal to a notebook that is held out",
    "holdout_overlap": "holds text of a problem",
    "holdout_repo": "its repository, or the one it was forked from, is held out",
}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{border-bottom:1px solid #ccc;padding:.35rem .6rem;text-align:left;vertical-align:top}

td{overflow-wrap:anywhere}
q,code{background:#f3f3f3}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One removed notebook.

    Attributes:
        repo: ``owner/name``.
        path: Path inside the repository.
        commit: See ``Row``.
        reason: The removal's reason, ``holdout_…``.
        benchmark: Whose problem it is, of a copy that of the held-out notebook; None if not known.
        problem: The problem's name, None if it is not known.
        num_ngrams: Distinct n-grams that it shares with the problem, None where none were counted.
        cell_idx: The cell that the text stands in, None if the whole notebook matched.
        matched_text: Quoted from the notebook, None if the whole notebook or its place matched, or
            if its owners have opted out.
        detail: The removal's detail as it stands in ``removed/``.
    """

    repo: str
    path: str
    commit: str | None
    reason: str
    benchmark: str | None
    problem: str | None
    num_ngrams: int | None
    cell_idx: int | None
    matched_text: str | None
    detail: str


def make_entries(removals: Iterable[Removal]) -> Sequence[Entry]:
    """Make the report's entries, sorted by benchmark, problem and place."""
    entries = [_make_entry(removal) for removal in removals]
    return sorted(entries, key=_order)


def render_jsonl(removals: Iterable[Removal]) -> bytes:
    """Render the report as JSON lines.

    Args:
        removals: What the holdout steps removed, in any order.
    """
    return b"".join(orjson.dumps(asdict(each)) + b"\n" for each in make_entries(removals))


def render_html(removals: Iterable[Removal]) -> bytes:
    """Render the report as a page that needs nothing from elsewhere."""
    entries = make_entries(removals)
    counts = Counter((each.benchmark or "another notebook", each.reason) for each in entries)
    summary = _table(
        ("benchmark", "why", "notebooks"),
        [
            (html.escape(benchmark), html.escape(_SENTENCES.get(reason, reason)), f"{count:,}")
            for (benchmark, reason), count in sorted(counts.items())
        ],
    )
    listing = _table(
        ("notebook", "why", "problem", "matched text"),
        [
            (_place(each), html.escape(each.reason), _problem(each), _evidence(each))
            for each in entries
        ],
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>Decontamination report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Decontamination report</h1>\n<p>{len(entries):,} notebooks were removed because they "
        "are, or hold, what models are evaluated on. Quotations are from the notebooks.</p>\n"
        f"{summary}{listing if entries else ''}</body>\n</html>\n"
    )
    # Sources may hold anything but lone surrogates; still, a report must not fail.
    return page.encode("utf-8", "replace")


def _make_entry(removal: Removal) -> Entry:
    overlap = _OVERLAP.fullmatch(removal.detail) if removal.reason == "holdout_overlap" else None
    match = overlap or _CELL.fullmatch(removal.detail)
    text = match["text"] if match else None
    return Entry(
        repo=removal.repo,
        path=removal.path,
        commit=removal.commit,
        reason=removal.reason,
        benchmark=_find_benchmark(removal.detail),
        problem=overlap["problem"] if overlap else None,
        num_ngrams=int(overlap["num_ngrams"]) if overlap else None,
        cell_idx=int(match["cell"]) if match else None,
        matched_text=None if text == NOT_QUOTED else text,
        detail=removal.detail,
    )


def _find_benchmark(detail: str) -> str | None:
    if detail.startswith(LIKENESSES):
        match = _ORIGIN.search(detail)
        return match["benchmark"] if match else None
    benchmark, colon, _ = detail.partition(": ")
    return benchmark if colon else None


def _order(entry: Entry) -> tuple[str, ...]:
    place = (entry.repo, entry.path, entry.commit or "")
    return (entry.benchmark or "~", entry.reason, entry.problem or "", *place, entry.detail)


def _place(entry: Entry) -> str:
    commit = f" at {entry.commit}" if entry.commit else ""
    return html.escape(f"{entry.repo}/{entry.path}{commit}")


def _problem(entry: Entry) -> str:
    if entry.problem is None:
        return html.escape(entry.benchmark or "")
    return f"{html.escape(entry.problem)}, {entry.num_ngrams} n-grams"


def _evidence(entry: Entry) -> str:
    if entry.matched_text is None:
        return html.escape(entry.detail)
    return f"cell {entry.cell_idx}: <q>{html.escape(entry.matched_text)}</q>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the cells are HTML already."""
    lines = ["<tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"
