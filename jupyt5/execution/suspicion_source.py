"""From the text of a cell to a syntax tree: magics and shell escapes are set apart, never lost."""

import ast
import re
import warnings
from dataclasses import dataclass

__all__ = ["ParsedSource", "parse_source"]

# Parsing costs about 10 µs a line; a completion that long is no answer to a homework problem.
_MAX_CHARS = 100_000
_MAX_MENDED_LINES = 16

_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun", "debug", "memit", "mprun"})
_CELL_MAGIC = re.compile(r"\A\s*%%(?P<name>[^\s%]\S*)(?P<line>[^\n]*)\n?")
_ESCAPED_LINE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<text>"
    r"[%!?,;/](?:.*\\\n)*.*"  # %magic, !command, ?help, calls without parentheses
    r"|[\w.,()\[\] \t]+=[ \t]*[%!](?:.*\\\n)*.*"  # names = %magic, names = !command
    r"|[%\w.*]+\?{1,2}[ \t]*)$",  # help?
    re.MULTILINE,
)
_PROMPT = re.compile(
    r"^(?P<indent>[ \t]*)(?:>>>|\.\.\.|In ?\[\d+\]:|[ \t]*\.\.\.:) ?", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSource:
    """A cell's Python, and what in it was for IPython.

    Attributes:
        tree: The Python; None if there is none that can be parsed.
        asides: Texts of magics, shell escapes and lines that are not Python.
        complete: Whether everything that an interpreter could run is in ``tree`` or ``asides``.
    """

    tree: ast.Module | None
    asides: tuple[str, ...] = ()
    complete: bool = True


def parse_source(source: str) -> ParsedSource:
    """Parse a cell as far as it can be parsed. Never raises; bounded in time."""
    if len(source) > _MAX_CHARS:
        return ParsedSource(tree=None, asides=(source,), complete=False)
    try:
        tree = _parse(source)
        return ParsedSource(tree=tree) if tree else _parse_ipython(source)
    except (RecursionError, MemoryError):
        return ParsedSource(tree=None, asides=(source,), complete=False)


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _parse_ipython(source: str) -> ParsedSource:
    asides: list[str] = []
    magic = _CELL_MAGIC.match(source)
    if magic:
        asides.append("%%" + magic.group("name") + magic.group("line"))
        source = source[magic.end() :]

    def set_apart(match: re.Match[str]) -> str:
        asides.append(match.group("text"))
        return match.group("indent") + "pass"

    text = _dedent(_PROMPT.sub(r"\g<indent>", source))
    text = _ESCAPED_LINE.sub(set_apart, text)
    num_escapes = len(asides)
    tree = _parse(text)
    if tree is None:
        tree = _parse_mended(text, asides)
    if tree is None and magic:
        # The body of %%bash or %%writefile: not Python, and all of it matters.
        asides.append(source)
    # Without IPython's own syntax a cell that cannot be parsed cannot run at all.
    runs_body = magic is None or magic.group("name") in _PYTHON_MAGICS
    complete = tree is not None or not num_escapes or not runs_body
    return ParsedSource(tree=tree, asides=tuple(asides), complete=complete)


def _parse_mended(text: str, asides: list[str]) -> ast.Module | None:
    """Take out the line that the parser stumbles over, until it parses."""
    lines = text.split("\n")
    for _ in range(_MAX_MENDED_LINES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse("\n".join(lines))
        except SyntaxError as exc:
            idx = min(max((exc.lineno or 1) - 1, 0), len(lines) - 1)
        except ValueError:
            return None
        line = lines[idx]
        if line.strip() == "pass":
            return None
        asides.append(line)
        lines[idx] = line[: len(line) - len(line.lstrip())] + "pass"
    return None


def _dedent(text: str) -> str:
    """Do what IPython does: a first line that is indented moves the whole cell."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    if not indent:
        return text
    return "\n".join(line.removeprefix(indent) for line in text.split("\n"))
