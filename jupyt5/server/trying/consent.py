"""Who has allowed candidates to be tried in which notebook: off until somebody says so."""

import json
import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import cast

__all__ = ["ConsentRecord"]

logger = logging.getLogger(__name__)


class ConsentRecord:
    """Consents by user and notebook path, in one file that only the server's account can read.

    Args:
        path: The file; it is made with the first consent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def allows(self, user: str, notebook_path: str) -> bool:
        """Whether this user has allowed it for this notebook."""
        return notebook_path.strip("/") in self._read().get(user, [])

    def set(self, user: str, notebook_path: str, *, allowed: bool) -> None:
        """Note or withdraw a consent.

        Raises:
            OSError: If the file cannot be written.
        """
        with self._lock:
            record = self._read()
            paths = set(record.get(user, []))
            (paths.add if allowed else paths.discard)(notebook_path.strip("/"))
            record[user] = sorted(paths)
            self._write({name: paths for name, paths in sorted(record.items()) if paths})

    def _read(self) -> dict[str, list[str]]:
        """Return the record; a damaged one allows nothing."""
        try:
            found: object = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as exc:
            logger.warning("%s cannot be read, so nothing is allowed: %s", self._path, exc)
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            str(user): [str(path) for path in cast("list[object]", paths)]
            for user, paths in cast("dict[str, object]", found).items()
            if isinstance(paths, list)
        }

    def _write(self, record: dict[str, list[str]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp: nobody else can read it.
        fd, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as stream:
                json.dump(record, stream, indent=1)
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
