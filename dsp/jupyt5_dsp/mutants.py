"""Wrong answers on purpose: a test that accepts one tests nothing."""

import ast
import re
from collections.abc import Iterator

__all__ = ["binds_names", "make_none_mutant", "reads_names"]

_MAGIC_LINE = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


def make_none_mutant(source: str) -> str | None:
    """Return a solution whose functions all return None and whose variables all are None.

    Imports, class and function headers stay, so that the names a test asks for exist.

    Returns:
        The mutant; None if the source cannot be parsed, or nothing in it can be emptied.
    """
    tree = _parse(source)
    if tree is None:
        return None
    body = list(_empty_statements(tree.body))
    if not any(not isinstance(node, ast.Import | ast.ImportFrom) for node in body):
        return None
    tree.body = body
    return ast.unparse(ast.fix_missing_locations(tree))


def binds_names(source: str) -> frozenset[str]:
    """Return the names that a cell defines at its top level."""
    tree = _parse(source)
    return frozenset(_iter_bound(tree.body)) if tree else frozenset()


def reads_names(source: str) -> frozenset[str]:
    """Return the names that a cell uses anywhere."""
    tree = _parse(source)
    if tree is None:
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _parse(source: str) -> ast.Module | None:
    for text in (source, _MAGIC_LINE.sub("", source)):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
    return None


def _empty_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
            yield node
        elif isinstance(node, ast.ClassDef):
            methods = list(_empty_statements(node.body))
            node.body = methods or [ast.Pass()]
            yield node
        else:
            for name in _iter_bound([node]):
                yield ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))


def _iter_bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".", 1)[0]
        else:
            found = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _stores(n))
            yield from dict.fromkeys(found)


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
