"""Where jobs run: interpreter, walls, limits."""

from dataclasses import dataclass
from pathlib import Path

from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Isolation, Limits
from jupyt5.execution.sandbox import Sandbox

__all__ = ["Setting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where jobs run.

    Attributes:
        interpreter: Executes the cells.
        sandbox: The outer wall.
        limits: Of each sample and context cell.
        view_path: Folder with the notebook's files and a home, see ``views``.
        isolation: ``fork`` where that is sound, or always a fresh process (``kernel``).
        folder_path: Folder in which the cells run, seen as it is and overlaid, so that nothing in
            it changes; None for the view's work folder. Needs a sandbox.
    """

    interpreter: Interpreter
    sandbox: Sandbox
    limits: Limits
    view_path: Path
    isolation: Isolation = "fork"
    folder_path: Path | None = None
