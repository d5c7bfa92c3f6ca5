"""Run every check of `make test`, all of them even when one fails, and print a summary.

Standard library only. `make test` and `.ci/run` call it; names on the command line pick checks:

    .venv/bin/python scripts/run_checks.py lint types unit
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
UI = ROOT / "labextension"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The line in which a test runner counts its tests: pytest's last line, jest's "Tests: ...".
CLOSING_LINE = re.compile(
    r"^=+ .*\b(passed|failed|error|skipped|deselected|no tests ran)\b.* =+$|^Tests:\s"
)
ANSI_CODE = re.compile(r"\x1b\[[0-9;]*m")
KINDS = ("slow", "kernel", "browser", "gpu", "network")


@dataclass(frozen=True, slots=True)
class Check:
    """One command of the whole, with the name it is picked by."""

    name: str
    group: str
    command: tuple[str, ...]
    cwd: Path = ROOT


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check ended; `closing` is the line in which its test runner counted."""

    check: Check
    exit_code: int
    wall_s: float
    closing: str


def marked(kind: str) -> tuple[str, ...]:
    """The pytest command for the tests with one marker and none of those that need more."""
    others = " or ".join(other for other in KINDS if other not in (kind, "slow"))
    return ("pytest", "-m", f"{kind} and not ({others})")


# In an environment of their own, see setup_env.py.
CURATION_TESTS = (
    str(ROOT / ".venv" / "curation" / "bin" / "python"),
    *("-m", "pytest", "-m", "", "tests/dsp/test_nbgrader.py"),
)
CHECKS = (
    Check("ruff check", "lint", ("ruff", "check", ".")),
    Check("ruff format", "lint", ("ruff", "format", "--check", ".")),
    Check("import layers", "lint", ("lint-imports",)),
    Check("TypeScript lint and types", "typescript-lint", ("jlpm", "run", "lint"), UI),
    Check("pyright", "types", ("pyright",)),
    Check("unit tests", "unit", ("pytest",)),
    Check("TypeScript tests", "typescript", ("jlpm", "run", "test"), UI),
    Check("kernel tests", "kernel", marked("kernel")),
    Check("curation tests", "curation", CURATION_TESTS),
    # Two processes: too many native libraries with threads of their own for one.
    Check("slow corpus tests", "slow", (*marked("slow"), "tests/corpus")),
    Check("slow tests", "slow", (*marked("slow"), "--ignore=tests/corpus")),
    Check("browser tests", "browser", marked("browser")),
)
GROUPS = tuple(dict.fromkeys(check.group for check in CHECKS))


def main(argv: list[str] | None = None) -> int:
    """Run the picked checks; 1 if any failed or could not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"default all: {' '.join(GROUPS)}"
    )
    groups = parser.parse_args(argv).groups or list(GROUPS)
    if unknown := sorted(set(groups) - set(GROUPS)):
        parser.error(f"unknown group {unknown[0]!r}. Known: {', '.join(GROUPS)}.")
    # A job in the background of a script ignores Ctrl-C, and so would the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    picked = [check for check in CHECKS if check.group in groups]
    chromium_missing = "browser" in groups and not find_chromium()
    outcomes = [
        run(check) for check in picked if not (check.group == "browser" and chromium_missing)
    ]
    summarise(outcomes)
    if chromium_missing:
        print(
            "The browser tests did not run: no Chromium was found on PATH. "
            "Install the Debian package `chromium`, then run `make test` again.",
            flush=True,
        )
    return int(chromium_missing or any(outcome.exit_code for outcome in outcomes))


def find_chromium() -> str | None:
    """Find a Chromium by its usual names."""
    return next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


def run(check: Check) -> Outcome:
    """Run one check, pass its output on as it comes and keep its closing line."""
    print(f"\n### {check.name}: {' '.join(check.command)}", flush=True)
    env = os.environ | {
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]),
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        "YARN_ENABLE_TELEMETRY": "0",
    }
    started = time.monotonic()
    closing = ""
    try:
        process = subprocess.Popen(
            check.command,
            cwd=check.cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as exc:
        print(f"{check.command[0]} could not be started: {exc}", flush=True)
        return Outcome(check, 127, 0.0, "not installed; run `make test`, which sets up first")
    with process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            plain = ANSI_CODE.sub("", line).strip()
            closing = plain if CLOSING_LINE.search(plain) else closing
    return Outcome(check, process.returncode, time.monotonic() - started, closing)


def summarise(outcomes: list[Outcome]) -> None:
    """Print one line a check, then the counts."""
    print("\n### Summary", flush=True)
    for outcome in outcomes:
        word = "passed" if outcome.exit_code == 0 else f"FAILED ({outcome.exit_code})"
        name = outcome.check.name
        print(f"{word:12} {outcome.wall_s:6.0f} s  {name:26} {outcome.closing}".rstrip())
    num_failed = sum(outcome.exit_code != 0 for outcome in outcomes)
    print(f"checks: {len(outcomes) - num_failed} passed, {num_failed} failed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
