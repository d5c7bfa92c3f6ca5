"""JuPyT5: a notebook assistant, its model and its benchmark.

The package root imports nothing heavy; take what you need from its modules, e.g.
``from jupyt5.notebook import read_notebook``. In IPython, ``%load_ext jupyt5`` adds ``%fill``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["__version__", "load_ipython_extension"]

__version__ = "0.1.0"


def load_ipython_extension(ipython: "InteractiveShell") -> None:
    """Add ``%fill`` and ``%%fill``; what ``%load_ext jupyt5`` calls."""
    from jupyt5.magics import FillMagics

    ipython.register_magics(FillMagics)
