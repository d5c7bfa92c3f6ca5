"""Wrong answers on purpose: a test that accepts one tests nothing."""

import ast
import copy
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["Mutant", "binds_names", "make_mutants", "make_none_mutant", "reads_names"]

_MAGIC_LINE = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)

# A change to one place of a tree, not made yet.
_Change = Callable[[], None]

_OTHER_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A solution with one mistake in it; ``idea`` names the kind of mistake."""

    idea: str
    source: str = field(repr=False)


def make_mutants(source: str, *, number: int, seed: int) -> list[Mutant]:
    """Return solutions that differ from ``source`` in one place each.

    Args:
        source: A solution cell; lines of magics are left out of its mutants.
        number: At most so many.
        seed: Draws the places.

    Returns:
        Mutants that differ from each other and from ``source``, fewer than ``number`` if it has
        fewer places to change; none if it cannot be parsed.
    """
    tree = _parse(source)
    if tree is None:
        return []
    order = list(range(sum(1 for _ in _iter_changes(tree))))
    random.Random(seed).shuffle(order)
    found: dict[str, Mutant] = {}
    original = ast.unparse(tree)
    for place in order:
        if len(found) == number:
            break
        changed = copy.deepcopy(tree)
        idea, change = list(_iter_changes(changed))[place]
        change()
        text = ast.unparse(ast.fix_missing_locations(changed))
        if text != original:
            found.setdefault(text, Mutant(idea, text))
    return list(found.values())


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


def _iter_changes(tree: ast.Module) -> Iterator[tuple[str, _Change]]:
    """Yield every single mistake that could be made, in the order of the tree."""
    for node in ast.walk(tree):
        for idea, list_changes in _IDEAS.items():
            for change in list_changes(node):
                yield idea, change


def _change_operator(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER_OPERATOR:
        yield lambda: setattr(node, "op", _OTHER_OPERATOR[type(node.op)]())


def _change_comparison(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER_COMPARISON:
        yield lambda: node.ops.__setitem__(0, _OTHER_COMPARISON[type(node.ops[0])]())


def _change_connective(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield lambda: setattr(node, "op", other())


def _negate_condition(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.If | ast.IfExp):
        yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))


def _drop_sign(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield lambda: setattr(node, "op", ast.UAdd())


def _change_constant(node: ast.AST) -> Iterator[_Change]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield lambda: setattr(node, "value", not value)
    elif isinstance(value, int | float):
        yield lambda: setattr(node, "value", value + 1)
    elif isinstance(value, str) and value:
        yield lambda: setattr(node, "value", value[:-1])


def _return_none(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield lambda: setattr(node, "value", ast.Constant(None))


def _assign_none(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Assign):
        yield lambda: setattr(node, "value", ast.Constant(None))


def _swap_arguments(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Call) and len(node.args) > 1:
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield lambda: setattr(node, "args", swapped)


def _drop_keyword(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Call) and node.keywords:
        yield lambda: setattr(node, "keywords", node.keywords[:-1])


def _remove_statement(node: ast.AST) -> Iterator[_Change]:
    for name in ("body", "orelse"):
        # A lambda's body is an expression.
        body: object = getattr(node, name, None)
        for idx in range(len(body)) if isinstance(body, list) else ():  # pyright: ignore[reportUnknownArgumentType]
            yield lambda name=name, idx=idx: _put_pass(node, name, idx)


def _put_pass(node: ast.AST, name: str, idx: int) -> None:
    getattr(node, name)[idx] = ast.Pass()


_IDEAS: dict[str, Callable[[ast.AST], Iterator[_Change]]] = {
    "operator changed": _change_operator,
    "comparison changed": _change_comparison,
    "connective changed": _change_connective,
    "condition negated": _negate_condition,
    "sign dropped": _drop_sign,
    "constant changed": _change_constant,
    "None returned": _return_none,
    "None assigned": _assign_none,
    "arguments swapped": _swap_arguments,
    "keyword dropped": _drop_keyword,
    "statement removed": _remove_statement,
}
