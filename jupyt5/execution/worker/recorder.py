"""Notes which files the notebook's own cells open, so that a problem set keeps just those."""

import os
import sys

__all__ = ["Recorder"]

_EVENTS = frozenset(("open", "sqlite3.connect", "os.listdir", "os.scandir"))


class Recorder:
    """Files opened and folders listed inside one folder, from its making to ``stop``."""

    def __init__(self, root):
        self._root = os.path.realpath(root)
        self._found = set()
        self._active = True
        sys.addaudithook(self._note)

    def stop(self):
        """Note nothing more; an audit hook itself cannot be removed."""
        self._active = False

    def list_paths(self):
        """Return existing paths relative to the folder; those of listed folders end in ``/``."""
        return sorted(self._found)

    def _note(self, event, arguments):
        if not self._active or event not in _EVENTS:
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes)):
            return
        full = os.path.realpath(os.path.join(os.getcwd(), os.fsdecode(path)))
        if not full.startswith(self._root + "/"):
            return
        relative = full[len(self._root) + 1 :]
        # A file that a cell is about to make is not one that it needs.
        if os.path.isfile(full):
            self._found.add(relative)
        elif os.path.isdir(full):
            self._found.add(relative + "/")
