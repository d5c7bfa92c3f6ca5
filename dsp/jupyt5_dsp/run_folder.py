"""The folder of a run: whose it is, and how long its sessions took."""

import json
import os
import platform
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic

__all__ = ["Clock", "claim_folder", "describe_kept", "list_sibling_runs"]

_RUN_FILE = "run.json"
_KEPT = {
    "samples.jsonl": "samples",
    "validation.jsonl": "findings on problems",
    "verdicts.jsonl": "verdicts",
}
# What older versions wrote, and what the digest of the problems says as well.
_NO_MATTER = {"settings.ks", "settings.limit"}


def claim_folder(out_path: Path, identity: Mapping[str, object]) -> None:
    """Make the folder, or make sure that it belongs to this very run.

    Raises:
        UsageError: If it holds a run with other settings, or something else.
        OSError: If it cannot be made or written to.
    """
    run_path = out_path / _RUN_FILE
    if run_path.is_file():
        before = json.loads(run_path.read_text(encoding="utf-8"))
        differing = dict(_iter_differences(before, json.loads(json.dumps(identity))))
        if differing.keys() - _NO_MATTER:
            if "settings.limit" in differing:
                differing.pop("settings.problem_set", None)  # two digests say nothing more
            named = "; ".join(f"{name}: {what}" for name, what in sorted(differing.items())[:5])
            message = (
                f"{out_path} holds a run with other settings ({named}). "
                "Choose another --out, or repeat the command as it was to go on with that run."
            )
            raise UsageError(message)
        return
    if out_path.is_dir() and any(out_path.iterdir()):
        message = f"{out_path} is not empty and holds no run. Choose another --out."
        raise UsageError(message)
    out_path.mkdir(parents=True, exist_ok=True)
    write_atomic(run_path, json.dumps(identity, indent=2) + "\n")


def list_sibling_runs(out_path: Path) -> list[Path]:
    """Return the folders of other runs beside a run's, which need not be there yet."""
    out_path = out_path.resolve()
    folders = (path.parent for path in out_path.parent.glob(f"*/{_RUN_FILE}"))
    return sorted(folder for folder in folders if folder != out_path)


def describe_kept(out_path: Path) -> str:
    """Return what the folder of an interrupted run holds; "" if there is none yet."""
    if not (out_path / _RUN_FILE).is_file():
        return ""
    counts: list[str] = []
    for name, what in _KEPT.items():
        path = out_path / name
        counts.append(f"{len(path.read_bytes().splitlines()) if path.is_file() else 0} {what}")
    return f"{out_path} keeps {', '.join(counts)}"


def _iter_differences(before: object, after: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, object]", before), cast("dict[str, object]", after)
        for key in old.keys() | new.keys():
            yield from _iter_differences(old.get(key), new.get(key), f"{name}.{key}".strip("."))
    elif before != after:
        yield name, f"{before} there, {after} now"


class Clock:
    """Times the phases of one session; a run that was broken off has several."""

    def __init__(self) -> None:
        self._session: dict[str, object] = {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": platform.node(),
            "num_cpus": os.cpu_count(),
        }
        self._start_s = time.monotonic()

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time the block under ``name``."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self._session[name] = round(time.monotonic() - start_s, 2)

    def write(self, path: Path) -> None:
        """Add the times of this call to the file."""
        self._session["total_s"] = round(time.monotonic() - self._start_s, 2)
        sessions: list[object] = []
        if path.is_file():
            sessions = cast("list[object]", json.loads(path.read_text(encoding="utf-8")))
        sessions.append(self._session)
        write_atomic(path, json.dumps(sessions, indent=2) + "\n")
