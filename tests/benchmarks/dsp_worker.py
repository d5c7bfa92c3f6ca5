"""The worker with clocks in it, for ``bench_dsp_throughput.py``.

    python dsp_worker.py WORKER_FOLDER timed|floor

``timed`` adds to each sample's record how long its grading cells ran. ``floor`` runs, after each
sample, a bare fork from the same process and state: the same cells through the same shell's
``run_cell``, and nothing else: no walls, no limits, no pipes, no proof. The shell keeps our cheap
tracebacks, so the floor is lower than a plain IPython's.
"""

import importlib
import importlib.util
import os
import sys
import time

NAME = "_jupyt5_worker"
# What makes a process large: loaded at the fork, it is the data-science stack.
STACK = ("pandas", "scipy", "matplotlib.pyplot", "sklearn", "statsmodels", "torch", "sympy")


def main():
    """Load the worker and serve one job."""
    folder, mode = sys.argv[1:]
    own_folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [""] + [one for one in sys.path if os.path.abspath(one or ".") != own_folder]
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    server = importlib.import_module(NAME + ".server")
    add_grading_clock(server)
    note_stack(server)
    if mode == "floor":
        add_floors(server)
    sys.exit(server.serve())


def note_stack(server):
    """Tell which large modules are loaded where samples are forked."""
    run_sample = server.manager.run_sample

    def run_sample_with_note(*arguments, **options):
        started_s = time.perf_counter()
        found = run_sample(*arguments, **options)
        found["whole_s"] = time.perf_counter() - started_s
        found["stack"] = [name for name in STACK if name in sys.modules]
        return found

    server.manager.run_sample = run_sample_with_note


def add_grading_clock(server):
    """Have a sample tell the seconds from its first grading cell to the end of its last."""
    sample = server.sample
    arrange, tell = sample._arrange, sample._Story.tell
    ticks = []

    def arrange_with_ticks(*arguments):
        codes, namespaces = arrange(*arguments)
        # The first two steps are the solution and a check, the last one is a check.
        tick = compile("note(now())", "<tick>", "exec")
        place = {"__builtins__": {}, "note": ticks.append, "now": time.perf_counter}
        return (
            (*codes[:2], tick, *codes[2:-1], tick, codes[-1]),
            (*namespaces[:2], place, *namespaces[2:-1], place, namespaces[-1]),
        )

    def tell_with_ticks(self, kind, **fields):
        if kind in ("end", "failure") and ticks:
            fields["grading_s"] = (ticks[1:] or [time.perf_counter()])[0] - ticks[0]
        tell(self, kind, **fields)

    sample._arrange, sample._Story.tell = arrange_with_ticks, tell_with_ticks


def add_floors(server):
    """Make the server run a bare fork after every sample that ended by itself."""
    run_task, run_sample = server._Server._run_task, server.manager.run_sample
    place = {}

    def run_task_beside(self, task):
        place.update(server=self, task=task)
        run_task(self, task)

    def run_sample_beside(live, limits, walls, **options):
        found = run_sample(live, limits, walls, **options)
        if place and not options.get("cold") and found["ended"] == "said":
            source = live.__defaults__[0]["source"]
            found["floor_s"], found["cells_s"] = time_floor(place["server"], place["task"], source)
            found["null_s"] = time_null()
        return found

    server._Server._run_task = run_task_beside
    server.manager.run_sample = run_sample_beside


def time_floor(server, task, source):
    """Return the seconds of a bare fork that runs the cells, and of the cells inside it."""
    sources = [source] + [server._sources.get(idx, "") for idx in task["grading"]]
    read_fd, write_fd = os.pipe()
    started_s = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            begun_s = time.perf_counter()
            for one in sources:
                server._shell.run_cell(one, store_history=True)
            os.write(write_fd, repr(time.perf_counter() - begun_s).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    wall_s = time.perf_counter() - started_s
    os.close(write_fd)
    cells_s = float(os.read(read_fd, 64) or 0)
    os.close(read_fd)
    return wall_s, cells_s


def time_null():
    """Return the seconds of a child that ends at once."""
    started_s = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return time.perf_counter() - started_s


if __name__ == "__main__":
    main()
