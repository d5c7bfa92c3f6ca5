"""From the text of a cell to a syntax tree: magics and shell escapes are set apart, never lost."""

import ast
import io
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


def parse_source(source: str, *, is_program: bool = False) -> ParsedSource:
    """Parse a text as far as it can be parsed. Never raises; bounded in time.

    Args:
        source: A cell, or a program's text.
        is_program: Whether it is plain Python: a whole text, or the body of a function, which is
            indented. No line of it is for IPython then.
    """
    if len(source) > _MAX_CHARS:
        return ParsedSource(tree=None, asides=(source,), complete=False)
    try:
        if is_program:
            return _parse_program(source)
        tree = _parse(source) or _parse(_dedent(source))
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


def _parse_program(source: str) -> ParsedSource:
    tree = _parse(source) or _parse(f"def _():\n{source}")
    asides: list[str] = []
    if tree is None:
        tree = _parse_mended(source, asides)
    return ParsedSource(tree=tree, asides=tuple(asides), complete=tree is not None)


def _parse_ipython(source: str) -> ParsedSource:
    asides: list[str] = []
    magic = _CELL_MAGIC.match(source)
    if magic:
        asides.append("%%" + magic.group("name") + magic.group("line"))
        source = source[magic.end() :]

    plain = _dedent(_PROMPT.sub(r"\g<indent>", source))
    text, escapes = _set_escapes_apart(plain, _find_statements(plain))
    tree = _parse(text)
    if tree is None:
        # An escape with an open bracket or quote in it hides where statements begin.
        text, escapes = _set_escapes_apart(plain, None)
        tree = _parse(text)
    asides += escapes
    num_escapes = len(asides)
    if tree is None:
        tree = _parse_mended(text, asides)
    if tree is None and magic:
        # The body of %%bash or %%writefile: not Python, and all of it matters.
        asides.append(source)
    # Without IPython's own syntax a cell that cannot be parsed cannot run at all.
    runs_body = magic is None or magic.group("name") in _PYTHON_MAGICS
    complete = tree is not None or not num_escapes or not runs_body
    return ParsedSource(tree=tree, asides=tuple(asides), complete=complete)


def _set_escapes_apart(text: str, starts: frozenset[int] | None) -> tuple[str, list[str]]:
    """Return the text with ``pass`` in place of IPython's lines, and those lines.

    ``starts`` are the lines, counted from 1, that may be one; None for all.
    """
    asides: list[str] = []
    pieces: list[str] = []
    end, line_number = 0, 1
    for match in _ESCAPED_LINE.finditer(text):
        line_number += text.count("\n", end, match.start())
        pieces.append(text[end : match.start()])
        end = match.end()
        if starts is None or line_number in starts:
            asides.append(match.group("text"))
            pieces.append(match.group("indent") + "pass")
        else:
            pieces.append(match.group())
        line_number += match.group().count("\n")
    return "".join([*pieces, text[end:]]), asides


def _find_statements(text: str) -> frozenset[int]:
    """Return the numbers of the lines, from 1, that IPython takes for beginnings of statements."""
    # Takes a while to import, and most texts are plain Python.
    from IPython.core.inputtransformer2 import make_tokens_by_line

    try:
        # Not splitlines(): it breaks lines at form feeds and Unicode separators, too.
        found = make_tokens_by_line(io.StringIO(text).readlines())
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(line[0].start[0] for line in found if line)


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
