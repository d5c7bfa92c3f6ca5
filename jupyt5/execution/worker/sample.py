"""The life of a sample's process: walls, limits, the hypothesis, the grading cells, the proof."""

import ast
import contextlib
import json
import linecache
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time

from . import guard, linux, proof
from . import shell as shells
from .program import Program, ProgramEndedError

__all__ = [
    "REPORT_FD",
    "Plan",
    "Seeds",
    "copy_work_folder",
    "equip",
    "find_imports",
    "live",
    "seed_all",
    "tell_context",
]

# High enough to be free in any notebook, low enough for a lowered limit on open files.
REPORT_FD, _DETAIL_FD = 250, 251
_MARK_NAME = "<jupyt5>"
# A cell that wants the text of functions of its own.
_ASKS_FOR_TEXT = re.compile(r"\b(?:inspect|getsource\w*|linecache|doctest|\w*jit|numba)\b")


class Seeds:
    """The state of the random generators: a fork reseeds one of them."""

    def __init__(self):
        self._state = random.getstate()

    def restore(self, seed):
        """Put the state back; with a ``seed``, start all generators afresh from it."""
        random.setstate(self._state)
        if seed is not None:
            seed_all(seed)


def seed_all(seed):
    """Seed ``random`` and, where it is loaded, numpy's global generator."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % 2**32)


class Plan:
    """What is done in the samples of one problem, prepared before any of them exists.

    Args:
        shell: The IPython shell.
        task: The job's entry for the problem.
        sources: Text of each code cell by index.
        limits: The job's limits.
        sockets: Whether samples may make any.
    """

    def __init__(self, shell, task, sources, limits, sockets=True):
        self.shell = shell
        self.solution_idx = task["cell_idx"]
        self.grading_idxs = task["grading"]
        last = max(self.grading_idxs)
        self.between = {
            idx: sources[idx]
            for idx in range(self.solution_idx + 1, last)
            if idx in sources and idx not in self.grading_idxs
        }
        self.shows_texts = any(
            _ASKS_FOR_TEXT.search(sources.get(idx, "")) for idx in self.grading_idxs
        )
        self.codes = {}
        trees = []
        for idx in self.grading_idxs:
            self.codes[idx] = shells.compile_cell(shell, sources.get(idx, ""), name_cell(idx))
            trees.append(_parse(shell, sources.get(idx, "")))
        self.check = guard.make_check(shell, trees, task.get("own_names", ()))
        self.limits = limits
        self.filter = linux.make_filter(REPORT_FD, sockets)
        # Listed here: a forked process would pay for every name that it touches.
        package = __name__.partition(".")[0]
        self.own_modules = [name for name in sys.modules if name.partition(".")[0] == package]


def name_cell(idx):
    """Return the file name under which a grading cell is compiled."""
    return f"<grading cell {idx}>"


class _Story:
    """Where the sample is: told to people when it fails. Nothing rests on it."""

    def __init__(self, detail_fd):
        self.detail_fd = detail_fd
        self.stage, self.cell_idx = "solution", -1
        self.started_s = time.monotonic()

    def tell(self, kind, **fields):
        """Write one line of JSON."""
        line = json.dumps(dict(fields, kind=kind), default=str) + "\n"
        os.write(self.detail_fd, line.encode("utf-8", "replace"))


def live(source, pipes, enter, *, filtered, splits=False):
    """Run one hypothesis in this process, and end the process.

    Args:
        source: The solution cell.
        pipes: Descriptors to write to: report, detail, output, errors.
        enter: Called first; builds the walls and returns the ``Plan``. A fresh process runs its
            context cells there.
        filtered: Whether to install the system-call filter.
        splits: Whether what goes to stderr is kept apart from what goes to stdout.
    """
    try:
        _wire(pipes, splits)
        run(enter(), source, filtered)
    except BaseException as exc:
        # Before the hypothesis ran: the machine's fault, not the sample's.
        with contextlib.suppress(BaseException):
            _Story(_DETAIL_FD).tell("fault", text=f"{type(exc).__name__}: {exc}")
    finally:
        os._exit(0)


def equip(entry):
    """Give a sample what it alone finds: variables of the environment, files in its folder."""
    os.environ.update(entry.get("environment") or {})
    for name, text in (entry.get("files") or {}).items():
        with open(name, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)


def tell_context(cell_idx, error, wall_s, *, is_last):
    """Report how a context cell ended in a fresh process; end there if nothing can follow."""
    story = _Story(_DETAIL_FD)
    story.tell("cell", cell_idx=cell_idx, error=error, wall_s=wall_s)
    if is_last:
        story.tell("end")
        os._exit(0)


def find_imports(shell, source):
    """Return the modules that a cell imports, at any depth."""
    names = set()
    for node in ast.walk(_parse(shell, source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return sorted(names)


def copy_work_folder(parent):
    """Work in a copy of the current folder's tree; for machines without walls."""
    folder = tempfile.mkdtemp(prefix="s-", dir=parent)
    copy = os.path.join(folder, "work")
    shutil.copytree(".", copy, symlinks=True)
    os.chdir(copy)


def run(plan, source, filtered):
    """Run the hypothesis and the grading cells; report the proof or the failure."""
    story = _Story(_DETAIL_FD)
    _limit(plan.limits)
    linux.forbid_new_privileges()
    linux.hide_memory()
    if filtered and plan.filter is not None:
        linux.install_filter(plan.filter)
    # From here on, whatever goes wrong is the sample's own fault.
    secret_fd = proof.commit(REPORT_FD)
    shell = plan.shell
    shell.exit_asked = False
    shell.on_exit = _make_exit_note(REPORT_FD)
    guard.watch_events(REPORT_FD, shell.user_ns, os.path.dirname(__file__))
    codes, namespaces = _arrange(plan, source, story)
    _leave_no_name(plan.own_modules)
    texts = {} if plan.shows_texts else _hide_texts(plan)
    try:
        proof.prove(REPORT_FD, secret_fd, codes, namespaces)
    except BaseException as exc:
        linecache.cache.update(texts)  # the sample has failed: now for the traceback
        story.tell("failure", stage=story.stage, cell_idx=story.cell_idx, **_describe(exc))
        return
    finally:
        _flush()
    story.tell("end", wall_s=time.monotonic() - story.started_s)


def _hide_texts(plan):
    """Take the grading cells' text from where warnings, logging and tracebacks read lines."""
    names = [name_cell(idx) for idx in plan.grading_idxs]
    return {name: linecache.cache.pop(name) for name in names if name in linecache.cache}


def _leave_no_name(names):
    """Let no import lead to this package: it is over only when the sample is."""
    for name in names:
        sys.modules.pop(name, None)


def _arrange(plan, source, story):
    """Return the code objects to execute in order, with the namespace of each."""
    steps = {"solution": lambda: _run_solution(plan, source, story)}
    order = [("solution", None)]
    check = plan.check
    steps["check"] = lambda: check(REPORT_FD)
    order.append(("check", None))
    for idx in sorted(set(plan.between) | set(plan.grading_idxs)):
        steps[f"mark{idx}"] = _make_mark(story, idx)
        order.append((f"mark{idx}", None))
        if idx in plan.between:
            steps[f"between{idx}"] = _make_between(plan, idx)
            order.append((f"between{idx}", None))
            continue
        code, awaits = plan.codes[idx]
        if awaits:
            steps[f"await{idx}"] = _make_awaited(plan.shell, code)
            order.append((f"await{idx}", None))
        else:
            order.append((None, code))
    order.append(("check", None))
    own = {"__builtins__": {}}
    own.update(steps)
    codes = tuple(
        code if name is None else compile(f"{name}()", _MARK_NAME, "exec") for name, code in order
    )
    user_ns = plan.shell.user_ns
    return codes, tuple(user_ns if name is None else own for name, _ in order)


def _run_solution(plan, source, story):
    is_program = isinstance(plan.shell, Program)
    error, wall_s = plan.shell.run(source) if is_program else shells.run_cell(plan.shell, source)
    story.tell("solution", error=error, wall_s=wall_s)
    story.stage = "grading"
    if is_program and error is not None:
        raise ProgramEndedError


def _make_mark(story, idx):
    def mark():
        story.cell_idx = idx

    return mark


def _make_between(plan, idx):
    def run_between():
        shells.run_cell(plan.shell, plan.between[idx])

    return run_between


def _make_awaited(shell, code):
    import asyncio

    user_ns, evaluate, make_loop = shell.user_ns, eval, asyncio.new_event_loop

    def run_awaited():
        loop = make_loop()
        loop.run_until_complete(evaluate(code, user_ns))

    return run_awaited


def _make_exit_note(report_fd):
    def note():
        proof.report(report_fd, b"F", "exit asked")

    return note


def _wire(pipes, splits):
    report, detail, output, errors = pipes
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (errors if splits else output, 2)):
        os.dup2(source, target)
    os.dup2(report, REPORT_FD, inheritable=False)
    os.dup2(detail, _DETAIL_FD, inheritable=False)
    for fd in {nothing, *pipes} - {0, 1, 2, REPORT_FD, _DETAIL_FD}:
        os.close(fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _limit(limits):
    """Set limits, counted from what the process already has."""
    cpu_s = int(time.process_time() + limits["cpu_s"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, value in (
        (resource.RLIMIT_AS, _address_space_bytes() + limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NPROC, limits["num_processes"]),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def _address_space_bytes():
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 32


def _parse(shell, source):
    try:
        return ast.parse(shells.transform_cell(shell, source))
    except Exception:
        return ast.Module(body=[], type_ignores=[])


def _describe(error):
    try:
        return shells.describe_error(error)
    except BaseException:
        return {"name": type(error).__name__, "bases": [], "message": "", "traceback": ""}


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
