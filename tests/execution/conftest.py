"""Runs small notebooks on the real engine, in the sandbox that this machine has."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.engine import Found, Judged, run_job
from jupyt5.execution.interpreters import Interpreter, find_interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Job, Limits, Task
from jupyt5.execution.sandbox import Sandbox, choose_sandbox
from jupyt5.execution.scratch import remove_folder
from jupyt5.execution.setting import Setting
from jupyt5.execution.views import make_view

GRADED = "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"
# Generous, for machines with more to do than this.
TIMEOUT_S = 30.0


@pytest.fixture(scope="session")
def interpreter() -> Interpreter:
    return find_interpreter(None)


@pytest.fixture(scope="session")
def sandbox(interpreter: Interpreter) -> Sandbox:
    try:
        return choose_sandbox("auto", interpreter)
    except ExecutionError:
        return choose_sandbox("none", interpreter)


@pytest.fixture
def walls(sandbox: Sandbox) -> Sandbox:
    """The sandbox, where there is one."""
    if not sandbox.isolates:
        pytest.skip("This machine offers no sandbox.")
    return sandbox


@pytest.fixture(params=["fork", "kernel"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return request.param


def make_notebook(
    samples: Mapping[str, str] | Sequence[str],
    *,
    context: Sequence[str] = (),
    graded: str | Sequence[str] = GRADED,
    reference: str = "def add(a, b):\n    return a + b\n",
    **fields: object,
) -> Job:
    """Return a notebook with one problem, called ``t``, and samples for it."""
    if not isinstance(samples, Mapping):
        samples = {str(idx): source for idx, source in enumerate(samples)}
    graded = [graded] if isinstance(graded, str) else list(graded)
    at = len(context)
    task = Task(
        name="t",
        cell_idx=at,
        grading_idxs=tuple(range(at + 1, at + 1 + len(graded))),
        attempts=tuple(Attempt(key=key, source=source) for key, source in samples.items()),
        own_names=frozenset({"add"}),
        **fields,  # pyright: ignore[reportArgumentType]
    )
    return Job(cells=tuple(enumerate([*context, reference, *graded])), tasks=(task,), seed=7)


@contextmanager
def open_view(files: Mapping[str, str]) -> Iterator[Path]:
    """Make a view with these files in its work folder."""
    view_path = make_view(None)
    try:
        for name, text in files.items():
            (view_path / "jupyt5" / "work" / name).write_text(text)
        yield view_path
    finally:
        remove_folder(view_path)


@pytest.fixture(name="make_notebook", scope="session")
def make_notebook_here() -> Callable[..., Job]:
    return make_notebook


@pytest.fixture(scope="session")
def run(interpreter: Interpreter, sandbox: Sandbox) -> Callable[..., list[Found]]:
    """Run a job to its end; returns all that it yields."""

    def call(
        job: Job,
        *,
        isolation: Isolation = "fork",
        files: Mapping[str, str] | None = None,
        sandbox: Sandbox = sandbox,
        interpreter: Interpreter = interpreter,
        **limits: float,
    ) -> list[Found]:
        with open_view(files or {}) as view_path:
            setting = Setting(
                interpreter=interpreter,
                sandbox=sandbox,
                limits=Limits(**{"timeout_s": TIMEOUT_S, **limits}),  # pyright: ignore
                view_path=view_path,
                isolation=isolation,
            )
            return list(run_job(job, setting))

    return call


@pytest.fixture(scope="session")
def grade(run: Callable[..., list[Found]]) -> Callable[..., dict[str, Judged]]:
    """Judge samples of one problem; returns what is said of each, by its key."""
    notebook_fields = {"context", "graded", "reference", "forgives_context", "forced"}

    def call(samples: Mapping[str, str] | Sequence[str], **fields: object) -> dict[str, Judged]:
        own = {name: value for name, value in fields.items() if name in notebook_fields}
        rest = {name: value for name, value in fields.items() if name not in notebook_fields}
        job = make_notebook(samples, **own)  # pyright: ignore[reportArgumentType]
        found = run(job, **rest)
        judged = {one.key: one for one in found if isinstance(one, Judged)}
        assert sorted(judged) == sorted(attempt.key for attempt in job.tasks[0].attempts)
        return judged

    return call


@pytest.fixture(scope="session")
def list_descendants() -> Callable[[], dict[int, str]]:
    """Return a function: all processes below this one, dead ones too, with their states."""

    def call() -> dict[int, str]:
        parents: dict[int, tuple[int, str]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry)] = (int(fields[1]), fields[0])
        found: dict[int, str] = {}
        left = [os.getpid()]
        while left:
            parent = left.pop()
            children = {pid: state for pid, (own, state) in parents.items() if own == parent}
            found.update(children)
            left.extend(children)
        return found

    return call


@pytest.fixture(scope="session")
def wait_until() -> Callable[[Callable[[], object], float], bool]:
    """Return a function: waits until something is true; says whether it became so in time."""

    def call(condition: Callable[[], object], limit_s: float) -> bool:
        deadline_s = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.02)
        return True

    return call


@pytest.fixture
def view_path() -> Iterator[Path]:
    path = make_view(None)
    (path / "jupyt5" / "work" / "data.csv").write_text("x\n1\n2\n")
    yield path
    remove_folder(path)
