"""What a solution defines, and whether a test asserts anything about it.

All by the text: nothing is run. Magics and shell escapes are read as IPython reads them.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

__all__ = ["Names", "asserts", "checks", "defined_names", "is_unfilled", "parse_cell"]

# Cell magics whose body runs in the notebook itself.
_PYTHON_MAGIC = re.compile(r"\s*%%(?:time|timeit|capture|prun)\b.*(?:\n|$)")
_NESTING = ("body", "orelse", "finalbody", "handlers", "cases")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Names:
    """Functions, classes and variables that a cell defines, and methods of its classes."""

    variables: frozenset[str]
    methods: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.variables or self.methods)


def parse_cell(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is no Python 3."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = source[match.end() :] if (match := _PYTHON_MAGIC.match(source)) else source
            return ast.parse(TransformerManager().transform_cell(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defined_names(tree: ast.Module) -> Names:
    """Return what the cell defines at its top level; imports define nothing of its own.

    An assignment into something (``frame["mean"] = ...``) counts as one of that variable.
    """
    variables: set[str] = set()
    methods: set[str] = set()
    for node in _iter_scope(tree.body):
        if isinstance(node, _DEFINITIONS):
            variables.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (part.name for part in node.body if isinstance(part, _FUNCTIONS))
            methods.update(name for name in inner if not name.startswith("__"))
        elif not isinstance(node, _FUNCTIONS):
            variables.update(_stored(node))
    return Names(frozenset(variables), frozenset(methods))


def is_unfilled(tree: ast.Module) -> bool:
    """Whether the cell is what students are given: empty, or raising NotImplementedError."""
    return all(_is_blank(node) for node in tree.body)


def asserts(trees: Sequence[ast.Module]) -> bool:
    """Whether there is an ``assert``, a call of ``assert_…``, or a raised AssertionError."""
    return any(_is_assertion(node) for tree in trees for node in ast.walk(tree))


def checks(tests: Sequence[ast.Module], names: Names) -> bool:
    """Whether an assertion refers to one of the names, directly or through variables.

    ``result = f(3)`` and then ``assert result == 4`` refers to ``f``; so does an assertion on what
    was given to ``f`` or inside a loop over ``f(3)``, and a helper of the test that calls ``f``.
    """
    reached = names
    statements = [node for tree in tests for node in tree.body]
    while True:
        found = [_reached_by(node, reached) for node in statements]
        wider = Names(
            reached.variables.union(*(one.variables for one in found)),
            reached.methods.union(*(one.methods for one in found)),
        )
        if wider == reached:
            return any(_checks(node, reached) for node in statements)
        reached = wider


def _checks(statement: ast.stmt, reached: Names) -> bool:
    for node in ast.walk(statement):
        if isinstance(node, ast.Raise) and _is_assertion(node):
            # What it depends on stands around it: try, if, for.
            if _refers(statement, reached):
                return True
        elif _is_assertion(node) and _refers(node, reached):
            return True
    return False


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Call):
        return _last_name(node.func).lower().startswith("assert")
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return _last_name(raised) == "AssertionError"
    return False


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _refers(node: ast.AST, reached: Names) -> bool:
    return any(
        (isinstance(part, ast.Name) and part.id in reached.variables)
        or (isinstance(part, ast.Attribute) and part.attr in reached.methods)
        for part in ast.walk(node)
    )


def _reached_by(statement: ast.stmt, reached: Names) -> Names:
    """Return what takes a value from something reached, or is given to it."""
    variables: set[str] = set()
    methods: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, _DEFINITIONS):
            if _refers(node, reached):
                variables.add(node.name)
            continue
        if isinstance(node, ast.Call) and _refers(node.func, reached):
            variables.update(arg.id for arg in node.args if isinstance(arg, ast.Name))
            continue
        origin, targets = _flow(node)
        if origin is not None and _refers(origin, reached):
            variables.update(name for target in targets for name in _roots(target))
            methods.update(one.attr for one in targets if isinstance(one, ast.Attribute))
    return Names(frozenset(variables), frozenset(methods))


def _flow(node: ast.AST) -> tuple[ast.expr | None, Sequence[ast.expr]]:
    """Return where a value comes from and what takes it; (None, ()) if none is moved."""
    if isinstance(node, ast.Assign):
        return node.value, node.targets
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        return node.value, (node.target,)
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return node.iter, (node.target,)
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return node.context_expr, (node.optional_vars,)
    return None, ()


def _iter_scope(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements that run in the cell's own scope, also those inside if, for, with, try."""
    for node in body:
        yield node
        if not isinstance(node, _DEFINITIONS):
            for part in _NESTING:
                yield from _iter_scope(getattr(node, part, ()))


def _stored(node: ast.AST) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    for target in targets:
        yield from _roots(target)
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            inner = (n for n in ast.walk(part) if isinstance(n, ast.NamedExpr))
            yield from (named.target.id for named in inner)


def _roots(target: ast.expr) -> Iterator[str]:
    """Yield the variables that an assignment changes: ``a`` and ``b`` in ``a[0], b.c = …``."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        yield from _roots(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _roots(part)


def _is_blank(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return _last_name(raised) == "NotImplementedError"
    if isinstance(node, _DEFINITIONS):
        return all(_is_blank(part) for part in node.body)
    return isinstance(node, ast.Pass | ast.Import | ast.ImportFrom)
