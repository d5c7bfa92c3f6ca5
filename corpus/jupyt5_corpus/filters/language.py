"""Step ``language``: say in which language a notebook's code cells are written.

The metadata are believed first, then the kernel's name; where neither tells, the code cells do:
each language has marks that others hardly share, and the language with marks in most of the
notebook's code cells wins if it leads clearly. What stays open stays None. Names are those that
GitHub's linguist uses, in lower case (``python``, ``c++``, ``c#``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from jupyt5_corpus.row import Row

__all__ = ["STEP", "fill_language", "guess_language"]

STEP = "language"

_MAX_CELLS = 16
"""Code cells that are looked at to guess a language, and the characters of each."""
_MAX_CELL_CHARS = 2_000
_LEAD = 2
"""The winner needs marks in at least this many times as many cells as the runner-up."""
_SURE = 0.75
"""Python, looked for first, wins at once with marks in more than this fraction of the cells."""

_ALIASES = {
    "ansi-c": "c",
    "bash script": "bash",
    "csharp": "c#",
    "fsharp": "f#",
    "golang": "go",
    "ipython": "python",
    "ipython3": "python",
    "java11": "java",
    "node.js": "javascript",
    "pwsh": "powershell",
    "pyspark": "python",
    "python2": "python",
    "python3": "python",
    "python_glue_session": "python",
    "qsharp": "q#",
    "sagemath": "sage",
    "sh": "shell",
    "wolfram language": "mathematica",
}
_UNTOLD = frozenset({"", "plaintext", "polyglot-notebook", "text", "unknown"})
"""Names in the metadata that say nothing about the language."""

# Beginnings of kernel names, the longer before the shorter. The .NET kernels come first of all:
# their notebooks say C# whatever they are written in.
_DOTNET_KERNELS = {".net-csharp": "c#", ".net-fsharp": "f#", ".net-powershell": "powershell"}
_KERNELS: Mapping[str, str] = {
    "anaconda": "python",
    "bash": "bash",
    "clojupyter": "clojure",
    "clojure": "clojure",
    "conda": "python",
    "cpp": "c++",
    "deno": "typescript",
    "elixir": "elixir",
    "gophernotes": "go",
    "haskell": "haskell",
    "ihaskell": "haskell",
    "ijavascript": "javascript",
    "iqsharp": "q#",
    "ir": "r",
    "java": "java",
    "javascript": "javascript",
    "jslab": "javascript",
    "julia": "julia",
    "kotlin": "kotlin",
    "matlab": "matlab",
    "nodejs": "javascript",
    "ocaml": "ocaml",
    "octave": "octave",
    "perl": "perl",
    "ruby": "ruby",
    "rust": "rust",
    "sagemath": "sage",
    "scala": "scala",
    "spark-scala": "scala",
    "sparkkernel": "scala",
    "stata": "stata",
    "swift": "swift",
    "tslab": "typescript",
    "xcpp": "c++",
    "xeus-cling": "c++",
    "xeus-python": "python",
    "xpython": "python",
}
_WHOLE = frozenset({"ir"})
"""Of the beginnings above, those that are whole names."""
_PYTHON_KERNEL = re.compile(r"py(?:thon|spark|torch|[-_\d])")

# Cell magics that leave the rest of the cell in the notebook's own language.
_SAME_LANGUAGE_MAGIC = re.compile(r"%%(?:time|timeit|capture|prun|memit|mprun)\b[^\n]*\n")
_MARKS: Mapping[str, re.Pattern[str]] = {
    language: re.compile("|".join(patterns), re.MULTILINE)
    for language, patterns in {
        "python": (
            r"^[ \t]*(?:from [\w.]+ )?import (?![A-Z]\w*\.[A-Z]|qualified )[\w.]+"
            r"(?: as \w+)?(?:,| *$| *#| \w)(?![^\n]*;$)",
            r"^[ \t]*(?:async )?def \w+\([^\n]*\)[^\n{=]*:(?: *$| *#)",
            r"^[ \t]*(?:if|elif|for|while|with|try|except|else|class)\b[^\n{]*: *(?:#[^\n]*)?$",
            r"\bself\.\w+",
            r"\b(?:np|pd|plt|tf|torch|sns|os|sys)\.\w+",
            r"^[ \t]*print ?(?:\(|['\"]| \w)",
            r"^%(?:matplotlib|pylab|load_ext|autoreload)\b",
            r"^[%!]pip3? install\b",
        ),
        "r": (
            r"<- ?(?:function\b|c\(|data\.frame\(|read[._]|\w+\(|\d)",
            r"^[ \t]*library\([\w.]+\)",
            r"%>%|%in%",
            r"\b(?:ggplot|data\.frame|as\.factor|set\.seed)\(",
        ),
        "julia": (
            r"^[ \t]*using [A-Z][\w.]*(?:,| *$|: )(?![^\n]*;)",
            r"^[ \t]*function [\w.!]+\([^\n]*\)[^\n{]*$(?:\n[^\n{]*)*?\n[ \t]*end\b",
            r"\bprintln\([^\n;]*\)$(?![^{]*\})|^[ \t]*@(?:time|show|btime|benchmark|assert)\b",
            r"^[ \t]*(?:mutable )?struct \w+[^\n{]*$|\w\.\([^\n]|::(?:Int|Float)64\b",
        ),
        "scala": (
            r"^[ \t]*(?:val|lazy val|case class|object|implicit val) \w+[^\n]*[=({]",
            r"^[ \t]*def \w+[^\n]*\) *(?:: *[A-Z]\w*[^\n]*)?= *",
            r"^import \$ivy|^import (?:org|scala)\.[\w.]+[{._\w, }]*$",
        ),
        "kotlin": (r"^[ \t]*(?:fun \w+\(|val \w+ *(?:: *\w+)? *= *(?:listOf|mapOf)\b)", r"^@file:"),
        "groovy": (
            r"^[ \t]*def \w+ *= |\bnew \w+\(\w+ *: |<< new \w+",
            r"\b(?:SimpleTimePlot|TableDisplay|EasyForm|CategoryPlot|OutputCell)\b",
        ),
        "javascript": (
            r"^[ \t]*(?:const|let|var) \w+ *= *[^\n]*;? *$",
            r"\bconsole\.log\(|=> *\{|\brequire\(['\"]",
        ),
        "c++": (
            r"^[ \t]*#(?:include|pragma)\b",
            r"\bstd::\w+|\bcout *<<|^[ \t]*using namespace \w+;",
        ),
        "c#": (
            r"^[ \t]*using [A-Z][\w.]+;",
            r"^#r \"nuget|\bConsole\.Write|^[ \t]*public (?:static |class )[^\n]*$",
            r"\bnew [A-Z]\w*(?:<[^\n]*>)?\([^\n]*\);|^[ \t]*var \w+ *= *[^\n]*;$",
        ),
        "f#": (r"^[ \t]*open [A-Z][\w.]*$", r"^[ \t]*let (?:rec |mutable )?\w+[^\n]*=", r"\|> "),
        "java": (
            r"^[ \t]*import (?:static )?(?:java|javax|org|com|io)\.[\w.*]+;",
            r"\bSystem\.out\.print|^[ \t]*public (?:static|class|void)\b|^%maven\b|^%classpath\b",
        ),
        "haskell": (
            r"^[ \t]*\w+ :: [^\n]*(?:->|=>|[A-Z])",
            r"^import (?:qualified )?[A-Z]\w*(?:\.[A-Z]\w*)*(?: |$)|^:(?:ext|t|type|set)\b",
        ),
        "swift": (
            r"^import (?:Foundation|TensorFlow|Swift\w*|Path|Python)\b",
            r"^[ \t]*(?:let|var) \w+(?:: *[\w<>\[\]]+)? *= *[^\n;]*$"
            r"|\bfunc \w+(?:<[^\n]*>)?\([^\n]*: ",
        ),
        "go": (r"^[ \t]*func \w*\(?[^\n]*\{ *$", r":= ", r"\bfmt\.\w+\("),
        "rust": (r"\bfn \w+[(<]|\blet mut \w+|\bprintln!\(", r"^:dep \w+"),
        "clojure": (r"^\((?:defn?|ns|require|let|fn|use|import|println)\b",),
        "powershell": (r"^[ \t]*\$\w+ *= *|\b(?:Get|Set|New|Invoke|Write)-[A-Z]\w+",),
        "bash": (
            r"^[ \t]*(?:sudo|apt-get|cd|ls|echo|mkdir|curl|wget|git|export|grep|chmod) [^\n=(]*$",
            r"^#!/bin/(?:ba)?sh",
        ),
        "sql": (
            r"^[ \t]*(?:SELECT|select)\b[^\n]*(?:\bFROM\b|\bfrom\b|\*|,|$)",
            r"^[ \t]*(?:CREATE TABLE|INSERT INTO|DROP TABLE|create table|insert into)\b",
        ),
        "q#": (r"^[ \t]*(?:open Microsoft\.Quantum|operation \w+)",),
        "matlab": (r"^[ \t]*function (?:\[[^\n]*\]|\w+) *= *\w+\(|^[ \t]*(?:clc|close all)\b",),
    }.items()
}


def fill_language(row: Row) -> Row:
    """Set ``language`` from the metadata, the kernel's name or the code cells."""
    language = _told(row) or guess_language(
        cell.source for cell in row.cells if cell.kind == "code"
    )
    return row if language == row.language else replace(row, language=language)


def guess_language(sources: Iterable[str]) -> str | None:
    """Guess the language of code cells from their marks; None if no language leads clearly."""
    codes = list(islice(_own_code(sources), _MAX_CELLS))
    num_cells: dict[str, int] = {}
    for language, marks in _MARKS.items():
        num_cells[language] = sum(marks.search(code) is not None for code in codes)
        if language == "python" and num_cells[language] > _SURE * len(codes):
            return language
    # Sorted is stable: of equals the one listed first comes first, but equals do not lead.
    (language, most), (_, second) = sorted(num_cells.items(), key=lambda each: -each[1])[:2]
    return language if most and most >= _LEAD * second else None


def _told(row: Row) -> str | None:
    kernel = (row.kernel or "").lower()
    for beginning, language in _DOTNET_KERNELS.items():
        if kernel.startswith(beginning):
            return language
    name = (row.language or "").strip().lower()
    name = _ALIASES.get(name, name)
    return _of_kernel(kernel) if name in _UNTOLD else name


def _of_kernel(kernel: str) -> str | None:
    for beginning, language in _KERNELS.items():
        if kernel == beginning or (kernel.startswith(beginning) and beginning not in _WHOLE):
            return language
    return "python" if _PYTHON_KERNEL.match(kernel) else None


def _own_code(sources: Iterable[str]) -> Iterator[str]:
    """Yield the beginnings of the cells that are not in the language of a cell magic."""
    for source in sources:
        code = source[:_MAX_CELL_CHARS].lstrip()
        code = _SAME_LANGUAGE_MAGIC.sub("", code, count=1)
        if code and not code.startswith("%%"):
            yield code
