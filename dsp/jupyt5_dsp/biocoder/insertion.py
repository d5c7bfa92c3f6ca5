"""Where a solution goes in a test program, and how far it is indented there.

The published rule puts four spaces before every line but the first of a class member, inside
multi-line strings too. Here a line that begins inside a string stays as it is, so that a solution
prints what its author wrote. What a solution imports before a member, or tries to, moves to the top
of the program, since a method does not see the names of its class and Python accepts a star in no
class; so does what any solution imports from ``__future__``, which Python accepts nowhere else.
Reference and hypothesis are treated alike. The rest is as published.
"""

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from jupyt5.errors import ProblemSetError
from jupyt5_dsp.members import cut_statement, list_imports

__all__ = [
    "MARKER",
    "MEMBER_INDENT",
    "Slot",
    "find_slot",
    "indent_member",
    "list_string_lines",
    "move_to_margin",
]

MARKER = "<<insert solution here>>"
MEMBER_INDENT = "    "
_CLASS = re.compile(r"^([ \t]*)class[ \t]+(\w+)", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Slot:
    """A test program cut at its marker.

    Attributes:
        before: Text before it, the indentation of the first line included.
        after: Text after it.
        is_member: Whether the solution is a member of a class.
    """

    before: str
    after: str
    is_member: bool

    @property
    def class_name(self) -> str:
        """The class that the solution is a member of; "" for none."""
        if not self.is_member:
            return ""
        width = len(self.before.rpartition("\n")[2])
        # One that is indented as far as the solution is another member.
        around = [name for indent, name in _CLASS.findall(self.before) if len(indent) < width]
        return around[-1] if around else ""

    @property
    def is_comment(self) -> bool:
        """Whether the marker stands in a comment, so that no solution could take effect."""
        return self.before.rpartition("\n")[2].lstrip().startswith("#")

    def insert(self, solution: str) -> str:
        """Return the program with ``solution`` in it."""
        on_top, solution = _take_futures(solution)
        if self.is_member:
            imports, solution = _take_imports(solution)
            on_top += imports
            solution = indent_member(solution)
        return _put_on_top(self.before, on_top) + solution + self.after


def find_slot(context: str, task_id: str) -> Slot:
    """Cut a test program at its insertion marker.

    Raises:
        ProblemSetError: If there is not exactly one.
    """
    count = context.count(MARKER)
    if count != 1:
        message = (
            f"The context of {task_id} has {count} markers {MARKER!r}; exactly one is needed. "
            "Mend the problem's file."
        )
        raise ProblemSetError(message)
    before, _, after = context.partition(MARKER)
    return Slot(before, after, is_member=bool(before) and not before.endswith("\n"))


def indent_member(solution: str) -> str:
    """Put four spaces before every line but the first and those that begin inside a string."""
    lines = solution.split("\n")
    kept = list_string_lines(solution)
    return "\n".join(
        line if idx == 0 or idx in kept or not line else MEMBER_INDENT + line
        for idx, line in enumerate(lines)
    )


def move_to_margin(source: str) -> str:
    """Take the smallest indentation of code off all lines but those that begin inside a string."""
    lines = source.split("\n")
    kept = list_string_lines(source)
    widths = [
        len(line) - len(line.lstrip(" \t"))
        for idx, line in enumerate(lines)
        if idx not in kept and line.strip() and not line.lstrip().startswith("#")
    ]
    width = min(widths, default=0)
    return "\n".join(
        line if idx in kept or not width else line[:width].lstrip(" \t") + line[width:]
        for idx, line in enumerate(lines)
    )


def list_string_lines(source: str) -> frozenset[int]:
    """Return the lines, counted from 0, that begin inside a string; none if it cannot be read."""
    inside: set[int] = set()
    starts: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            first, last = token.start[0] - 1, token.end[0] - 1
            if tokenize.tok_name[token.type] == "FSTRING_START":
                starts.append(first)
            elif tokenize.tok_name[token.type] == "FSTRING_END" and starts:
                inside.update(range(starts.pop() + 1, last + 1))
            elif token.type == tokenize.STRING:
                inside.update(range(first + 1, last + 1))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return frozenset()
    return frozenset(inside)


def _take_futures(solution: str) -> tuple[list[str], str]:
    """Return imports from ``__future__``, and the solution with empty lines in their place."""
    body = _parse_body(solution)
    futures = [
        node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    alone = _list_alone(body, futures)
    return [ast.unparse(node) for node in alone], _empty_lines(solution, alone)


def _take_imports(solution: str) -> tuple[list[str], str]:
    """Return imports at the margin, and the solution with empty lines in their place.

    Those that share a line with something else stay there, too.
    """
    body = _parse_body(solution)
    imports = list_imports(body)
    taken = [cut_statement(solution, node) for node in imports]
    return taken, _empty_lines(solution, _list_alone(body, imports))


def _list_alone(body: Sequence[ast.stmt], wanted: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the wanted statements that have no line in common with any other."""
    others = {line for node in body if node not in wanted for line in _list_lines(node)}
    return [node for node in wanted if others.isdisjoint(_list_lines(node))]


def _list_lines(node: ast.stmt) -> range:
    return range(node.lineno - 1, node.end_lineno or node.lineno)


def _empty_lines(solution: str, nodes: Sequence[ast.stmt]) -> str:
    empty = {line for node in nodes for line in _list_lines(node)}
    lines = solution.split("\n")
    return "\n".join("" if idx in empty else line for idx, line in enumerate(lines))


def _parse_body(solution: str) -> list[ast.stmt]:
    if re.search(r"\r(?!\n)", solution):
        return []  # lines of the parser would not be those of the text
    try:
        return ast.parse(solution).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _put_on_top(before: str, added: Sequence[str]) -> str:
    """Put lines at the top of a program, behind its imports from ``__future__``."""
    ends = [found.end() for found in _FUTURE.finditer(before)]
    start = ends[-1] if ends else 0
    return before[:start] + "".join(f"{line}\n" for line in added) + before[start:]
