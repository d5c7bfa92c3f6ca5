"""Ways to wall a forked sample off, as ``bench_isolation.py`` measures them.

Three ways to give it its files, two to end the processes that it leaves behind. Linux; the kernel
is asked through libc.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_CHILD_SUBREAPER = 36
FICLONE = 0x40049409
MARKER = "JUPYT5_BENCH_SAMPLE"
TOTAL_BYTES = 5_000_000
SLEEP = shutil.which("sleep") or "/bin/sleep"
PATIENCE_S = 1.0

Body = Callable[[], object]
libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces() -> None:
    """Go on as a process with all rights in namespaces of its own; the caller's waits for it."""
    user_id, group_id = os.getuid(), os.getgid()
    check(libc.unshare(NEWUSER | NEWNS | NEWPID), "unshare: no user namespaces here")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user_id} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group_id} 1")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    # The first child is the namespace's init, the second one measures.
    for _ in range(2):
        pid = os.fork()
        if pid:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    mount("proc", "/proc", "proc")


def mount(
    source: str, target: Path | str, kind: str = "", flags: int = 0, options: str = ""
) -> None:
    texts = [text.encode() or None for text in (source, str(target), kind)]
    result = libc.mount(*texts, ctypes.c_ulong(flags), options.encode() or None)
    check(result, f"mount on {target}")


def check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@dataclass(frozen=True, slots=True)
class Place:
    """Folders of the measurement.

    Attributes:
        root: Holds all others.
        data: By number of files: folder with the notebook's data, 5 MB together, and one file
            more, which the notebook was not seen to open.
        names: By number of files: those that it opened.
    """

    root: Path
    data: dict[int, Path]
    names: dict[int, tuple[str, ...]]

    @staticmethod
    def make(root: Path) -> "Place":
        data: dict[int, Path] = {}
        names: dict[int, tuple[str, ...]] = {}
        for num_files in (1, 10, 100):
            folder = data[num_files] = root / f"data{num_files}"
            folder.mkdir()
            names[num_files] = tuple(f"part{idx}.csv" for idx in range(num_files))
            for name in names[num_files]:
                (folder / name).write_bytes(os.urandom(TOTAL_BYTES // num_files))
            (folder / "seldom.csv").write_text("1,2\n")
        for name in ("ram", "scratch", "work", "copies"):
            (root / name).mkdir()
        mount("tmpfs", root / "ram", "tmpfs", options="size=64m")
        return Place(root, data, names)


def run_sample(body: Body) -> None:
    """Fork, run ``body`` in the child, and wait for it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        message = f"a sample failed with status {status}"
        raise RuntimeError(message)


# --- three ways to give a sample its files ------------------------------------------------------


def enter_overlay(place: Place, num_files: int) -> None:
    """Private layer in memory over the data, seen at ``work``."""
    check(libc.unshare(NEWNS), "unshare")
    scratch = place.root / "scratch"
    mount("tmpfs", scratch, "tmpfs", options="size=64m")
    os.mkdir(scratch / "up")
    os.mkdir(scratch / "work")
    layers = f"lowerdir={place.data[num_files]},upperdir={scratch}/up,workdir={scratch}/work"
    mount("overlay", place.root / "work", "overlay", options=f"{layers},userxattr")
    os.chdir(place.root / "work")


def enter_copy(place: Place, num_files: int, target: Path) -> None:
    """Copies of the files that the notebook opened; whoever calls removes them."""
    os.mkdir(target)
    for name in place.names[num_files]:
        shutil.copyfile(place.data[num_files] / name, target / name)
    os.chdir(target)


def enter_tmpfs(place: Place, num_files: int) -> None:
    """The data, read-only, and an empty private folder beside it."""
    check(libc.unshare(NEWNS), "unshare")
    data = str(place.data[num_files])
    mount(data, data, flags=MS_BIND)
    mount("none", data, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    mount("tmpfs", place.root / "scratch", "tmpfs", options="size=64m")
    os.chdir(data)


def write_note(folder: str = ".") -> None:
    Path(folder, "note.txt").write_text("x = 1\n")


def try_reflink(place: Place) -> str:
    """Say whether the file system shares blocks between a file and its copy."""
    source, target = place.data[1] / "part0.csv", place.root / "clone"
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), FICLONE, old.fileno())
        except OSError as exc:
            return f"no ({errno.errorcode.get(exc.errno or 0, exc.errno)})"
        finally:
            target.unlink()
    return "yes"


# --- two ways to end what a sample leaves behind ------------------------------------------------


class PidNamespace:
    """A process namespace a sample: all in it ends with its init."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def run(self, body: Body) -> None:
        """Run one sample and end all that it started."""
        check(libc.unshare(NEWPID), "unshare")
        # The first process in is its init. It is not forked: a copy of this process costs more.
        init = os.posix_spawn(SLEEP, ["sleep", "2147483647"], {})
        try:
            run_sample(body)
        finally:
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
            # Without this the next sample could not have a namespace: its parent's init is dead.
            check(libc.setns(self._own, NEWPID), "setns")


class Subreaper:
    """Orphans come to this process; they and whoever bears the marker are killed."""

    def __init__(self) -> None:
        check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
        self._own = os.getpid()

    def run(self, body: Body) -> None:
        """Run one sample and end what can be found of it."""
        os.environ[MARKER] = "1"
        try:
            run_sample(body)
        finally:
            del os.environ[MARKER]
            end_s = time.monotonic() + PATIENCE_S
            while self._reap() and time.monotonic() < end_s:
                pass

    def _reap(self) -> bool:
        """Walk over all processes once; whether there may be more to kill."""
        for pid in iter_pids():
            with suppress(OSError):
                if is_child(pid, self._own) or has_marker(pid):
                    os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True


def iter_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def is_child(pid: int, parent: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1]) == parent


def has_marker(pid: int) -> bool:
    return MARKER.encode() + b"=" in Path(f"/proc/{pid}/environ").read_bytes()
