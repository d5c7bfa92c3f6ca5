"""A plain program instead of a notebook: no IPython, and an exception is its end.

``program`` is executed as the public harnesses of function benchmarks do it, in a namespace that
is no module; ``script`` as ``python main.py`` does it.
"""

import builtins
import linecache
import sys
import time
import types

from .shell import describe_error

__all__ = ["Program", "ProgramEnded", "Script", "make_program"]

_NAME = "<solution>"


class ProgramEnded(Exception):
    """Raised after a solution that raised: a program does not go on from there."""


class Program:
    """Stands where an IPython shell would.

    ``__name__`` in it is ``builtins``, as it is for ``exec`` in an empty dictionary.
    """

    def __init__(self):
        self.user_ns = {"__builtins__": builtins.__dict__}
        self.ast_transformers = []
        self.exit_asked = False
        self.refused = []
        self.on_exit = None

    def transform_cell(self, source):
        """Return the source: there are no magics."""
        return source

    def transform_ast(self, tree):
        """Return the tree."""
        return tree

    def run(self, source):
        """Run the solution; returns a description of what it raised, or None, and its seconds."""
        # For tracebacks and `inspect`; looked up by name, so the loader's file stays hidden.
        linecache.cache[_NAME] = (len(source), None, source.splitlines(True), _NAME)
        started_s = time.monotonic()
        error = None
        try:
            exec(compile(source, _NAME, "exec", dont_inherit=True), self.user_ns)
        except BaseException as exc:
            error = exc
        wall_s = time.monotonic() - started_s
        if error is None or self.is_good_end(error):
            return None, wall_s
        return describe_error(error), wall_s

    def is_good_end(self, error):
        """Whether an exception ends a program as it should end: none does here."""
        return False


class Script(Program):
    """Runs as the main module."""

    def __init__(self):
        super().__init__()
        module = types.ModuleType("__main__")
        module.__file__ = "main.py"
        module.__builtins__ = builtins
        sys.modules["__main__"] = module
        sys.argv[:] = ["main.py"]
        self.user_ns = module.__dict__

    def is_good_end(self, error):
        """Whether the interpreter's exit code would be 0."""
        return isinstance(error, SystemExit) and error.code in (None, 0)


def make_program(runs_as):
    """Return what runs programs of a kind."""
    return Script() if runs_as == "script" else Program()
