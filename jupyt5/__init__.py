"""JuPyT5: a notebook assistant, its model and its benchmark.

The package root imports nothing heavy; take what you need from its modules, e.g.
``from jupyt5.notebook import read_notebook``.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
