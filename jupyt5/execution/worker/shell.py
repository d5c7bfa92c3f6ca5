"""Runs cells as a kernel does, compiles grading cells, and says what went wrong in words.

Loads nothing of IPython itself: plain programs need none of it.
"""

import ast
import builtins
import contextlib
import linecache
import os
import re
import shlex
import sys
import time
import traceback

__all__ = [
    "Quiet",
    "ask_nobody",
    "compile_cell",
    "describe_error",
    "flush",
    "refuse_input",
    "run_cell",
    "transform_cell",
]

_TEXT_LIMIT = 4096
_TRACEBACK_FRAMES = 12
# They only time or capture; some IPython versions swallow what goes wrong inside them.
_WRAPPING_MAGIC = re.compile(r"\A(?:[ \t]*\n)*%%(?:time|capture|prun)\b[^\n]*(?:\n|\Z)")
_WRAPPED_LINE = re.compile(r"^([ \t]*)%time[ \t]+(?=\S)", re.MULTILINE)
_INSTALLERS = frozenset({"apt", "apt-get", "brew", "conda", "mamba", "npm", "pip", "pip3", "uv"})
_ALLOW_AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)


class Quiet:
    """Makes a shell keep tracebacks short and cheap, ask nobody anything, and install nothing."""

    def prepare(self):
        """Set the shell's own state; traitlets' classes want no other constructor."""
        self.shown_error = None
        self.exit_asked = False
        self.refused = []
        self.on_exit = _do_nothing

    def showtraceback(self, *args, **kwargs):
        """Note the exception; a rendered traceback would cost more than a whole sample."""
        self.shown_error = sys.exc_info()[1]
        text = _render_traceback(self.shown_error)
        print(text, file=sys.stderr)

    def showsyntaxerror(self, *args, **kwargs):
        """Note the exception."""
        self.showtraceback()

    def _format_exception_for_storage(self, exception, *args, **kwargs):
        """IPython 9 renders each exception for the history: 0.1 s and more, in every sample."""
        return {"ename": type(exception).__name__, "evalue": _say(exception), "traceback": []}

    def enable_gui(self, gui=None):
        """Accept any; there is no screen, and plots are drawn all the same."""

    def ask_exit(self):
        """Note what ``exit()`` and ``quit()`` ask for; like a kernel, go on until told."""
        self.exit_asked = True
        self.on_exit()

    def system(self, cmd):
        """Run a shell escape, unless it would install something."""
        command = self.var_expand(cmd, depth=1)
        if self._refuse(command):
            self.user_ns["_exit_code"] = 1
            return
        sys.stdout.flush()
        self.user_ns["_exit_code"] = os.system(command)

    def getoutput(self, cmd, split=True, depth=0):
        """Return what a shell escape prints, unless it would install something."""
        command = self.var_expand(cmd, depth=depth + 1)
        if self._refuse(command):
            command = "true"
        return super().getoutput(command.replace("{", "{{").replace("}", "}}"), split, depth)

    def run_line_magic(self, magic_name, line, *args, **kwargs):
        """Run a line magic; those that install something are refused."""
        if magic_name in _INSTALLERS:
            self._refuse(f"{magic_name} {line}")
            return None
        # IPython finds the caller's names by counting frames: this one is not to be counted.
        kwargs["_stack_depth"] = kwargs.get("_stack_depth", 1) + 1
        return super().run_line_magic(magic_name, line, *args, **kwargs)

    def _refuse(self, command):
        if not _installs(command):
            return False
        self.refused.append(command[:200])
        print(f"Refused, nothing is installed here: {command}", file=sys.stderr)
        return True


def ask_nobody():
    """Let ``input()`` fail at once."""
    builtins.input = refuse_input


def run_cell(shell, source):
    """Run a cell as a kernel does.

    Returns:
        A description of the exception, or None; wall seconds.
    """
    shell.shown_error = None
    started = time.monotonic()
    result = shell.run_cell(source, store_history=True)
    wall_s = time.monotonic() - started
    error = result.error_before_exec or result.error_in_exec or shell.shown_error
    flush()
    return (describe_error(error) if error is not None else None), wall_s


def compile_cell(shell, source, name):
    """Compile a cell without running it, with IPython's syntax and the transformers in force now.

    Returns:
        A code object; one that raises what is wrong with the cell if it cannot be compiled. The
        second value says whether it must be awaited.
    """
    try:
        text = transform_cell(shell, source)
        tree = shell.transform_ast(ast.parse(text))
    except SyntaxError as exc:
        stand_in = f"raise SyntaxError({str(exc)!r})"
        return compile(stand_in, name, "exec"), False
    except Exception as exc:
        stand_in = "raise RuntimeError({!r})".format(f"the cell cannot be read: {exc!r}")
        return compile(stand_in, name, "exec"), False
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        return compile(tree, name, "exec"), False
    except SyntaxError as exc:
        stand_in = f"raise SyntaxError({str(exc)!r})"
    with contextlib.suppress(SyntaxError):
        return compile(tree, name, "exec", _ALLOW_AWAIT), True
    return compile(stand_in, name, "exec"), False


def transform_cell(shell, source):
    """Return a grading cell as plain Python, without magics that only time or capture it."""
    return shell.transform_cell(_WRAPPED_LINE.sub(r"\1", _WRAPPING_MAGIC.sub("", source)))


def describe_error(error):
    """Return name, base names, message and short traceback of an exception, all as texts."""
    kind = type(error)
    return {
        "name": _cut(kind.__name__, 200),
        "bases": [base.__name__ for base in kind.__mro__[1:]][:10],
        "message": _cut(_say(error)),
        "traceback": _render_traceback(error),
        "errno": getattr(error, "errno", None) if isinstance(error, OSError) else None,
    }


def _say(error):
    try:
        return str(error)
    except Exception:
        return "(its text cannot be made)"


def _render_traceback(error):
    try:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not _is_machinery(frame.filename)]
        lines = ["Traceback (most recent call last):\n"]
        lines += traceback.format_list(own[:2] + own[2:][-_TRACEBACK_FRAMES:])
        lines += traceback.format_exception_only(type(error), error)
        return _cut("".join(lines))
    except Exception:
        return type(error).__name__


def _is_machinery(path):
    return os.path.dirname(path) == os.path.dirname(__file__) or path.endswith(
        "interactiveshell.py"
    )


def _installs(command):
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    names = [os.path.basename(word) for word in words if word != "sudo" and "=" not in word]
    if names[:1] and names[0].startswith("python") and names[1:2] == ["-m"]:
        names = names[2:]
    return bool(names) and names[0] in _INSTALLERS


def refuse_input(prompt=""):
    """Raise: nobody answers."""
    from IPython.core.error import StdinNotImplementedError

    raise StdinNotImplementedError("input() was called, but nobody is there to answer")


def flush():
    """Write what the streams hold back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _cut(text, limit=_TEXT_LIMIT):
    return text if len(text) <= limit else text[:limit] + "…"


def _do_nothing():
    return None
