"""What it costs to wall a forked sample off: its files, and the processes that it leaves behind.

One process, as large as asked, forks samples in several ways, in turn, so that a busy machine
slows all of them alike. Every way is a whole sample: fork, wall, one small write, exit, reap, tidy
up. Beside the times stand the outcomes of real attempts to get around each wall. Needs Linux and
user namespaces, no package. Prints JSON.

    python tests/benchmarks/bench_isolation.py
    python tests/benchmarks/bench_isolation.py --stack numpy,pandas,sklearn --rss-mb 300
"""

import argparse
import importlib
import json
import os
import random
import resource
import select
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import isolation_ways as ways
from isolation_ways import Body, PidNamespace, Place, Subreaper, run_sample

# Hostile processes end by themselves after this, so a wall that fails leaves nothing for long.
HOSTILE_S = 3.0
NUM_COMETS = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=60, help="samples of each way")
    parser.add_argument("--stack", default="", metavar="M,M", help="modules loaded before forking")
    parser.add_argument("--rss-mb", type=int, default=0, help="memory filled up to this size")
    parser.add_argument(
        "--folder", type=Path, help="where the data lies (default: a temporary one)"
    )
    args = parser.parse_args(argv)
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=args.folder))

    def load() -> dict[str, object]:
        for name in filter(None, args.stack.split(",")):
            importlib.import_module(name)
        ballast.extend(make_ballast(args.rss_mb))
        return {"rss_mb": read_rss_mb(), "threads": len(os.listdir("/proc/self/task"))}

    ballast = bytearray()
    report = {
        "python": sys.version.split()[0],
        "kernel": os.uname().release,
        "processes_on_machine": len(list(ways.iter_pids())),
        "rounds": args.rounds,
        "outside": call_apart(lambda: measure_outside(load, args.rounds)),
        "inside": call_apart(lambda: measure_inside(load, folder, args.rounds)),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    # What was mounted here went with the process that mounted it.
    shutil.rmtree(folder)
    return 0


def call_apart(body: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Call in a forked process: what it becomes must not change what is measured later."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, json.dumps(body()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        found: dict[str, object] = json.loads(stream.read())
    os.waitpid(pid, 0)
    return found


def measure_outside(load: Callable[[], dict[str, object]], rounds: int) -> dict[str, object]:
    """Measure the ways that need no namespace."""
    size, load_1_min = load(), os.getloadavg()[0]
    reaping = call_apart(lambda: check_reaping(Subreaper()))
    return {**size, "load": load_1_min, "reaping": reaping, "ms": measure(list_outside(), rounds)}


def measure_inside(
    load: Callable[[], dict[str, object]], folder: Path, rounds: int
) -> dict[str, object]:
    """Measure the ways that need namespaces, in a process that grew up inside."""
    ways.enter_namespaces()
    place, size, load_1_min = Place.make(folder), load(), os.getloadavg()[0]
    return {
        **size,
        "load": load_1_min,
        "reflink": ways.try_reflink(place),
        "files": check_files(place),
        "reaping": call_apart(lambda: check_reaping(PidNamespace())),
        "ms": measure(list_inside(place), rounds),
    }


def make_ballast(rss_mb: int) -> bytes:
    """Return as much as this process lacks to be as large as ``rss_mb``."""
    return os.urandom(1 << 20) * max(0, rss_mb - read_rss_mb())


def read_rss_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


# --- outcomes -----------------------------------------------------------------------------------


def check_files(place: Place) -> dict[str, dict[str, bool]]:
    """Try, in a sample of each way, what notebooks do with files."""
    target = place.root / "copies" / "tried"
    entries: dict[str, Body] = {
        "overlay": lambda: ways.enter_overlay(place, 10),
        "copy": lambda: ways.enter_copy(place, 10, target),
        "read-only + tmpfs": lambda: ways.enter_tmpfs(place, 10),
    }
    attempts: dict[str, Body] = {
        "writes beside its data": ways.write_note,
        "changes a data file": lambda: append("part0.csv"),
        "reads a file not seen before": lambda: append("seldom.csv", b""),
    }
    found: dict[str, dict[str, bool]] = {}
    for name, enter in entries.items():
        found[name] = {}
        for what, attempt in attempts.items():
            found[name][what] = succeeds(lambda enter=enter, attempt=attempt: (enter(), attempt()))
            shutil.rmtree(target, ignore_errors=True)
        size = (place.data[10] / "part0.csv").stat().st_size
        found[name]["data set as it was"] = size == ways.TOTAL_BYTES // 10
    return found


def succeeds(body: Body, run: Callable[[Body], None] = run_sample) -> bool:
    try:
        run(body)
    except RuntimeError:
        return False
    return True


def append(name: str, data: bytes = b"x") -> None:
    with open(name, "r+b" if data else "rb") as stream:
        stream.seek(0, os.SEEK_END)
        if data:
            stream.write(data)


def leave_daemon(environ: dict[str, str]) -> None:
    """Fork twice into a session of its own, as daemons do, and run a program."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(ways.SLEEP, ["sleep", str(HOSTILE_S)], environ)
        os._exit(0)


def leave_comets() -> None:
    """Eight processes that fork and end without pause, so none has an id for long."""
    end_s = time.monotonic() + HOSTILE_S
    for _ in range(NUM_COMETS):
        if os.fork() == 0:
            os.setsid()
            while time.monotonic() < end_s:
                if os.fork():
                    os._exit(0)
            os._exit(0)


def reach_parent() -> None:
    """Succeed where the sample can signal the process that judges it."""
    os.kill(os.getppid() or 1 << 21, 0)


def check_reaping(way: PidNamespace | Subreaper) -> dict[str, object]:
    """Let samples leave processes behind; what of them lives on a moment after the reaping?"""
    hostile: dict[str, Body] = {
        "double fork, setsid": lambda: leave_daemon(dict(os.environ)),
        "the same, cleared environment": lambda: leave_daemon({}),
        f"{NUM_COMETS} processes that fork and end": leave_comets,
    }
    told: dict[str, object] = {what: try_to_stay(way, do) for what, do in hostile.items()}
    told["can signal its judge"] = succeeds(reach_parent, way.run)
    return told


def try_to_stay(way: PidNamespace | Subreaper, body: Body) -> str:
    """Whether all that a sample left has let go of a pipe when its reaping is done."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    start_s = time.monotonic()
    way.run(body)
    took_ms = 1000 * (time.monotonic() - start_s)
    os.close(writer)
    gone = bool(select.select([reader], [], [], 0.2)[0])
    if not gone:
        select.select([reader], [], [], 2 * HOSTILE_S)
    os.close(reader)
    return f"{'all ended' if gone else 'SURVIVED'}, {took_ms:.0f} ms"


# --- times --------------------------------------------------------------------------------------


def list_outside() -> dict[str, Body]:
    """Ways that need no namespace; calling one is a whole sample."""
    subreaper = Subreaper()
    return {
        "bare fork": lambda: run_sample(lambda: None),
        "reaping: subreaper + marker": lambda: subreaper.run(lambda: None),
    }


def list_inside(place: Place) -> dict[str, Body]:
    """Ways that need namespaces, and the others beside them."""
    namespace = PidNamespace()
    ram, disk = place.root / "ram" / "copy", place.root / "copies" / "copy"

    def copied(num_files: int, target: Path) -> None:
        run_sample(lambda: (ways.enter_copy(place, num_files, target), ways.write_note()))
        shutil.rmtree(target)

    def overlaid(num_files: int, do: Body) -> Body:
        return lambda: (ways.enter_overlay(place, num_files), do())

    found: dict[str, Body] = {
        "bare fork": lambda: run_sample(lambda: None),
        "files: overlay": lambda: run_sample(overlaid(10, ways.write_note)),
        "files: overlay, one 5 MB data file changed": lambda: run_sample(
            overlaid(1, lambda: append("part0.csv"))
        ),
        "files: read-only + tmpfs": lambda: run_sample(
            lambda: (ways.enter_tmpfs(place, 10), ways.write_note(str(place.root / "scratch")))
        ),
        "reaping: PID namespace": lambda: namespace.run(lambda: None),
        "both: overlay, PID namespace": lambda: namespace.run(overlaid(10, ways.write_note)),
    }
    for num_files in place.data:
        found[f"files: copy {num_files}, in memory"] = lambda n=num_files: copied(n, ram)
        found[f"files: copy {num_files}, on disk"] = lambda n=num_files: copied(n, disk)
    return found


def measure(bodies: dict[str, Body], rounds: int) -> dict[str, dict[str, float]]:
    """Time all ways in turn, each round in another order.

    Returns:
        By way, in milliseconds: medians of wall and processor time (this process, its children and
        the kernel's work for them; a busy machine disturbs it less), and each less the bare fork
        of the same round; ``ratio`` is that of the median processor times.
    """
    walls: dict[str, list[float]] = {name: [] for name in bodies}
    cpus: dict[str, list[float]] = {name: [] for name in bodies}
    names, order = list(bodies), random.Random(0)
    for round_idx in range(-3, rounds):
        order.shuffle(names)
        for name in names:
            start_s, start_cpu_s = time.perf_counter(), read_cpu_s()
            bodies[name]()
            if round_idx >= 0:
                walls[name].append(1000 * (time.perf_counter() - start_s))
                cpus[name].append(1000 * (read_cpu_s() - start_cpu_s))
    base = statistics.median(cpus["bare fork"])
    return {
        name: {
            "wall": round(statistics.median(walls[name]), 2),
            "wall above": subtract(walls[name], walls["bare fork"]),
            "cpu": round(statistics.median(cpus[name]), 2),
            "cpu above": subtract(cpus[name], cpus["bare fork"]),
            "ratio": round(statistics.median(cpus[name]) / base, 2),
        }
        for name in bodies
    }


def subtract(values: Sequence[float], floors: Sequence[float]) -> float:
    pairs = zip(values, floors, strict=True)
    return round(statistics.median(value - floor for value, floor in pairs), 2)


def read_cpu_s() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


if __name__ == "__main__":
    sys.exit(main())
