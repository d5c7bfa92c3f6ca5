"""What a hypothesis is up to, as far as its text shows: flags on passes that need a second look.

The scan reads source text in the tool's own process, so nothing that a hypothesis does can touch
it. It is a net, not a wall: the wall is the engine, which demands proof of a pass. Whatever the
reference solution does, too, is no reason for a flag.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from jupyt5.execution.suspicion_paths import Bindings
from jupyt5.execution.suspicion_scan import HELPER_NAME, Surroundings, scan
from jupyt5.execution.suspicion_source import parse_source
from jupyt5.execution.suspicion_tables import (
    ASSERTION,
    DEFAULT_ALIASES,
    HELPER,
    SHADOWED_MODULES,
    UNSCANNED,
)

__all__ = ["find_suspicions"]

_BUILTINS = frozenset(dir(builtins))
_JUDGING_MODULES = SHADOWED_MODULES | {"__main__"}
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class _Notebook:
    """What the cells around a solution cell import, define and call.

    ``called`` names are those whose rebinding would change what the grading cells do.
    """

    around: Surroundings
    called: frozenset[str]


def find_suspicions(
    source: str,
    reference: str,
    grading: Sequence[str] = (),
    context: Sequence[str] = (),
    *,
    is_program: bool = False,
) -> tuple[str, ...]:
    """Return the flags that a hypothesis earns and its reference solution does not.

    Args:
        source: The solution cell with the hypothesis in it, IPython's own syntax allowed; or a
            program's text.
        reference: The solution cell with the reference solution.
        grading: Sources of the grading cells.
        context: Sources of the code cells before the solution cell; their imports say what
            names stand for.
        is_program: Whether the texts are plain Python, a function's body among them.

    Returns:
        Short texts that begin with ``suspect: ``, sorted. Never raises, whatever the source.
    """
    try:
        notebook = _read_notebook(tuple(grading), tuple(context), is_program)
        flags = _scan_cell(source, notebook, reference)
        flags -= _scan_reference(reference, tuple(grading), tuple(context), is_program)
    except (RecursionError, MemoryError):
        return (UNSCANNED,)
    return tuple(sorted(flags))


@lru_cache(maxsize=1024)
def _scan_reference(
    reference: str, grading: tuple[str, ...], context: tuple[str, ...], is_program: bool
) -> frozenset[str]:
    return _scan_cell(reference, _read_notebook(grading, context, is_program), reference)


def _scan_cell(source: str, notebook: _Notebook, reference: str) -> frozenset[str]:
    flags = scan(source, notebook.around)
    is_program = notebook.around.is_program
    tree = parse_source(source, is_program=is_program).tree
    if tree is None:
        return flags
    reference_tree = parse_source(reference, is_program=is_program).tree
    own = set(_iter_definitions(reference_tree)) if reference_tree else set[str]()
    paths = notebook.around.paths
    replaced = {name for name in _iter_rebound(tree, paths) if name in notebook.called} - own
    if not replaced:
        return flags
    return flags | {ASSERTION if replaced & {"AssertionError"} else HELPER}


@lru_cache(maxsize=256)
def _read_notebook(
    grading: tuple[str, ...], context: tuple[str, ...], is_program: bool
) -> _Notebook:
    trees = [tree for text in grading if (tree := parse_source(text).tree)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    before = [tree for text in context if (tree := parse_source(text).tree)]
    imports = [
        node
        for tree in [*before, *trees]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    defined = {n.name for tree in before for n in tree.body if _defines(n)}
    paths = Bindings(imports, {}).paths
    own = {name for tree in trees for name in _iter_definitions(tree)}
    helpers = [node for tree in before for n in tree.body if _defines(n) for node in ast.walk(n)]
    called = {name for name in _iter_used([*nodes, *helpers]) if name in _BUILTINS}
    called |= set(_iter_called(nodes)) - own
    known = paths.keys() | defined | DEFAULT_ALIASES.keys()
    called |= {name for name in _iter_used(nodes) if name in known} - own
    attributes = {
        node.func.attr
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    around = Surroundings(
        paths=paths,
        called_attributes=frozenset(attributes),
        judging_modules=_JUDGING_MODULES | _find_imported(trees),
        is_program=is_program,
    )
    return _Notebook(around, frozenset(called))


def _defines(node: ast.stmt) -> TypeGuard[_Definition]:
    return isinstance(node, _Definition)


def _find_imported(trees: Sequence[ast.Module]) -> frozenset[str]:
    """Return the top-level modules that cells import."""
    imports = [node for tree in trees for node in ast.walk(tree)]
    found = {alias.name for n in imports if isinstance(n, ast.Import) for alias in n.names}
    found |= {n.module for n in imports if isinstance(n, ast.ImportFrom) and n.module}
    return frozenset(name.split(".", 1)[0] for name in found)


def _iter_used(nodes: Sequence[ast.AST]) -> Iterator[str]:
    return (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _iter_definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a cell binds at its top level by other means than an import."""
    for node in _iter_top_level(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                yield from names
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="globals" | "locals" | "vars")),
                slice=ast.Constant(value=str(name)),
                ctx=ast.Store() | ast.Del(),
            ):
                yield name
            case _:
                pass


def _iter_rebound(tree: ast.Module, known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the names to which a cell gives a new meaning.

    ``import numpy as np`` gives ``np`` the meaning it has anyway.
    """
    yield from _iter_definitions(tree)
    for node in _iter_top_level(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if alias.asname in (None, alias.name.rpartition(".")[2]):
                continue
            path = module + alias.name
            usual = DEFAULT_ALIASES.get(alias.asname) == path
            if not usual and path not in known.get(alias.asname, ()):
                yield alias.asname


def _iter_top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what is executed in the cell's own scope."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _Definition):
            stack += node.decorator_list
        elif isinstance(node, ast.comprehension):
            stack += [node.iter, *node.ifs]
        elif not isinstance(node, ast.Lambda):
            stack += ast.iter_child_nodes(node)


def _iter_called(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
                if HELPER_NAME.match(attr):
                    yield name
            case _:
                pass
