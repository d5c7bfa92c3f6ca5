"""Members that are answered inside their class."""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Member", "list_members"]

_ODD_BREAK = re.compile(r"\r(?!\n)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_OF_FUNCTIONS = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True, slots=True)
class Member:
    """A function in a class.

    Attributes:
        class_name: The class at the left margin.
        lines: Its text, decorators included, indented as it stands.
        imports: Statements at the left margin that import and do nothing else.
    """

    class_name: str
    lines: Sequence[str] = field(repr=False)
    imports: Sequence[str] = field(repr=False)


def list_members(source: str, names: Collection[str]) -> list[Member]:
    """Return functions with one of ``names`` in classes at the left margin of a module.

    None if the source cannot be read, defines such a function at its margin, or is no module but a
    function's body, which may have a class of its own in it. Where a class defines one twice, the
    last counts, as in Python.
    """
    if _ODD_BREAK.search(source):
        return []  # lines of the parser would not be those of the text
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    is_there = any(isinstance(one, _FUNCTIONS) and one.name in names for one in body)
    if is_there or any(isinstance(one, _OF_FUNCTIONS) for one in _iter_own(body)):
        return []
    lines = source.split("\n")
    imports = [ast.unparse(one) for one in body if _only_imports(one)]
    found: list[Member] = []
    for around in (one for one in body if isinstance(one, ast.ClassDef)):
        own = [one for one in around.body if isinstance(one, _FUNCTIONS) and one.name in names]
        if own:
            start = min([own[-1].lineno, *(one.lineno for one in own[-1].decorator_list)]) - 1
            found.append(Member(around.name, lines[start : own[-1].end_lineno], imports))
    return found


def _iter_own(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of a scope, without those of functions and classes in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _only_imports(node: ast.stmt) -> bool:
    """Whether a statement imports, or tries to, and does nothing else."""
    if not isinstance(node, ast.If | ast.Try):
        return isinstance(node, ast.Import | ast.ImportFrom)
    inside = [*node.body, *node.orelse]
    if isinstance(node, ast.Try):
        inside += [*node.finalbody, *(one for part in node.handlers for one in part.body)]
    return all(isinstance(one, ast.Pass) or _only_imports(one) for one in inside)
