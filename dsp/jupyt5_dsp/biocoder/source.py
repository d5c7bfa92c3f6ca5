"""What one Python file defines: imports, global variables, classes, functions. Nothing is run.

Only ``ast`` and ``symtable`` look at the text, so sources may be anybody's.
"""

import ast
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jupyt5_dsp.biocoder.insertion import list_string_lines
from jupyt5_dsp.biocoder.records import render_header, unparse

__all__ = [
    "Definition",
    "FunctionNode",
    "Import",
    "Module",
    "describe_function",
    "iter_imports",
    "read_module",
]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LONGEST_FUNCTION_LINES = 10  # in prompts; the paper's

_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Import:
    """One name that an import statement binds.

    Attributes:
        name: As it is used in the file; ``*`` for all that the module has.
        module: Where it comes from, dots for relative levels included.
        attribute: What is taken from there; "" for the module itself.
        text: The statement, with this name only.
    """

    name: str
    module: str
    attribute: str
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, a class or an assignment at the top of a file, or a member of a class.

    Attributes:
        name: What it binds.
        text: Its lines, decorators included, without the indentation of a class.
        node: Its tree.
        uses: Names of the file's top level, or of the language, that it reads.
        members: Of a class, by name.
    """

    name: str
    text: str = field(repr=False)
    node: ast.stmt = field(repr=False, compare=False)
    uses: frozenset[str]
    members: dict[str, "Definition"] = field(default_factory=dict[str, "Definition"])

    @property
    def kind(self) -> str:
        """``function``, ``class`` or ``global``."""
        if isinstance(self.node, FunctionNode):
            return "function"
        return "class" if isinstance(self.node, ast.ClassDef) else "global"


@dataclass(frozen=True, slots=True)
class Module:
    """One file.

    Attributes:
        name: Dotted, as the project's modules import it.
        path: Relative to the project, with forward slashes.
        is_package: Whether it is an ``__init__.py``.
        imports: In order.
        definitions: In order; a later one with a name replaces an earlier one.
    """

    name: str
    path: str
    is_package: bool
    imports: tuple[Import, ...] = field(repr=False)
    definitions: dict[str, Definition] = field(repr=False)


def read_module(text: str, *, name: str, path: str) -> Module | None:
    """Parse one file; None if it is not Python of this version.

    Args:
        text: The file.
        name: Dotted name of the module.
        path: For messages and results.
    """
    try:
        tree = ast.parse(text)
        table = symtable.symtable(text, path, "exec")
        reader = _Reader(text)
        definitions = {one.name: one for one in reader.read(tree.body, table, indent=0)}
        imports = tuple(iter_imports(tree))
    except _ERRORS:
        return None
    is_package = path.rpartition("/")[2] == "__init__.py"
    return Module(name, path, is_package, imports, definitions)


def describe_function(definition: Definition, *, always: bool = False) -> str:
    """Return a function for a prompt: its text, or what it takes, returns and is for.

    Args:
        definition: A function.
        always: Describe it even if it is short.
    """
    node = definition.node
    assert isinstance(node, FunctionNode)
    if not always and len(definition.text.splitlines()) <= LONGEST_FUNCTION_LINES:
        return definition.text
    purpose = (ast.get_docstring(node) or "").strip().split("\n\n", 1)[0]
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    lines = [" ".join(purpose.split()) or "(no description)"]
    lines.append(f"Parameters: {', '.join(names) or 'none'}.")
    lines.append(f"Returns: {unparse(node.returns) if node.returns else _say_returns(node)}.")
    decorators = "".join(f"@{unparse(one)}\n" for one in node.decorator_list)
    body = "\n".join(f"    # {line}" for line in lines)
    return f"{decorators}{render_header(node)}:\n{body}\n    ..."


def _say_returns(node: FunctionNode) -> str:
    values = [one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
    return "a value" if values else "nothing"


class _Reader:
    """Turns statements into definitions, with the names that each reads."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._inside = list_string_lines(text)

    def read(
        self, body: Sequence[ast.stmt], table: symtable.SymbolTable, *, indent: int
    ) -> Iterator[Definition]:
        scopes = _index_scopes(table)
        for node in _flatten(body):
            if isinstance(node, FunctionNode):
                scope = scopes.get((node.name, node.lineno))
                uses = _uses_of_header(node) | _uses_of_scope(scope)
                yield Definition(node.name, self._cut(node, indent), node, uses)
            elif isinstance(node, ast.ClassDef):
                scope = scopes.get((node.name, node.lineno)) or table
                yield self._read_class(node, scope, indent)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                text, uses = self._cut(node, indent), _names_in(node)
                for name in _iter_targets(node):
                    yield Definition(name, text, node, uses)

    def _read_class(
        self, node: ast.ClassDef, scope: symtable.SymbolTable, indent: int
    ) -> Definition:
        width = node.body[0].col_offset
        members = {one.name: one for one in self.read(node.body, scope, indent=width)}
        uses: set[str] = set()
        for part in (*node.decorator_list, *node.bases, *(one.value for one in node.keywords)):
            uses |= _names_in(part)
        for member in members.values():
            if member.kind == "global":
                uses |= member.uses - members.keys()
        return Definition(node.name, self._cut(node, indent), node, frozenset(uses), members)

    def _cut(self, node: ast.stmt, indent: int) -> str:
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(one.lineno for one in decorators)]) - 1
        end = node.end_lineno or node.lineno
        lines = [
            line if idx in self._inside else line[_measure(line, indent) :]
            for idx, line in enumerate(self._lines[start:end], start=start)
        ]
        return "\n".join(lines).rstrip()


def _measure(line: str, indent: int) -> int:
    return min(len(line) - len(line.lstrip(" \t")), indent)


def _flatten(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those under ``if`` and ``try`` of the same scope too."""
    for node in body:
        if isinstance(node, ast.If) and _is_main_guard(node):
            continue
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _flatten(node.body)
            for name in ("orelse", "finalbody"):
                yield from _flatten(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _flatten(handler.body)
        else:
            yield node


def _is_main_guard(node: ast.If) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
    ) and any(isinstance(one, ast.Constant) and one.value == "__main__" for one in ast.walk(node))


def _iter_targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for one in ast.walk(target):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def iter_imports(tree: ast.AST) -> Iterator[Import]:
    """Yield what import statements at any depth bind, in no special order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                text = f"import {_render_alias(alias)}"
                # ``import a.b`` binds a; its parts are found by the attributes that are used.
                yield Import(alias.asname or alias.name, alias.name, "", text)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                text = f"from {module} import {_render_alias(alias)}"
                yield Import(alias.asname or alias.name, module, alias.name, text)


def _render_alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _index_scopes(table: symtable.SymbolTable) -> dict[tuple[str, int], symtable.SymbolTable]:
    return {(child.get_name(), child.get_lineno()): child for child in table.get_children()}


def _uses_of_scope(scope: symtable.SymbolTable | None) -> frozenset[str]:
    """Return the global names that a function reads, nested functions included."""
    if scope is None:
        return frozenset()
    found = {
        symbol.get_name()
        for symbol in scope.get_symbols()
        if symbol.is_referenced() and symbol.is_global()
    }
    for child in scope.get_children():
        found |= _uses_of_scope(child)
    return frozenset(found)


def _uses_of_header(node: FunctionNode) -> frozenset[str]:
    """Return names that are read when the function is made: decorators, defaults, annotations."""
    parts: list[ast.AST] = [*node.decorator_list, node.args]
    if node.returns:
        parts.append(node.returns)
    return frozenset(name for part in parts for name in _names_in(part))


def _names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    )
