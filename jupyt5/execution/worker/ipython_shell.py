"""An IPython shell without a terminal."""

import inspect
import types

from IPython.core import interactiveshell
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from .shell import Quiet, ask_nobody

__all__ = ["Shell", "make_shell"]


class Shell(Quiet, InteractiveShell):
    """The shell of a worker of our own."""


def make_shell():
    """Return the one shell of this process, with no history file and nobody to ask."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.autocall = 0
    config.InteractiveShell.banner1 = ""
    if hasattr(interactiveshell, "removed_co_newlocals"):
        interactiveshell.removed_co_newlocals = _drop_new_locals
    shell = Shell.instance(config=config)
    shell.prepare()
    ask_nobody()
    return shell


def _drop_new_locals(function):
    """Run in the surrounding scope: what old IPython needs for ``await``, and fails at in 3.8."""
    code = function.__code__
    code = code.replace(co_flags=code.co_flags & ~inspect.CO_NEWLOCALS)
    return types.FunctionType(code, function.__globals__, function.__name__)
