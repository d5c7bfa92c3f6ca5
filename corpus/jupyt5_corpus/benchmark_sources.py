"""Reads the problems of DSP, HumanEval, MBPP and BioCoder, as parts of text to be indexed.

Only what makes a problem is read: its question, its solution, its tests. The context cells of a
DSP problem (imports, data, earlier exercises) are not, nor the programs around BioCoder's.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson

from jupyt5.errors import CorpusError
from jupyt5.notebook import read_notebook
from jupyt5_corpus.row import CellText

__all__ = ["BENCHMARKS", "BenchmarkNotebook", "Part", "read_dsp_notebooks", "read_parts"]

_Entry = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A text of a problem.

    Attributes:
        problem: The problem's name; what precedes the first slash is the benchmark.
        origin: What copies of one another have in common: n-grams that stand in several origins
            are idioms. For DSP a family of repositories, elsewhere the problem.
        text: The part.
    """

    problem: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkNotebook:
    """A whole notebook of a benchmark and its name, such as ``DSP: owner/repo/path.ipynb``."""

    name: str
    cells: tuple[CellText, ...]


def read_parts(benchmark: str, folder: Path) -> Iterator[Part]:
    """Read a benchmark's problems from its folder; names as in ``BENCHMARKS``.

    Raises:
        CorpusError: If a file is missing or is not what it should be.
    """
    try:
        yield from BENCHMARKS[benchmark](folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        message = (
            f"{benchmark} cannot be read from {folder}: {type(exc).__name__}: {exc}. Give the "
            "folder of the benchmark's files, as its README describes them."
        )
        raise CorpusError(message) from exc


def read_dsp_notebooks(folder: Path) -> Iterator[BenchmarkNotebook]:
    """Read the notebooks of a DSP problem set, each once.

    Raises:
        OSError: If one is missing.
        NotebookError: If one is damaged.
    """
    manifest = _read_manifest(folder)
    places = {
        _text(entry, "notebook_path"): manifest[_text(entry, "task_id")]
        for entry in _read_lines(folder / "problems.jsonl")
    }
    for notebook_path in sorted(places):
        notebook = read_notebook((folder / notebook_path).read_bytes(), name=notebook_path)
        place = places[notebook_path]
        yield BenchmarkNotebook(
            name=f"DSP: {_text(place, 'repo')}/{_text(place, 'path')}",
            cells=tuple(CellText(kind=cell.kind, source=cell.source) for cell in notebook.cells),
        )


def _read_dsp(folder: Path) -> Iterator[Part]:
    manifest = _read_manifest(folder)
    entries = list(_read_lines(folder / "problems.jsonl"))
    families = _dsp_families(entries, manifest)
    for entry in entries:
        name = _text(entry, "task_id")
        cells = cast("list[dict[str, str]]", entry["prompt_cells"])
        question = cells[-1]["source"] if cells and cells[-1]["cell_type"] == "markdown" else ""
        solution = f"{_text(entry, 'initial_comments')}\n{_text(entry, 'solution')}"
        for text in (question, solution, _text(entry, "test")):
            yield Part(problem=name, origin=families[_text(manifest[name], "repo")], text=text)


def _dsp_families(entries: list[_Entry], manifest: Mapping[str, _Entry]) -> Mapping[str, str]:
    """Return repository → family; repositories with an equal grading cell are one family."""
    families: dict[str, str] = {}
    first_with: dict[str, str] = {}
    for entry in entries:
        repo = _text(manifest[_text(entry, "task_id")], "repo")
        family = families.setdefault(repo, repo)
        test = "".join(_text(entry, "test").split())
        other = families[first_with.setdefault(test, repo)] if len(test) >= 40 else family
        for each, name in families.items():
            if name == family:
                families[each] = other
    return families


def _read_humaneval(folder: Path) -> Iterator[Part]:
    for entry in _read_lines(folder / "HumanEval.jsonl.gz"):
        name = _text(entry, "task_id")
        prompt = _text(entry, "prompt")
        mark = '"""' if '"""' in prompt else "'''"
        docstring = prompt.rsplit(mark, 2)[1]
        # Tutorials quote the prompt, the docstring alone, or that without its examples.
        description = docstring.partition(">>>")[0]
        others = (_text(entry, "canonical_solution"), _text(entry, "test"))
        for text in (prompt, docstring, description, *others):
            yield Part(problem=name, origin=name, text=text)


def _read_mbpp(folder: Path) -> Iterator[Part]:
    for entry in _read_lines(folder / "mbpp.jsonl.gz"):
        name = f"MBPP/{entry['task_id']}"
        tests = [
            _text(entry, "test_setup_code"),
            *cast("list[str]", entry["test_list"]),
            *cast("list[str]", entry["challenge_test_list"]),
        ]
        for text in (_text(entry, "text"), _text(entry, "code"), "\n".join(tests)):
            yield Part(problem=name, origin=name, text=text)


def _read_biocoder(folder: Path) -> Iterator[Part]:
    for entry in _read_lines(folder / "python_public.jsonl"):
        name = f"BioCoder/python/{_text(entry, 'id')[:12]}"
        for field in ("prompt", "golden"):
            yield Part(problem=name, origin=name, text=_text(entry, field))
    for stem, field in (
        ("python_similar_v1", "golden"),
        ("java_public", "content"),
        ("java_similar", "content"),
    ):
        table = cast("_Entry", json.loads((folder / f"{stem}.json").read_bytes()))
        for key, text in cast("dict[str, str]", table[field]).items():
            name = f"BioCoder/{stem}/{key}"
            yield Part(problem=name, origin=name, text=text)
    for entry in _read_lines(folder / "rosalind.jsonl"):
        name = f"BioCoder/rosalind/{_text(entry, 'id')}"
        yield Part(problem=name, origin=name, text=_text(entry, "golden"))


BENCHMARKS: Mapping[str, Callable[[Path], Iterator[Part]]] = {
    "DSP": _read_dsp,
    "HumanEval": _read_humaneval,
    "MBPP": _read_mbpp,
    "BioCoder": _read_biocoder,
}
"""Readers by name; each takes the folder of the benchmark's files."""


def _read_manifest(folder: Path) -> Mapping[str, _Entry]:
    entries = _read_lines(folder / "manifest.jsonl")
    return {_text(entry, "task_id"): entry for entry in entries}


def _read_lines(path: Path) -> Iterator[_Entry]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for line in stream:
            yield cast("_Entry", orjson.loads(line))


def _text(entry: _Entry, field: str) -> str:
    value = entry[field]
    if not isinstance(value, str):
        raise TypeError(f"{field} is {value!r}, not text")
    return value
