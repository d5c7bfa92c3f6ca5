"""Watches a sample from inside: refuses or reports what honest code does not do.

Everything reported here is a flag for people and for ``--strict``; the proof does not rest on it.
"""

import ast
import builtins
import operator
import sys
import types

from . import proof

__all__ = ["Integrity", "watch_events"]

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
    # All names are the closure's: nothing here is looked up where a sample can change it.
    refused, reported, restricted, helpers = _REFUSED, _REPORTED, _RESTRICTED, _HELPERS
    send, kind_of, text, data = proof.report, type, str, bytes
    busy, seen, hidden_name = [], set(), "mem"
    permission_error = PermissionError

    def is_own(frame):
        while frame is not None and frame.f_code.co_filename.endswith(helpers):
            frame = frame.f_back
        if frame is None:
            return False
        filename = frame.f_code.co_filename
        if frame.f_globals is user_ns:
            return True
        return (filename[:1] == "<" and filename[:8] != "<frozen ") or filename[:5] == "/tmp/"

    def tell(flag):
        if flag not in seen:
            seen.add(flag)
            send(report_fd, b"F", flag)

    def hook(event, arguments):
        if busy:
            return
        if event in refused:
            tell(refused[event])
            raise permission_error(f"{event} is refused in a sample")
        if event in reported:
            busy.append(1)
            try:
                own = is_own(get_frame(1))
            finally:
                busy.clear()
            if own:
                tell(reported[event])
        elif event == "open" or event == "os.symlink" or event == "os.link":
            path = arguments[0]
            if kind_of(path) is data:
                path = path.decode("latin-1")
            if kind_of(path) is text and path.rpartition("/")[2] == hidden_name:
                tell("suspect: native memory")
                raise permission_error(f"{path} is refused in a sample")
        elif event == "object.__setattr__" or event == "object.__getattr__":
            if arguments[1] not in restricted:
                return
            busy.append(1)
            try:
                own = is_own(get_frame(1))
            finally:
                busy.clear()
            if own and not (event == "object.__getattr__" and arguments[1] == "f_code"):
                tell("suspect: interpreter internals")

    return hook


def _make_comparer(all_of, each, same):
    # Thousands of names a sample: the loop is C's, by functions that no sample can replace.
    def is_unchanged(mapping, keys, values):
        return all_of(each(same, each(mapping.get, keys), values))

    return is_unchanged


_is_unchanged = _make_comparer(all, map, operator.is_)


class Integrity:
    """What grading relies on, as it was before the hypothesis: helpers, builtins, the shell.

    Args:
        shell: The IPython shell.
        trees: Parsed grading cells.
        own_names: Names that the reference solution binds, too; those may change.
    """

    def __init__(self, shell, trees, own_names):
        self._shell = shell
        self._counts = [len(type.__subclasses__(base)) for base in _PLAIN_BASES]
        self._transformers = list(shell.ast_transformers)
        self._watched = []
        self._codes = []
        self._names = []
        self._told = set()
        self._known = {id(shell.user_ns)}
        for kind in type(shell).__mro__[:-1]:
            self._watch_dict(kind, kind.__dict__, "suspect: shell changed")
        self._watch_dict(builtins, builtins.__dict__, "suspect: assertion changed")
        user_ns = shell.user_ns
        self._builtins = user_ns.get("__builtins__")
        names = set()
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    names.add(node.id)
                elif isinstance(node, ast.Attribute):
                    self._watch_value(_resolve(node, user_ns))
        for name in sorted(names - set(own_names)):
            value = user_ns.get(name, builtins.__dict__.get(name))
            if callable(value) or isinstance(value, types.ModuleType):
                self._names.append((name, name in user_ns, value))
            self._watch_value(value)

    def check(self, report_fd):
        """Report what differs from before. Costs well under a millisecond."""
        shell, user_ns = self._shell, self._shell.user_ns
        flags = set()
        for mapping, keys, values, flag in self._watched:
            if not _is_unchanged(mapping, keys, values):
                flags.add(flag)
        for function, code in self._codes:
            if function.__code__ is not code:
                flags.add("suspect: test helper replaced")
        for name, was_there, value in self._names:
            now = user_ns.get(name, value) if was_there else user_ns.get(name)
            if now is not (value if was_there else None):
                flags.add("suspect: test helper replaced")
        own = shell.__dict__
        if any(part in own for part in _SHELL_PARTS):
            flags.add("suspect: shell changed")
        if list(shell.ast_transformers) != self._transformers:
            flags.add("suspect: shell changed")
        if user_ns.get("__builtins__") is not self._builtins:
            flags.add("suspect: assertion changed")
        if self._finds_comparisons():
            flags.add("suspect: comparison overridden")
        for flag in sorted(flags - self._told):
            self._told.add(flag)
            proof.report(report_fd, b"F", flag)

    def _finds_comparisons(self):
        """Whether a class made since then decides comparisons by code of the notebook's own."""
        user_ns = self._shell.user_ns
        for base, count in zip(_PLAIN_BASES, self._counts):
            for kind in type.__subclasses__(base)[count:]:
                functions = [kind.__dict__.get(name) for name in _COMPARISONS]
                if any(_is_own(function, kind, user_ns) for function in functions):
                    return True
        return False

    def _watch_value(self, value):
        if isinstance(value, types.ModuleType):
            self._watch_dict(value.__dict__, value.__dict__)
        elif isinstance(value, types.FunctionType):
            self._codes.append((value, value.__code__))
            self._watch_dict(value.__globals__, value.__globals__)
        elif value is not None and not isinstance(value, (types.BuiltinFunctionType, str)):
            kind = value if isinstance(value, type) else type(value)
            for base in kind.__mro__[:-1]:
                if base.__flags__ & _HEAP_TYPE:
                    self._watch_dict(base, base.__dict__)
                    module = sys.modules.get(base.__module__)
                    if module is not None:
                        self._watch_dict(module.__dict__, module.__dict__)

    def _watch_dict(self, owner, mapping, flag="suspect: test helper replaced"):
        if id(owner) in self._known:
            return
        self._known.add(id(owner))
        found = {key: value for key, value in list(mapping.items()) if callable(value)}
        self._watched.append((mapping, tuple(found), tuple(found.values()), flag))


def _is_own(function, kind, user_ns):
    if getattr(function, "__globals__", None) is not user_ns:
        return False
    # A dataclass compares its fields, by code that the standard library wrote.
    made = function.__code__.co_filename == "<string>" and "__dataclass_fields__" in kind.__dict__
    return not made


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
