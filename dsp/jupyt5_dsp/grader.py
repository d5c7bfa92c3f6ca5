"""Runs planned steps of a problem's notebook in fresh private folders, on a fresh kernel."""

import hashlib
import importlib.metadata
import logging
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from jupyt5.execution.kernel import Launch, Step, run_steps
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.verdicts import CellReply, Verdict, judge
from jupyt5.execution.workspace import open_workspace
from jupyt5_dsp.copies import Copies, plan_copies
from jupyt5_dsp.fingerprint import digest_files
from jupyt5_dsp.plans import Limits, forgives_context, plan_sample
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["Grader", "derive_seed", "describe_environment"]

_WARM_UP_TIMEOUT_S = 600
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)
_OWN_PACKAGES = ("ipykernel", "ipython", "jupyter_client", "nbclient")
# Outside the sandbox on purpose: it imports installed packages only, never a notebook's code.
_WARM_UP = """
import importlib, importlib.util, sys
for name in ["matplotlib.font_manager", *sys.argv[1:]]:
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec and "site-packages" in (spec.origin or ""):
            importlib.import_module(name)
    except BaseException:
        pass
"""

logger = logging.getLogger(__name__)


class Grader:
    """Runs cells of a problem set; a context manager, because it keeps a warm home folder.

    Safe to use from several threads at once.
    """

    def __init__(
        self, problem_set: ProblemSet, sandbox: Sandbox, limits: Limits, seed: int
    ) -> None:
        self.problem_set = problem_set
        self.sandbox = sandbox
        self.limits = limits
        self.seed = seed
        self.copies: Copies = plan_copies(problem_set)
        self._data_digests: dict[str, str] = {}
        self._home: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> "Grader":
        self._home = tempfile.TemporaryDirectory(prefix="j5-home-")
        _warm_up(Path(self._home.name), find_imports(self.problem_set))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._home:
            self._home.cleanup()

    def run(
        self,
        problem: Problem,
        steps: Sequence[Step],
        *,
        hash_seed: int,
        cancel: threading.Event | None = None,
    ) -> tuple[CellReply, ...]:
        """Run steps of the problem's notebook; see ``run_steps`` for what it raises."""
        root_path = self.problem_set.root_path
        source_path = root_path / problem.repository_name
        folder = PurePosixPath(problem.notebook_path).parent
        if problem.repository_name:
            folder = folder.relative_to(problem.repository_name)
        home_path = Path(self._home.name) if self._home else None
        with open_workspace(
            source_path,
            leave_out=self.copies.left_out,
            replaced=self.copies.blanked,
            home_template_path=home_path,
        ) as workspace:
            launch = Launch(workspace, self.sandbox, str(folder), hash_seed)
            return run_steps(steps, launch, cancel=cancel)

    def digest_data(self, problem: Problem) -> str:
        """Return a digest of the data files that the problem's notebook finds beside it."""
        name = problem.repository_name
        if name not in self._data_digests:
            root_path = self.problem_set.root_path / name
            kept = (
                path
                for path in root_path.rglob("*")
                if not path.is_symlink()
                and path not in self.copies.left_out
                and path not in self.copies.blanked
            )
            self._data_digests[name] = digest_files(root_path, kept)
        return self._data_digests[name]

    def grade(
        self, problem: Problem, source: str, *, cancel: threading.Event | None = None
    ) -> tuple[Verdict, float]:
        """Judge one solution cell.

        Returns:
            The verdict, and the wall seconds that the solution and grading cells took.
        """
        steps = plan_sample(self.problem_set, problem, source, self.limits)
        seed = derive_seed(self.seed, problem.task_id)
        replies = self.run(problem, steps, hash_seed=seed, cancel=cancel)
        verdict = judge(replies, forgive_context=forgives_context(problem))
        return verdict, sum(r.wall_s for r in replies if r.cell_idx >= problem.cell_idx)


def derive_seed(seed: int, name: str) -> int:
    """Return a 32-bit seed for one problem, the same on every machine and in every order."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")


def describe_environment(problem_set: ProblemSet, sandbox: Sandbox) -> dict[str, object]:
    """Return what verdicts depend on besides the problems: versions and the sandbox."""
    owners = importlib.metadata.packages_distributions()
    names = {name.partition(".")[0] for name in find_imports(problem_set)}
    packages = {owner for name in names for owner in owners.get(name, ())}
    versions: dict[str, str] = {}
    for package in sorted({*packages, *_OWN_PACKAGES}, key=str.lower):
        try:
            versions[package.lower()] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "packages": versions,
        "sandbox": sandbox.name,
        "isolation": "kernel",
    }


def find_imports(problem_set: ProblemSet) -> tuple[str, ...]:
    """Return the modules that the set's notebooks import, sorted."""
    found: set[str] = set()
    for notebook in problem_set.notebooks.values():
        for cell in notebook.cells:
            if cell.kind == "code":
                found.update(_IMPORT.findall(cell.source))
    return tuple(sorted(found))


def _warm_up(home_path: Path, module_names: Sequence[str]) -> None:
    """Import what notebooks import, once: compiles bytecode and makes matplotlib's font cache."""
    environment = {"HOME": str(home_path), "PATH": os.environ.get("PATH", "")}
    try:
        subprocess.run(
            [sys.executable, "-c", _WARM_UP, *module_names],
            cwd=home_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WARM_UP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        logger.warning("Importing the notebooks' packages took over %d s.", _WARM_UP_TIMEOUT_S)
