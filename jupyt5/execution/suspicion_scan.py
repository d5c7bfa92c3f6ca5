"""The walk through one cell's syntax tree: every node is asked what it is up to."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jupyt5.execution.suspicion_paths import NAMESPACE_PATH, SHELL_PATH, Bindings
from jupyt5.execution.suspicion_source import parse_source
from jupyt5.execution.suspicion_tables import (
    ALLOWED_STORES,
    ASSERTION,
    COMPARISON,
    COMPARISON_NAMES,
    DESCRIPTORS,
    HELPER,
    INTERNALS,
    MODULE_FLAGS,
    PATH_FLAGS,
    PLANTED,
    READ,
    RUNTIME,
    SHADOWED_MODULES,
    SHELL,
    SHELL_ALLOWED,
    UNSCANNED,
    WORD_FLAGS,
)
from jupyt5.execution.suspicion_text import is_built_text, is_whole_number
from jupyt5.execution.suspicion_words import PYTHON_FILE, find_python, scan_aside, scan_text

__all__ = ["HELPER_NAME", "Surroundings", "scan"]

_MAX_NESTED = 3
HELPER_NAME = re.compile(r"^_?(assert|fail|check_)|^(equals|allclose|array_equal|isclose)$")
_RUNNERS = frozenset({"builtins.exec", "builtins.eval", "builtins.compile", "timeit.timeit"})
_RAW_RUNNERS = frozenset({"builtins.exec", "builtins.eval", "builtins.compile"})
_UNCALLED = _RAW_RUNNERS | {"builtins.setattr", "builtins.delattr", "builtins.__import__"}
_IMPORTERS = frozenset({"builtins.__import__", "importlib.import_module", "importlib.reload"})
_OPENERS = frozenset({"builtins.open", "io.open", "io.FileIO", "os.open", "_io.FileIO"})
_HISTORY = frozenset({"In", "_ih", "_i", "_ii", "_iii", "_i1", "_i2"})
# Holders of what grading cells call; what happens to them where they are handed on is not seen.
_TEST_OBJECTS = frozenset(
    [
        "numpy",
        "pandas",
        "math",
        "numpy.testing",
        "unittest",
        "unittest.TestCase",
        "unittest.case",
        "pandas.testing",
        "pandas.util.testing",
        "builtins",
        "nose",
        "nose.tools",
        "IPython",
        "sys",
        "os",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a notebook around a solution cell says.

    Attributes:
        paths: Full names of modules' parts by the names the notebook imports them under.
        called_attributes: Attributes that the grading cells call: replacing one elsewhere counts.
        judging_modules: Top-level modules that may have a say in a verdict.
        is_program: Whether there is no notebook: the text is plain Python.
    """

    paths: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    called_attributes: frozenset[str] = frozenset()
    judging_modules: frozenset[str] = SHADOWED_MODULES | {"__main__"}
    is_program: bool = False


def scan(source: str, around: Surroundings, num_nested: int = 0) -> frozenset[str]:
    """Return the flags that a text of Python, or of IPython, earns."""
    parsed = parse_source(source, is_program=around.is_program)
    flags: set[str] = set()
    if not parsed.complete:
        flags.add(UNSCANNED)
    for aside in parsed.asides:
        flags.update(scan_aside(aside))
        text = find_python(aside)
        if text and num_nested < _MAX_NESTED:
            flags |= scan(text, around, _MAX_NESTED) - {UNSCANNED}
    if parsed.tree is not None:
        flags |= _Walk(parsed.tree, around, num_nested).run()
    return frozenset(flags)


class _Walk:
    """One walk through one tree."""

    def __init__(self, tree: ast.Module, around: Surroundings, num_nested: int) -> None:
        self._pairs = list(_iter_with_parent(tree))
        self._around = around
        self._num_nested = num_nested
        self._names = Bindings([node for node, _ in self._pairs], around.paths)
        self._flags: set[str] = set()
        self._imported: set[str] = set()
        self._python_files: set[str] = set()

    def run(self) -> set[str]:
        for node, parent in self._pairs:
            self._visit(node, parent)
        if self._imported & self._python_files:
            self._flags.add(PLANTED)
        if not self._names.num_steps_left:
            self._flags.add(UNSCANNED)
        return self._flags

    def _visit(self, node: ast.AST, parent: ast.AST) -> None:
        match node:
            case ast.Name():
                self._visit_name(node, parent)
            case ast.Attribute():
                self._visit_attribute(node, parent)
            case ast.Constant(value=str() | bytes()):
                if not isinstance(parent, ast.Expr):
                    self._visit_text(node)
            case ast.BinOp() | ast.JoinedStr() | ast.Subscript():
                if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                    self._visit_item_store(node)
                elif not isinstance(parent, ast.BinOp):
                    self._visit_text(node)
            case ast.Call():
                self._visit_text(node)
                self._visit_call(node)
            case ast.Import() | ast.ImportFrom():
                self._visit_import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._check_word(node.name)
                if node.name == "AssertionError":
                    self._flags.add(ASSERTION)
            case ast.keyword(arg=str(name)):
                self._check_word(name)
                if name == "stack_info":
                    self._flags.add(READ)
                elif name == "level" and _is_evaluation(parent):
                    self._flags.add(INTERNALS)  # pd.eval(…, level=9) reads a caller's names
            case ast.MatchClass(kwd_attrs=names):
                for name in names:
                    self._check_word(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._check_word(name)
            case ast.alias(asname=str(name)):
                self._check_word(name)
            case _:
                pass

    def _check_word(self, word: str) -> None:
        if word in COMPARISON_NAMES:
            self._flags.add(COMPARISON)
        flag = WORD_FLAGS.get(word)
        if flag:
            self._flags.add(flag)

    def _visit_text(self, node: ast.expr) -> None:
        text = self._names.fold(node)
        if text:
            self._flags.update(scan_text(text))
            if ".py" in text:
                files = PYTHON_FILE.findall(text)
                self._python_files.update(name.rpartition(".")[0] for name in files)

    def _visit_name(self, node: ast.Name, parent: ast.AST) -> None:
        name = node.id
        if not isinstance(node.ctx, ast.Load):
            if name.startswith("__"):
                self._check_word(name)
            if name == "AssertionError":
                self._flags.add(ASSERTION)
            return
        if name not in self._names.bound:
            flag = WORD_FLAGS.get(name)
            if flag:
                self._flags.add(flag)
            if name in _HISTORY:
                self._flags.add(READ)
        self._check_use(node, parent)

    def _visit_attribute(self, node: ast.Attribute, parent: ast.AST) -> None:
        flag = WORD_FLAGS.get(node.attr)
        if flag:
            self._flags.add(flag)
        if not isinstance(node.ctx, ast.Load):
            self._check_store(node.value, node.attr)
            return
        self._check_use(node, parent)
        # `__eq__ = int.__ge__`, under whatever name: a comparison that is not called is lent.
        if node.attr in COMPARISON_NAMES - {"__class__"} and not isinstance(parent, ast.Call):
            self._flags.add(COMPARISON)

    def _check_use(self, node: ast.Name | ast.Attribute, parent: ast.AST) -> None:
        for path in self._names.resolve(node):
            flag = PATH_FLAGS.get(path) or _find_module_flag(path)
            if flag:
                self._flags.add(flag)
            if path.startswith(SHELL_PATH):
                self._check_shell(path, parent)
            elif path == "sys.modules" and not _looks_up(parent):
                self._flags.add(INTERNALS)
            elif path.endswith(".__dict__") and not _looks_up(parent):
                self._check_path_store(path.removesuffix(".__dict__"), None)
            elif path in _UNCALLED and not _is_called_or_named(node, parent):
                self._flags.add(RUNTIME)
            elif path in _TEST_OBJECTS and _is_put_away(parent):
                self._flags.add(HELPER)

    def _check_shell_call(self, path: str, node: ast.Call) -> None:
        """Extra arguments say in which caller's names a magic or an escape is evaluated."""
        name = path.removeprefix(SHELL_PATH + ".")
        limit = {"system": 1, "getoutput": 1, "run_line_magic": 2, "run_cell_magic": 3}.get(name)
        if limit is not None and len(node.args) + len(node.keywords) > limit:
            self._flags.add(INTERNALS)

    def _check_shell(self, path: str, parent: ast.AST) -> None:
        parts = path.split(".")
        if len(parts) > 1:
            if parts[1].removesuffix("()") not in SHELL_ALLOWED:
                self._flags.add(SHELL)
        elif _is_put_away(parent) or isinstance(parent, ast.List | ast.Tuple):
            self._flags.add(SHELL)

    def _visit_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            path = module + alias.name
            flag = PATH_FLAGS.get(path) or _find_module_flag(path)
            if flag:
                self._flags.add(flag)
            self._check_word(alias.name)
            self._imported.add((module or alias.name).split(".", 1)[0])

    def _visit_item_store(self, node: ast.Subscript) -> None:
        key = self._names.fold(node.slice)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
            self._check_store(node.value.value, key)
        for path in self._names.resolve(node.value):
            if path == "sys.modules":
                self._flags.add(PLANTED)
            elif path == NAMESPACE_PATH and key is None:
                self._flags.add(RUNTIME)
            elif path.startswith(SHELL_PATH):
                self._flags.add(SHELL)
            elif path.endswith(".__dict__"):
                self._check_path_store(path.removesuffix(".__dict__"), key)

    def _check_store(self, base: ast.expr, attr: str | None) -> None:
        """Judge ``base.attr = …`` and its equivalents; None is a name made at run time."""
        paths = self._names.resolve(base)
        for path in paths:
            self._check_path_store(path, attr)
        if isinstance(base, ast.Name) and base.id in ("self", "cls"):
            return
        if attr is None:
            self._flags.add(RUNTIME)
            return
        if attr in COMPARISON_NAMES:
            self._flags.add(COMPARISON)
        if HELPER_NAME.match(attr) or attr in self._around.called_attributes:
            self._flags.add(HELPER)
        if _is_class_of_another(base):
            self._flags.add(HELPER)

    def _check_path_store(self, path: str, attr: str | None) -> None:
        full = f"{path}.{attr or ''}"
        if path.startswith(SHELL_PATH):
            if attr not in SHELL_ALLOWED:
                self._flags.add(SHELL)
        elif _is_instance(path) or full.startswith(ALLOWED_STORES):
            return
        elif path == "builtins" or path.startswith("builtins."):
            self._flags.add(ASSERTION)
        elif path.startswith(("IPython", "ipykernel", "InteractiveShell")):
            if attr not in SHELL_ALLOWED:
                self._flags.add(SHELL)
        elif path.split(".", 1)[0] in self._around.judging_modules:
            self._flags.add(HELPER)

    def _visit_call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in ("__setattr__", "__delattr__"):
            self._check_setter(node)
        for path in self._names.resolve(func):
            if path in ("builtins.setattr", "builtins.delattr"):
                self._check_setter(node)
            elif path == "builtins.getattr" and len(node.args) > 1:
                self._check_getter(node.args[0], node.args[1])
            elif path in _RUNNERS:
                self._check_runner(path, node)
            elif path in _OPENERS:
                self._check_open(node)
            elif path in _IMPORTERS and path != "importlib.reload":
                self._check_importer(node)
            elif path == "dataclasses.make_dataclass":
                for keyword in node.keywords:
                    if keyword.arg == "namespace":
                        self._check_made_class(keyword.value)
            elif len(node.args) >= 3 and _makes_classes(path):
                self._check_made_class(node.args[-1])
            elif path.startswith(SHELL_PATH):
                self._check_shell_call(path, node)
            elif path == "pickle.loads" and node.args and self._names.fold(node.args[0]):
                self._flags.add(RUNTIME)
            elif path == NAMESPACE_PATH + ".update" or path.endswith(".__dict__.update"):
                self._check_update(path, node)

    def _check_setter(self, node: ast.Call) -> None:
        if len(node.args) < 2:
            return
        self._check_store(node.args[0], self._names.fold(node.args[1]))

    def _check_getter(self, base: ast.expr, name: ast.expr) -> None:
        if self._names.fold(name) is not None:
            return
        built = isinstance(name, ast.Name) and name.id in self._names.built
        paths = self._names.resolve(base)
        is_watched = paths & _TEST_OBJECTS or any(path.startswith("builtins.") for path in paths)
        if built or is_watched or is_built_text(name):
            self._flags.add(RUNTIME)

    def _check_runner(self, path: str, node: ast.Call) -> None:
        arg = node.args[0] if node.args else None
        text = self._names.fold(arg)
        if text is None:
            if path in _RAW_RUNNERS:
                self._flags.add(RUNTIME)
        elif self._num_nested >= _MAX_NESTED:
            self._flags.add(UNSCANNED)
        else:
            self._flags |= scan(text, self._around, self._num_nested + 1)

    def _check_importer(self, node: ast.Call) -> None:
        name = self._names.fold(node.args[0]) if node.args else None
        if name is None:
            self._flags.add(RUNTIME)
            return
        self._imported.add(name)
        flag = _find_module_flag(name)
        if flag:
            self._flags.add(flag)

    def _check_open(self, node: ast.Call) -> None:
        arg = node.args[0] if node.args else None
        is_number = is_whole_number(arg)
        is_number = is_number or (isinstance(arg, ast.Name) and arg.id in self._names.numbers)
        if is_number or _asks_descriptor(arg):
            self._flags.add(DESCRIPTORS)
        if arg is not None and self._names.fold(arg) is None and _writes(node):
            texts = (part.value for part in ast.walk(arg) if isinstance(part, ast.Constant))
            if any(isinstance(text, str) and text.endswith((".py", ".pth")) for text in texts):
                self._flags.add(PLANTED)

    def _check_made_class(self, members: ast.expr) -> None:
        """``type(name, bases, members)``: names that are spelt out are seen elsewhere."""
        if isinstance(members, ast.Dict):
            if any(self._names.fold(key) is None for key in members.keys):
                self._flags.add(RUNTIME)
        elif not (isinstance(members, ast.Call) and isinstance(members.func, ast.Name)):
            self._flags.add(RUNTIME)

    def _check_update(self, path: str, node: ast.Call) -> None:
        if path.startswith(NAMESPACE_PATH):
            self._flags.add(RUNTIME)
            return
        base = path.removesuffix(".__dict__.update")
        for name in [keyword.arg for keyword in node.keywords] or [None]:
            self._check_path_store(base, name)


def _iter_with_parent(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    stack: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while stack:
        node, parent = stack.pop()
        yield node, parent
        stack += [(child, node) for child in ast.iter_child_nodes(node)]


def _find_module_flag(path: str) -> str | None:
    parts = path.split(".")
    for num_parts in range(1, min(len(parts), 3) + 1):
        flag = MODULE_FLAGS.get(".".join(parts[:num_parts]))
        if flag:
            return flag
    return None


def _is_called_or_named(node: ast.expr, parent: ast.AST) -> bool:
    """Whether a function is called where it stands, or only given another name."""
    if isinstance(parent, ast.Call):
        return parent.func is node
    return isinstance(parent, ast.Assign | ast.NamedExpr | ast.Attribute)


def _is_put_away(parent: ast.AST) -> bool:
    """Whether a value goes where the analysis does not follow."""
    if isinstance(parent, ast.Assign):
        return any(not isinstance(target, ast.Name | ast.Tuple) for target in parent.targets)
    return isinstance(parent, ast.Dict | ast.Return | ast.Yield | ast.Lambda | ast.Starred)


def _is_class_of_another(base: ast.expr) -> bool:
    """Whether ``base`` is the class of something else than ``self``."""
    match base:
        case ast.Call(func=ast.Name(id="type"), args=[owner]):
            pass
        case ast.Attribute(value=owner, attr="__class__" | "__base__"):
            pass
        case ast.Subscript(value=ast.Attribute(value=owner, attr="__bases__" | "__mro__")):
            pass
        case ast.Subscript(value=ast.Call(func=ast.Attribute(value=owner, attr="mro"))):
            pass
        case _:
            return False
    return not (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def _makes_classes(path: str) -> bool:
    """Whether a path leads to ``type``, to another class of classes, or to their methods."""
    return path.startswith("builtins.type") or path.endswith((".__class__", "Meta"))


def _is_instance(path: str) -> bool:
    """Whether a path leads to what a call or a subscript gave, and not on to its class."""
    classes = (".__class__", ".__base", ".__mro__")
    return ("()" in path or "[]" in path) and not any(part in path for part in classes)


def _looks_up(parent: ast.AST) -> bool:
    """Whether a mapping is only asked for one thing, or whether it has it."""
    return isinstance(parent, ast.Subscript | ast.Compare | ast.Attribute | ast.Assign)


def _is_evaluation(call: ast.AST) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="eval" | "query")):
            return True
        case _:
            return False


def _asks_descriptor(node: ast.expr | None) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="fileno")):
            return True
        case _:
            return False


def _writes(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(kw.value for kw in node.keywords if kw.arg == "mode")]
    return any(isinstance(m, ast.Constant) and str(m.value)[:1] in "wxa" for m in modes)
