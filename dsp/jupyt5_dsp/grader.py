"""Runs attempts at a problem set's problems: one job a notebook, on private copies of its files."""

import hashlib
import logging
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from jupyt5.execution.engine import Found, Judged, Opened, run_job
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Limits
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.scratch import make_folder, remove_folder
from jupyt5.execution.setting import Setting
from jupyt5.execution.views import make_view
from jupyt5.notebook import Notebook
from jupyt5_dsp.copies import Copies, plan_copies
from jupyt5_dsp.fingerprint import digest_files
from jupyt5_dsp.plans import make_job, preload_of
from jupyt5_dsp.problems import Problem, ProblemSet

__all__ = ["Execution", "Grader", "derive_seed", "describe_environment"]

_WARM_UP_TIMEOUT_S = 600
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)
_OWN_PACKAGES = ("ipython", "numpy")
_OF_ALL_NOTEBOOKS = ("IPython", "matplotlib.font_manager")
# Outside the sandbox on purpose: it imports installed packages only, never a notebook's code.
_WARM_UP = """
import importlib, importlib.util, sys
for name in sys.argv[1:]:
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec and "site-packages" in (spec.origin or ""):
            importlib.import_module(name)
    except BaseException:
        pass
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How cells are executed.

    Attributes:
        interpreter: The Python that executes them.
        sandbox: The wall around it.
        limits: Of each sample and context cell.
        seed: All other seeds come from it.
        isolation: ``fork`` where that is sound, or always a fresh process (``kernel``).
        forced: Fork even where that is not sound.
    """

    interpreter: Interpreter
    sandbox: Sandbox
    limits: Limits
    seed: int = 0
    isolation: Isolation = "fork"
    forced: bool = False


class Grader:
    """Runs attempts at problems; a context manager, because it keeps copies of their files.

    Safe to use from several threads at once.
    """

    def __init__(self, problem_set: ProblemSet, execution: Execution) -> None:
        self.problem_set = problem_set
        self.execution = execution
        self.copies: Copies = plan_copies(problem_set)
        self._data_digests: dict[str, str] = {}
        self._views: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._home_path: Path | None = None

    def __enter__(self) -> "Grader":
        self._home_path = make_folder("home")
        interpreter = self.execution.interpreter
        used = {problem.notebook_path for problem in self.problem_set.problems}
        names = find_imports([self.problem_set.notebooks[path] for path in used])
        names += tuple(name for one in self.problem_set.problems for name in preload_of(one))
        if not self.problem_set.has_programs:
            names = (*_OF_ALL_NOTEBOOKS, *names)
        _warm_up(self._home_path, interpreter, names)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for view_path in self._views.values():
            remove_folder(view_path)
        if self._home_path:
            remove_folder(self._home_path)

    def run(
        self,
        attempts: Mapping[str, Sequence[Attempt]],
        *,
        seed: int | None = None,
        runs_all: bool = False,
        isolation: Isolation | None = None,
        cancel: threading.Event | None = None,
    ) -> Iterator[Found]:
        """Run attempts at problems of one notebook, or at a batch of programs; see ``run_job``.

        Where the set has a checker, it turns runs into verdicts.

        Args:
            attempts: By task id.
            seed: Of hash seeds and random generators; None for the notebook's own.
            runs_all: Whether the notebook is run to the end of its last problem in any case.
            isolation: Overrides the execution's.
            cancel: Set from outside to stop.
        """
        checker = self.problem_set.checker

        def run(wanted: Mapping[str, Sequence[Attempt]]) -> Iterator[Found]:
            problem = self.problem_set.find(next(iter(wanted)))
            own_seed = self.seed_of(problem) if seed is None else seed
            forced = self.execution.forced
            job = make_job(
                self.problem_set, wanted, seed=own_seed, runs_all=runs_all, forced=forced
            )
            return run_job(job, self._make_setting(problem, isolation), cancel=cancel)

        def execute(some: Mapping[str, Sequence[Attempt]]) -> Iterator[Judged]:
            return (one for one in run(some) if isinstance(one, Judged))

        yield from run(attempts) if checker is None else checker.judge(attempts, execute)

    def list_opened(
        self, problems: Sequence[Problem], *, cancel: threading.Event | None = None
    ) -> tuple[str, ...]:
        """Run a notebook with its references and say which files of its repository it opened.

        Args:
            problems: The notebook's problems.
            cancel: Set from outside to stop.

        Returns:
            Paths relative to the repository, sorted; folders that were listed end in ``/``.
        """
        nothing: dict[str, Sequence[Attempt]] = {problem.task_id: () for problem in problems}
        job = make_job(self.problem_set, nothing, seed=self.seed_of(problems[0]), runs_all=True)
        setting = self._make_setting(problems[0], "fork")
        found = run_job(replace(job, records_files=True), setting, cancel=cancel)
        return tuple(path for one in found if isinstance(one, Opened) for path in one.paths)

    def _make_setting(self, problem: Problem, isolation: Isolation | None) -> Setting:
        execution, checker = self.execution, self.problem_set.checker
        limits = execution.limits
        if checker is not None:
            limits = replace(limits, output_bytes=checker.output_bytes)
        return Setting(
            interpreter=execution.interpreter,
            sandbox=execution.sandbox,
            limits=limits,
            view_path=self._view_of(problem),
            isolation=isolation or execution.isolation,
        )

    def seed_of(self, problem: Problem) -> int:
        """Return the seed under which the problem's notebook runs: one process, one hash seed.

        All programs share one, for any of them may be served by the same process.
        """
        return derive_seed(self.execution.seed, self.name_process(problem))

    def name_process(self, problem: Problem) -> str:
        """Return the name from which seeds of the problem's processes are made."""
        return "programs" if self.problem_set.has_programs else problem.notebook_path

    def digest_data(self, problem: Problem) -> str:
        """Return a digest of the data files that the problem's notebook finds beside it."""
        name = problem.repository_name
        if self.problem_set.root_path is None:
            return ""
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

    def _view_of(self, problem: Problem) -> Path:
        root_path = self.problem_set.root_path
        name = problem.repository_name if root_path else ""
        with self._lock:
            if name not in self._views:
                self._views[name] = make_view(
                    root_path / name if root_path else None,
                    leave_out=self.copies.left_out,
                    replaced=self.copies.blanked,
                    home_template_path=self._home_path,
                )
            return self._views[name]


def derive_seed(seed: int, name: str) -> int:
    """Return a 32-bit seed for one name, the same on every machine and in every order."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:4], "big")


def describe_environment(problem_set: ProblemSet, execution: Execution) -> dict[str, object]:
    """Return what verdicts depend on besides the problems: versions and the sandbox."""
    interpreter = execution.interpreter
    # Of the whole set: a run over some of its problems is the same environment.
    imported = (
        *find_imports(list(problem_set.notebooks.values())),
        *(name for problem in problem_set.problems for name in preload_of(problem)),
    )
    names = {name.partition(".")[0] for name in imported}
    wanted = {owner for name in names for owner in interpreter.owners.get(name, ())}
    return {
        "python": interpreter.version,
        "system": platform.system(),
        "packages": {
            name: version
            for name, version in interpreter.packages.items()
            if name in wanted or name in _OWN_PACKAGES
        },
        "sandbox": execution.sandbox.name,
    }


def find_imports(notebooks: Sequence[Notebook]) -> tuple[str, ...]:
    """Return the modules that notebooks import, sorted."""
    found: set[str] = set()
    for notebook in notebooks:
        for cell in notebook.cells:
            if cell.kind == "code":
                found.update(_IMPORT.findall(cell.source))
    return tuple(sorted(found))


def _warm_up(home_path: Path, interpreter: Interpreter, module_names: Sequence[str]) -> None:
    """Import what notebooks import, once: compiles bytecode and makes matplotlib's font cache."""
    if not set(module_names) - sys.stdlib_module_names:
        return
    try:
        subprocess.run(
            [str(interpreter.path), "-c", _WARM_UP, *module_names],
            cwd=home_path,
            env={"HOME": str(home_path), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WARM_UP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        logger.warning("Importing the notebooks' packages took over %d s.", _WARM_UP_TIMEOUT_S)
