"""The Python that executes notebooks; it need not be the one that runs this program."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jupyt5.errors import ExecutionError

__all__ = ["Interpreter", "find_interpreter"]

# IPython 7.0 to 7.2 cannot run a cell under Python 3.8.
_OLDEST_PYTHON, _OLDEST_IPYTHON = (3, 8), (7, 3)
_MAX_REASON = 120
_PROBE_TIMEOUT_S = 120
# Runs under old interpreters, too.
_PROBE = """
import json, sys
found = {"version": list(sys.version_info[:3]), "prefixes": [sys.prefix, sys.base_prefix],
         "path": sys.path, "system": sys.platform}
try:
    import IPython
    found["ipython"] = IPython.__version__
except ImportError:
    pass
try:
    from importlib import metadata
    packages = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name and name.lower() not in packages:
            tops = (one.read_text("top_level.txt") or "").split()
            if not tops and one.files:
                tops = sorted({str(f).split("/")[0] for f in one.files if str(f).endswith(".py")})
                tops = [top[:-3] if top.endswith(".py") else top for top in tops]
            packages[name.lower()] = [one.version, tops]
    found["packages"] = packages
except ImportError:
    pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python with IPython, and what verdicts depend on in it.

    Attributes:
        path: The executable.
        version: E.g. ``3.9.18``.
        packages: Version of each installed distribution, by lower-case name.
        owners: Distributions by the top-level module that they install.
        shown_paths: Folders that must be visible for it to work.
    """

    path: Path
    version: str
    packages: Mapping[str, str] = field(repr=False)
    owners: Mapping[str, tuple[str, ...]] = field(repr=False)
    shown_paths: tuple[Path, ...] = field(repr=False)


def find_interpreter(path: Path | None = None) -> Interpreter:
    """Ask an interpreter what it is.

    Args:
        path: The executable; None for the one that runs this.

    Raises:
        ExecutionError: If it cannot be run, is too old, or has no IPython.
    """
    chosen = Path(os.path.abspath(path or sys.executable))
    found = _probe(chosen)
    version = tuple(cast("list[int]", found["version"]))
    shown = ".".join(str(part) for part in version)
    if version < _OLDEST_PYTHON or found.get("system") != "linux":
        message = f"{chosen} is Python {shown} on {found.get('system')}; 3.8 on Linux is needed."
        raise ExecutionError(message)
    ipython = str(found.get("ipython") or "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", ipython)[:2])
    if numbers < _OLDEST_IPYTHON:
        message = (
            f"{chosen} has {'IPython ' + ipython if ipython else 'no IPython'}; 7.3 or newer is "
            f"needed. Install it: {chosen} -m pip install ipython"
        )
        raise ExecutionError(message)
    packages = cast("dict[str, tuple[str, list[str]]]", found.get("packages") or {})
    owners: dict[str, list[str]] = {}
    for name, (_, modules) in packages.items():
        for module in modules:
            owners.setdefault(module, []).append(name)
    return Interpreter(
        chosen,
        shown,
        {name: release for name, (release, _) in sorted(packages.items())},
        {module: tuple(sorted(names)) for module, names in owners.items()},
        _find_shown(chosen, found),
    )


def _say_why(exc: Exception) -> str:
    """Return one short line: what is no Python may answer with the whole probe."""
    if isinstance(exc, subprocess.TimeoutExpired):
        return f"it did not answer in {_PROBE_TIMEOUT_S} s"
    if isinstance(exc, OSError) and exc.strerror:
        return exc.strerror
    if isinstance(exc, subprocess.CalledProcessError):
        *_, line = ["", *str(exc.stderr).strip().splitlines()]
        shown = line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]} …"
        return shown or f"exit code {exc.returncode}"
    return "it did not answer as a Python does"


def _probe(path: Path) -> dict[str, object]:
    try:
        done = subprocess.run(
            [path, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
            cwd="/",
        )
        return cast("dict[str, object]", json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as exc:
        message = (
            f"{path} cannot be used as the interpreter of notebooks: {_say_why(exc)}. "
            "Give the path of a python executable to --python."
        )
        raise ExecutionError(message) from exc


def _find_shown(path: Path, found: Mapping[str, object]) -> tuple[Path, ...]:
    texts = [
        *cast("list[str]", found["prefixes"]),
        *(entry for entry in cast("list[str]", found["path"]) if entry.startswith("/")),
        # A virtual environment's python is a link, maybe to a link: each place counts.
        str(path.parent),
        str(path.resolve().parent),
    ]
    folders = {Path(text) for text in texts if text != "/"}
    folders |= {folder.resolve() for folder in folders}
    return tuple(sorted(folder for folder in folders if folder.is_dir()))
