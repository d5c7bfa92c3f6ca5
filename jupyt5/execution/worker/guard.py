"""Watches a sample from inside: refuses or reports what honest code does not do.

Everything reported here is a flag for people and for ``--strict``; the proof does not rest on it.
"""

import ast
import asyncio
import builtins
import operator
import sys
import types

from . import proof
from .versions import DictVersion, SubclassVersion

__all__ = ["make_check", "watch_events"]

# Functions below find builtins here, not where a sample can change them.
__builtins__ = dict(vars(builtins))

_HELPER_FLAG = "suspect: test helper replaced"
_SHELL_FLAG = "suspect: shell changed"
_ASSERTION_FLAG = "suspect: assertion changed"
# Refused, whoever asks: with them pure Python reaches objects that nothing leads to, or jumps.
_REFUSED = {
    "gc.get_objects": "suspect: interpreter internals",
    "gc.get_referrers": "suspect: interpreter internals",
    "gc.get_referents": "suspect: interpreter internals",
    "sys.settrace": "suspect: interpreter internals",
    "sys.setprofile": "suspect: interpreter internals",
    "sys.monitoring.register_callback": "suspect: interpreter internals",
    "sys._current_frames": "suspect: interpreter internals",
    "sys._current_exceptions": "suspect: interpreter internals",
}
# Reported where the sample's own code asks.
_REPORTED = {
    "sys._getframe": "suspect: interpreter internals",
    "sys._getframemodulename": "suspect: interpreter internals",
    "sys.addaudithook": "suspect: interpreter internals",
    "code.__new__": "suspect: native memory",
    "marshal.loads": "suspect: native memory",
    "ctypes.dlopen": "suspect: native memory",
    "ctypes.dlsym": "suspect: native memory",
    "ctypes.dlsym/handle": "suspect: native memory",
    "ctypes.addressof": "suspect: native memory",
    "ctypes.cdata": "suspect: native memory",
    "ctypes.cdata/buffer": "suspect: native memory",
    "ctypes.string_at": "suspect: native memory",
    "ctypes.wstring_at": "suspect: native memory",
    "ctypes.call_function": "suspect: native memory",
}
_RESTRICTED = frozenset(
    ("__code__", "__globals__", "__closure__", "tb_frame", "gi_frame", "gi_code", "f_code")
)
_HELPERS = ("/inspect.py", "/ctypes/__init__.py", "/ctypes/util.py", "/traceback.py")
_PLAIN_BASES = (object, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__")
_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class whose attributes can be changed
_SHELL_PARTS = (
    "run_cell",
    "run_code",
    "run_ast_nodes",
    "run_cell_magic",
    "run_line_magic",
    "transform_cell",
    "transform_ast",
    "showtraceback",
    "showsyntaxerror",
)


def watch_events(report_fd, user_ns, own_folder):
    """Add an audit hook (PEP 578) that cannot be removed.

    Args:
        report_fd: Where flags go.
        user_ns: Namespace of the notebook: code that runs in it is the sample's own.
        own_folder: Folder of this package, whose code is not the sample's.
    """
    sys.addaudithook(_make_hook(report_fd, user_ns, own_folder, sys._getframe))


def _make_hook(report_fd, user_ns, own_folder, get_frame):
    # All names are the closure's: nothing is looked up where a sample can change it.
    refused, reported, restricted = dict(_REFUSED), dict(_REPORTED), _RESTRICTED
    tell, names_memory = _make_teller(report_fd), _names_memory
    is_own = _make_is_own_frame(user_ns, own_folder)
    busy, permission_error = [], PermissionError

    def asks_itself():
        busy.append(1)
        try:
            return is_own(get_frame(2))
        finally:
            busy.clear()

    def hook(event, arguments):
        if busy:
            return
        if event in refused:
            tell(refused[event])
            raise permission_error(f"{event} is refused in a sample")
        if event in reported:
            if asks_itself():
                tell(reported[event])
        elif event == "os.fork" or event == "os.forkpty":
            # Whoever asks: a twin can try an answer out before this process gives it.
            tell("suspect: interpreter forked")
        elif event == "open" or event == "os.symlink" or event == "os.link":
            if names_memory(arguments[0]):
                tell("suspect: native memory")
                raise permission_error(f"{arguments[0]!r} is refused in a sample")
        elif event == "object.__setattr__" or event == "object.__getattr__":
            name = arguments[1]
            reads_code = name == "f_code" and event == "object.__getattr__"
            if name in restricted and not reads_code and asks_itself():
                tell("suspect: interpreter internals")

    return hook


def _make_teller(report_fd):
    send, told = proof.report, set()

    def tell(flag):
        if flag not in told:
            told.add(flag)
            send(report_fd, b"F", flag)

    return tell


def _make_is_own_frame(user_ns, own_folder):
    helpers = _HELPERS
    # An interpreter may itself be installed below /tmp, and so may this package.
    installed = (sys.prefix + "/", sys.base_prefix + "/", own_folder + "/")

    def is_own(frame):
        """Whether the code of a frame, helpers of the standard library aside, is the sample's."""
        while frame is not None and frame.f_code.co_filename.endswith(helpers):
            frame = frame.f_back
        if frame is None:
            return False
        filename = frame.f_code.co_filename
        if frame.f_globals is user_ns:
            return True
        if filename[:1] == "<":
            return filename[:8] != "<frozen "
        return filename[:5] == "/tmp/" and not filename.startswith(installed)

    return is_own


def _names_memory(path):
    """Whether a path ends in the name under which /proc offers a process's memory."""
    if path.__class__ is bytes:
        path = path.decode("latin-1")
    return path.__class__ is str and path.rpartition("/")[2] == "mem"


class _Snapshot:
    """What grading relies on: mappings with the callables in them, functions, and names."""

    def __init__(self, user_ns):
        self.user_ns = user_ns
        self.mappings, self.codes, self.names = [], [], []
        self._known = {id(user_ns)}

    def add_name(self, name):
        """Note what a name of the grading cells stands for."""
        value = self.user_ns.get(name, builtins.__dict__.get(name))
        if callable(value) or isinstance(value, types.ModuleType):
            self.names.append((name, self.user_ns.get(name)))
        self.add_value(value)

    def add_value(self, value):
        """Note a helper of the grading cells, with the module or class that it lives in."""
        if isinstance(value, types.ModuleType):
            self.add_mapping(value.__dict__, value.__dict__)
        elif isinstance(value, types.FunctionType):
            self.codes.append((value, value.__code__))
            self.add_mapping(value.__globals__, value.__globals__)
        elif value is not None and not isinstance(value, (types.BuiltinFunctionType, str)):
            kind = value if isinstance(value, type) else type(value)
            for base in kind.__mro__[:-1]:
                if base.__flags__ & _HEAP_TYPE:
                    self.add_mapping(base, base.__dict__)
                    module = sys.modules.get(base.__module__)
                    if module is not None:
                        self.add_mapping(module.__dict__, module.__dict__)

    def add_mapping(self, owner, mapping, flag=_HELPER_FLAG, absent=()):
        """Note all callables of a namespace, once; of ``absent`` names, that they are not there."""
        if id(owner) in self._known:
            return
        self._known.add(id(owner))
        found = {key: value for key, value in list(mapping.items()) if callable(value)}
        found.update((name, None) for name in absent if name not in mapping)
        is_same = DictVersion(mapping if isinstance(mapping, dict) else owner).is_same
        self.mappings.append((is_same, mapping, tuple(found), tuple(found.values()), flag))


def make_check(shell, trees, own_names):
    """Note what grading relies on, as it is before the hypothesis: helpers, builtins, the shell.

    Args:
        shell: The IPython shell.
        trees: Parsed grading cells.
        own_names: Names that the reference solution binds, too; those may change.

    Returns:
        A function of the report's descriptor that reports what differs. It is a closure, and
        calls nothing by a name that a sample could bind to something else.
    """
    snapshot = _Snapshot(shell.user_ns)
    for kind in type(shell).__mro__[:-1]:
        snapshot.add_mapping(kind, kind.__dict__, _SHELL_FLAG, _SHELL_PARTS)
    snapshot.add_mapping(builtins, builtins.__dict__, _ASSERTION_FLAG)
    names = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                snapshot.add_value(_resolve(node, shell.user_ns))
        if any(isinstance(node, _AWAITS) for node in ast.walk(tree)):
            # Somebody else's loop will run the cell.
            for kind in (asyncio.BaseEventLoop, asyncio.SelectorEventLoop, asyncio.Task):
                snapshot.add_value(kind)
    for name in sorted(names - set(own_names)):
        snapshot.add_name(name)
    return _close_over(
        shell,
        (tuple(snapshot.mappings), tuple(snapshot.codes), tuple(snapshot.names)),
        tuple(
            (SubclassVersion(base).is_same, base, len(type.__subclasses__(base)))
            for base in _PLAIN_BASES
        ),
    )


def _close_over(shell, noted, bases):
    mappings, codes, names = noted
    own, user_ns, transformers = shell.__dict__, shell.user_ns, list(shell.ast_transformers)
    own_builtins = user_ns.get("__builtins__")
    parts, comparisons, told = _SHELL_PARTS, _COMPARISONS, set()
    send, is_own = proof.report, _make_is_own()
    # Thousands of names a sample: the loop is C's.
    all_of, each, same, list_subclasses = all, map, operator.is_, type.__subclasses__

    def find_flags():
        for is_same, mapping, keys, values, flag in mappings:
            if not is_same() and not all_of(each(same, each(mapping.get, keys), values)):
                yield flag
        for function, code in codes:
            if function.__code__ is not code:
                yield _HELPER_FLAG
        for name, value in names:
            if user_ns.get(name) is not value:
                yield _HELPER_FLAG
        for part in parts:
            if part in own:
                yield _SHELL_FLAG
        if shell.ast_transformers != transformers:
            yield _SHELL_FLAG
        if user_ns.get("__builtins__") is not own_builtins:
            yield _ASSERTION_FLAG
        for is_same, base, count in bases:
            for kind in () if is_same() else list_subclasses(base)[count:]:
                for name in comparisons:
                    if is_own(kind.__dict__.get(name), kind, user_ns):
                        yield "suspect: comparison overridden"

    def check(report_fd):
        for flag in find_flags():
            if flag not in told:
                told.add(flag)
                send(report_fd, b"F", flag)

    return check


def _make_is_own():
    function_kind, modules, find = types.FunctionType, sys.modules, getattr

    def comes_from_module(function, user_ns):
        module = modules.get(function.__globals__.get("__name__"))
        is_module = module is not None and module.__dict__ is function.__globals__
        return is_module and function.__globals__ is not user_ns

    def is_own(value, kind, user_ns):
        """Whether a class's way to compare was not written by an installed module."""
        if value is None:
            return False
        if value.__class__ is function_kind:
            if comes_from_module(value, user_ns):
                return False
            # A dataclass compares its fields, by code that the standard library wrote.
            made = value.__code__.co_filename == "<string>"
            return not (made and "__dataclass_fields__" in kind.__dict__)
        if find(value, "__objclass__", None) is kind:
            return False  # a class written in C
        module = modules.get(kind.__module__)
        return module is None or find(module, kind.__name__, None) is not kind

    return is_own


def _resolve(node, user_ns):
    """Return what ``a.b.c`` means now, following modules and classes only; else None."""
    if isinstance(node, ast.Name):
        return user_ns.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    holder = _resolve(node.value, user_ns)
    if isinstance(holder, (types.ModuleType, type)):
        try:
            # Some modules load their parts when asked: better here than in every sample.
            return getattr(holder, node.attr, None)
        except Exception:
            return None
    return None
