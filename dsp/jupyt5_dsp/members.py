"""Members that are answered inside their class, and what a module imports."""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Member", "cut_statement", "list_imports", "list_members"]

_ODD_BREAK = re.compile(r"\r(?!\n)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)
_OF_FUNCTIONS = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Member:
    """A function in a class.

    Attributes:
        class_name: The class at the left margin.
        lines: All its definitions and the methods that it uses, decorators included, in their
            order and indented as they stand.
        imports: Statements at the left margin that import and do nothing else.
    """

    class_name: str
    lines: Sequence[str] = field(repr=False)
    imports: Sequence[str] = field(repr=False)


def list_members(source: str, names: Collection[str], *, program: str = "") -> list[Member]:
    """Return functions with one of ``names`` in classes at the left margin of a module.

    None if the source cannot be read, defines such a function at its margin, or is no module but a
    function's body, which may have a class of its own in it. Where a class defines one more than
    once, all definitions count, in their order: the last wins, as in Python, and a setter needs
    the getter before it. Methods of the class that they call by ``self``, ``cls`` or the class's
    name come along. Functions and values above the class do not.

    Args:
        source: A module.
        names: Functions to look for.
        program: What the member will stand in; methods that it defines do not come along.
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
    imports = [cut_statement(source, one) for one in list_imports(body)]
    found: list[Member] = []
    for around in (one for one in body if isinstance(one, ast.ClassDef)):
        taken: list[str] = []
        for one in _list_needed(around, names, program):
            start = min([one.lineno, *(part.lineno for part in one.decorator_list)]) - 1
            taken += lines[start : one.end_lineno]
        if taken:
            found.append(Member(around.name, taken, imports))
    return found


def list_imports(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a module that import, or try to, and do nothing else.

    A constant may be given a name beside an import, as where one fails. What decides between two
    imports must be known where nothing but the imports before it has run.
    """
    known = set(dir(builtins))
    found: list[ast.stmt] = []
    for one in body:
        nodes = list(ast.walk(one))
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        if imports and _only_imports(one) and used <= known:
            found.append(one)
            known |= {node.id for node in names}
            known |= {(it.asname or it.name).split(".")[0] for node in imports for it in node.names}
    return found


def cut_statement(source: str, node: ast.stmt) -> str:
    """Return a statement's own text; an expression may be too deep to be written anew."""
    return ast.get_source_segment(source, node) or ""


def _only_imports(node: ast.stmt) -> bool:
    waiting = [node]
    while waiting:  # a chain of elif may be deeper than Python's own stack
        one = waiting.pop()
        if isinstance(one, ast.If | ast.Try):
            waiting += [*one.body, *one.orelse]
        elif not isinstance(one, ast.Import | ast.ImportFrom | ast.Pass) and not _is_plain(one):
            return False
        if isinstance(one, ast.Try):
            waiting += [*one.finalbody, *(it for part in one.handlers for it in part.body)]
    return True


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement gives a constant a name."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and all(isinstance(one, ast.Name) for one in node.targets)
    )


def _list_needed(around: ast.ClassDef, names: Collection[str], program: str) -> list[_Function]:
    """Return a class's definitions of ``names``, and of the methods that they use."""
    own = [one for one in around.body if isinstance(one, _FUNCTIONS)]
    needed = {one.name for one in own if one.name in names}
    waiting = list(needed)
    while waiting:
        name = waiting.pop()
        for one in (one for one in own if one.name == name):
            used = _list_used(one, {"self", "cls", around.name}) - needed
            new = {it.name for it in own if it.name in used and not _defines(program, it.name)}
            needed |= new
            waiting += new
    return [one for one in own if one.name in needed]


def _list_used(node: ast.AST, owners: Collection[str]) -> set[str]:
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id in owners
    }


def _defines(program: str, name: str) -> bool:
    """Whether a test program, which may not be Python yet, gives something that name."""
    pattern = rf"^[ \t]*(?:(?:async[ \t]+)?def[ \t]+{name}\b|(?:\w+\.)*{name}[ \t]*[:=](?!=))"
    return bool(re.search(pattern, program, re.MULTILINE))


def _iter_own(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of a scope, without those of functions and classes in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
