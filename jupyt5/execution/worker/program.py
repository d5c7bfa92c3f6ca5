"""A plain program instead of a notebook: no IPython, and an exception is its end.

``program`` is executed as the public harnesses of function benchmarks do it, in a namespace that
is no module; ``script`` as ``python main.py`` does it.
"""

import builtins
import linecache
import sys
import threading
import time
import types

from .shell import describe_error, flush

__all__ = ["ExitCodeError", "Program", "ProgramEndedError", "Script", "make_program"]


class ProgramEndedError(Exception):
    """Raised after a solution that raised: a program does not go on from there."""


class ExitCodeError(Exception):
    """Raised for a script that ended itself with another exit code than 0."""


class Program:
    """Stands where an IPython shell would.

    ``__name__`` in it is ``builtins``, as it is for ``exec`` in an empty dictionary.
    """

    name = "<solution>"

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
        # For tracebacks and `inspect`.
        linecache.cache[self.name] = (len(source), None, source.splitlines(True), self.name)
        started_s = time.monotonic()
        error = self._run(source)
        wall_s = time.monotonic() - started_s
        # Who has told of a failure is ended, whatever it still wanted to write.
        flush()
        return error, wall_s

    def _run(self, source):
        try:
            code = compile(source, self.name, "exec", dont_inherit=True)
        except BaseException as exc:
            # A null byte or too deep a nesting is no Python either.
            return dict(describe_error(exc), bases=["SyntaxError"])
        try:
            self.execute(code)
        except BaseException as exc:
            return _describe_raised(exc)
        return None

    def execute(self, code):
        """Execute the compiled program."""
        exec(code, self.user_ns)  # noqa: S102  in its sandbox


class Script(Program):
    """Runs as the main module does: its text in a file, its end when its threads have ended."""

    name = "main.py"

    def __init__(self):
        super().__init__()
        module = types.ModuleType("__main__")
        module.__file__ = self.name
        module.__builtins__ = builtins
        sys.modules["__main__"] = module
        sys.argv[:] = [self.name]
        self.user_ns = module.__dict__

    def _run(self, source):
        with open(self.name, "w", encoding="utf-8", errors="surrogatepass", newline="") as stream:
            stream.write(source)
        return super()._run(source)

    def execute(self, code):
        """Execute the compiled program; an exit code other than 0 is an error."""
        try:
            super().execute(code)
        except SystemExit as exc:
            if exc.code not in (None, 0):
                raise ExitCodeError(f"exit code {exc.code}") from None
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()


def _describe_raised(error):
    """Describe an exception of a program that could be compiled, so its syntax was right."""
    described = describe_error(error)
    if isinstance(error, SyntaxError):
        described = dict(described, name=f"run-time {described['name']}", bases=["Exception"])
    return described


def make_program(runs_as):
    """Return what runs programs of a kind."""
    return Script() if runs_as == "script" else Program()
