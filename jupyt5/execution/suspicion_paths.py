"""What the names of a cell stand for, as far as its text tells: full names of modules' parts.

The analysis forgets order and scope on purpose: a name stands for everything it is ever bound to,
so that ``m = 1; m = numpy.testing`` hides nothing.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence, Set

from jupyt5.execution.suspicion_tables import DEFAULT_ALIASES
from jupyt5.execution.suspicion_text import fold_text, is_built_text, is_range, is_whole_number

__all__ = ["NAMESPACE_PATH", "SHELL_PATH", "Bindings"]

Paths = frozenset[str]
_NONE: Paths = frozenset()
_BUILTINS = frozenset(dir(builtins))
_MAX_DEPTH = 24
_MAX_PATHS = 8
_ROUNDS = 3
_MAX_STEPS = 50_000
_IMPORTERS = frozenset({"builtins.__import__", "importlib.import_module", "importlib.__import__"})
_SHELLS = frozenset(
    {
        "get_ipython",
        "IPython.get_ipython",
        "IPython.core.getipython.get_ipython",
        "IPython.core.interactiveshell.InteractiveShell.instance",
        "IPython.terminal.interactiveshell.TerminalInteractiveShell.instance",
        "ipykernel.zmqshell.ZMQInteractiveShell.instance",
    }
)
SHELL_PATH = "get_ipython()"
NAMESPACE_PATH = "globals()"
_FunctionLike = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Bindings:
    """What each name of a cell may stand for.

    Attributes:
        paths: Full names by name, such as ``np`` → ``numpy``.
        bound: Every name that is bound anywhere in the cell, in any scope.
        built: Names bound to a text that is put together at run time.
        numbers: Names bound to whole numbers, or that run through a range.
        num_steps_left: How much more may be looked up; at 0 every answer is "nothing".
    """

    def __init__(self, nodes: Sequence[ast.AST], known: Mapping[str, Paths]) -> None:
        """Collect bindings from all nodes of a tree; ``known`` names were bound before it."""
        self.paths: dict[str, Paths] = dict(known)
        self.bound: set[str] = set()
        self.built: set[str] = set()
        self.numbers: set[str] = set()
        self.num_steps_left = _MAX_STEPS
        self._texts: dict[str, list[ast.expr]] = {}
        self._folded: dict[str, str | None] = {}
        self._functions: dict[str, _FunctionLike] = {}
        pairs: list[tuple[str, ast.expr]] = []
        calls: list[ast.Call] = []
        for node in nodes:
            self._collect(node, pairs)
            if isinstance(node, ast.Call):
                calls.append(node)
        for _ in range(_ROUNDS):
            before = dict(self.paths)
            for name, value in pairs:
                self._add(name, self.resolve(value))
            for call in calls:
                self._bind_parameters(call)
            if before == self.paths:
                break

    def resolve(self, node: ast.expr, depth: int = 0) -> Paths:
        """Return the full names an expression may stand for; results of calls end in ``()``."""
        self.num_steps_left = max(self.num_steps_left - 1, 0)
        if depth > _MAX_DEPTH or not self.num_steps_left:
            return _NONE
        match node:
            case ast.Name(id=name):
                return self._resolve_name(name)
            case ast.Attribute(value=value, attr=attr):
                base = self.resolve(value, depth + 1)
                return frozenset(f"{path}.{attr}" for path in base) if base else _NONE
            case ast.Call():
                return self._resolve_call(node, depth + 1)
            case ast.Subscript():
                return self._resolve_subscript(node, depth + 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self.resolve(body, depth + 1) | self.resolve(orelse, depth + 1)
            case ast.BoolOp(values=values):
                return _NONE.union(*(self.resolve(value, depth + 1) for value in values))
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.resolve(value, depth + 1)
            case _:
                return _NONE

    def fold(self, node: ast.expr | None) -> str | None:
        """Return the text an expression is, whatever detour it takes; None if that is not known."""
        return fold_text(node, self._find_text)

    def _find_text(self, name: str) -> str | None:
        if name not in self._folded:
            self._folded[name] = None  # while it is being folded: `a = a + a` ends here
            values = self._texts.get(name, ())
            if len(values) == 1:
                self._folded[name] = fold_text(values[0], self._find_text)
        return self._folded[name]

    def _resolve_name(self, name: str) -> Paths:
        known = self.paths.get(name, _NONE)
        if name == "__builtins__":
            return frozenset({"builtins"})
        if known or name in self.bound:
            return known
        if name in DEFAULT_ALIASES:
            return frozenset({DEFAULT_ALIASES[name]})
        if name in _BUILTINS:
            return frozenset({f"builtins.{name}"})
        return frozenset({name}) if name in ("get_ipython", "InteractiveShell") else _NONE

    def _resolve_call(self, node: ast.Call, depth: int) -> Paths:
        found: set[str] = set()
        for func in self.resolve(node.func, depth):
            found |= self._call_path(func, node, depth)
        return _cap(found)

    def _call_path(self, func: str, node: ast.Call, depth: int) -> Paths:
        args = node.args
        if func in _SHELLS or func == "InteractiveShell.instance":
            return frozenset({SHELL_PATH})
        if func in _IMPORTERS and args:
            name = self.fold(args[0])
            return frozenset({name, name.split(".", 1)[0]}) if name else _NONE
        if func == "builtins.getattr" and len(args) >= 2:
            name = self.fold(args[1])
            base = self.resolve(args[0], depth)
            return frozenset(f"{path}.{name}" for path in base) if name else _NONE
        if func in ("builtins.globals", "builtins.locals") or (func, args) == ("builtins.vars", []):
            return frozenset({NAMESPACE_PATH})
        if func in ("builtins.vars", "builtins.type") and len(args) == 1:
            tail = ".__dict__" if func == "builtins.vars" else ".__class__"
            return frozenset(path + tail for path in self.resolve(args[0], depth))
        if func.endswith((".__dict__.get", ".__dict__.__getitem__")) and args:
            return self._member(func.rpartition(".__dict__")[0], self.fold(args[0]))
        if func in ("sys.modules.get", "sys.modules.__getitem__") and args:
            return self._member("", self.fold(args[0]))
        return frozenset({func + "()"})

    def _resolve_subscript(self, node: ast.Subscript, depth: int) -> Paths:
        found: set[str] = set()
        if isinstance(node.value, ast.List | ast.Tuple):
            return _NONE.union(*(self.resolve(item, depth) for item in node.value.elts))
        for base in self.resolve(node.value, depth):
            if base == "sys.modules":
                found |= self._member("", self.fold(node.slice))
            elif base.endswith(".__dict__"):
                found |= self._member(base.removesuffix(".__dict__"), self.fold(node.slice))
            elif base == NAMESPACE_PATH:
                found |= self._resolve_name(self.fold(node.slice) or "")
            else:
                found.add(base + "[]")
        return frozenset(found)

    @staticmethod
    def _member(base: str, name: str | None) -> Paths:
        if not name:
            return _NONE
        return frozenset({f"{base}.{name}" if base else name})

    def _add(self, name: str, paths: Paths) -> None:
        if paths:
            self.paths[name] = _cap(self.paths.get(name, _NONE) | paths)

    def _collect(self, node: ast.AST, pairs: list[tuple[str, ast.expr]]) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self.bound.add(name)
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".", 1)[0]
                    self._add(alias.asname or top, frozenset({alias.name if alias.asname else top}))
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    path = frozenset({f"{module or ''}.{alias.name}"})
                    self._add(alias.asname or alias.name, path)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.bound.add(node.name)
                self._functions[node.name] = node
                pairs += self._default_pairs(node)
            case ast.Lambda():
                pairs += self._default_pairs(node)
            case ast.ClassDef():
                self.bound.add(node.name)
            case ast.ExceptHandler(name=str(name)):
                self.bound.add(name)
            case ast.arg(arg=name):
                self.bound.add(name)
            case _:
                for target, value in _iter_assignments(node):
                    self._note_value(target, value)
                    pairs.append((target, value))

    def _note_value(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Lambda):
            self._functions[name] = value
        self._texts.setdefault(name, []).append(value)
        if is_whole_number(value) or is_range(value):
            self.numbers.add(name)
        elif is_built_text(value):
            self.built.add(name)

    @staticmethod
    def _default_pairs(node: _FunctionLike) -> Iterator[tuple[str, ast.expr]]:
        args = [*node.args.posonlyargs, *node.args.args]
        defaults = node.args.defaults
        if defaults:
            for arg, value in zip(args[-len(defaults) :], defaults, strict=False):
                yield arg.arg, value
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=False):
            if default is not None:
                yield arg.arg, default

    def _bind_parameters(self, call: ast.Call) -> None:
        """``def patch(m): …; patch(np.testing)``: then ``m`` may stand for ``numpy.testing``."""
        func = call.func
        function = self._functions.get(func.id) if isinstance(func, ast.Name) else func
        if not isinstance(function, _FunctionLike):
            return
        parameters = [*function.args.posonlyargs, *function.args.args]
        for parameter, value in zip(parameters, call.args, strict=False):
            self._add(parameter.arg, self.resolve(value))
        for keyword in call.keywords:
            if keyword.arg:
                self._add(keyword.arg, self.resolve(keyword.value))


def _cap(paths: Set[str]) -> Paths:
    """Keep what is known of one expression small, or hostile text could make it grow at will."""
    return frozenset(sorted(path for path in paths if len(path) < 200)[:_MAX_PATHS])


def _iter_assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and what a node binds them to, looking into literal lists."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pair(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _pair(target, value)
        case ast.NamedExpr(target=target, value=value):
            yield from _pair(target, value)
        case ast.For(target=target, iter=values) | ast.comprehension(target=target, iter=values):
            if isinstance(values, ast.List | ast.Tuple | ast.Set):
                for value in values.elts:
                    yield from _pair(target, value)
            elif is_range(values):
                yield from _pair(target, values)
            else:
                yield from _pair(target, ast.Subscript(values, ast.Constant(0), ast.Load()))
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            yield from _pair(target, value)
        case _:
            pass


def _pair(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for part, part_value in zip(target.elts, value.elts, strict=False):
            yield from _pair(part, part_value)
