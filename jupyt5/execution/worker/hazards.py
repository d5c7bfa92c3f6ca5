"""Is it sound to fork this process now, and what must a child mend first?

A fork copies one thread only. Locks of the others stay locked in the child, pools wait for workers
that are not there, and open files share one offset with the parent. What can be stopped or
reopened without a trace is; anything else is a hazard, and the problem gets fresh processes.
"""

import contextlib
import fcntl
import os
import stat
import sys
import time

__all__ = ["Baseline", "find_hazards", "reopen_files", "settle"]

# jemalloc's, in pyarrow, which pandas loads: stopped and forgotten in a child (pthread_atfork).
_CAREFUL_THREADS = frozenset(["jemalloc_bg_thd"])
_MAX_ENDING_S = 0.25
_ACCESS_MODES = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


class Baseline:
    """What the process had before the first cell: its threads and descriptors."""

    def __init__(self):
        self.fds = frozenset(_list_fds())
        self.num_threads = _count_threads() if _has_proc() else 1


def settle():
    """Stop what restarts by itself when it is next used: idle pools and monitors."""
    _stop_tqdm_monitor()
    _stop_loky()
    _stop_default_executor()


def find_hazards(baseline):
    """Return the reasons why a fork of this process would not be a faithful copy.

    Args:
        baseline: Made before any cell ran.
    """
    if not _has_proc():
        return ["/proc is not there to look for threads and open files"]
    hazards = []
    num_more = _count_lasting_threads(baseline.num_threads)
    if num_more:
        hazards.append(f"{num_more} background threads")
    num_children = _count_children()
    if num_children:
        hazards.append(f"{num_children} child processes")
    hazards += _find_bad_files(baseline)
    if _has_shared_mapping():
        hazards.append("memory shared through a mapping")
    torch = sys.modules.get("torch")
    with contextlib.suppress(Exception):
        if torch is not None and torch.cuda.is_initialized():
            hazards.append("CUDA is initialised")
    return hazards


def reopen_files(baseline):
    """Give a fresh child its own offsets, and its own copies of files open for writing."""
    for fd in _list_fds():
        if fd in baseline.fds or fd < 3:
            continue
        found = _describe_fd(fd)
        if found is None or not stat.S_ISREG(found.mode):
            continue
        if found.is_read_only:
            new_fd = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        else:
            new_fd = os.open(found.path, found.flags & ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL))
        os.lseek(new_fd, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(new_fd, fd, inheritable=False)
        os.close(new_fd)


class _Descriptor:
    def __init__(self, fd):
        self.mode = os.fstat(fd).st_mode
        self.path = os.readlink(f"/proc/self/fd/{fd}")
        self.flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        self.is_read_only = self.flags & _ACCESS_MODES == os.O_RDONLY


def _describe_fd(fd):
    try:
        return _Descriptor(fd)
    except OSError:
        return None


def _find_bad_files(baseline):
    loop_fds = _loop_fds()
    for fd in _list_fds():
        if fd in baseline.fds or fd in loop_fds or fd < 3:
            continue
        found = _describe_fd(fd)
        if found is None or found.path.startswith("anon_inode:"):
            continue
        if stat.S_ISREG(found.mode):
            if not found.is_read_only and not os.path.exists(found.path):
                yield "an unnamed file is open for writing"
        elif stat.S_ISSOCK(found.mode):
            yield "an open socket"
        elif stat.S_ISFIFO(found.mode) and not _is_tracker_pipe(fd):
            yield "an open pipe"
        elif stat.S_ISCHR(found.mode) and "nvidia" in found.path:
            yield "a GPU is open"


def _loop_fds():
    """Descriptors of event loops that are not running: a child may go on with them."""
    found = set()
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return found
    for loop in _find_loops():
        for name in ("_ssock", "_csock", "_selector"):
            with contextlib.suppress(Exception):
                found.add(getattr(loop, name).fileno())
    return found


def _find_loops():
    policy = sys.modules["asyncio"].events
    local = getattr(getattr(policy, "_event_loop_policy", None), "_local", None)
    loop = getattr(local, "_loop", None)
    if loop is not None:
        yield loop
    async_helpers = sys.modules.get("IPython.core.async_helpers")
    own_loop = getattr(async_helpers, "_asyncio_event_loop", None)
    if own_loop is not None:
        yield own_loop


def _count_lasting_threads(num_before):
    """Count the threads beyond ``num_before`` that do not end by themselves.

    ``Thread.join`` returns before the system has taken the thread away.
    """
    deadline = time.monotonic() + _MAX_ENDING_S
    num_more = _count_threads() - num_before
    while num_more > 0 and time.monotonic() < deadline:
        time.sleep(0.005)
        num_more = _count_threads() - num_before
    return max(num_more, 0)


def _count_threads():
    """Count threads, without those that see to it themselves that a fork is a sound copy."""
    count = 0
    for name in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{name}/comm") as stream:
            count += stream.read().strip() not in _CAREFUL_THREADS
    return count


def _count_children():
    own_pid, trackers, count = str(os.getpid()), _tracker_pids(), 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in trackers:
            continue
        try:
            with open(f"/proc/{name}/stat") as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == own_pid and fields[0] != "Z":
            count += 1
    return count


def _trackers():
    for name in ("multiprocessing", "joblib.externals.loky.backend"):
        module = sys.modules.get(name + ".resource_tracker")
        tracker = getattr(module, "_resource_tracker", None)
        if tracker is not None:
            yield tracker


def _tracker_pids():
    return {getattr(tracker, "_pid", None) for tracker in _trackers()}


def _is_tracker_pipe(fd):
    return any(getattr(tracker, "_fd", None) == fd for tracker in _trackers())


def _has_shared_mapping():
    with open("/proc/self/maps") as stream:
        for line in stream:
            fields = line.split(None, 5)
            is_shared = fields[1][1] == "w" and fields[1][3] == "s"
            if is_shared and not (len(fields) > 5 and fields[5].startswith("/dev/shm/sem.")):
                return True
    return False


def _stop_tqdm_monitor():
    tqdm = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    with contextlib.suppress(Exception):
        if tqdm is not None and tqdm.monitor is not None:
            tqdm.monitor.exit()
            tqdm.monitor = None


def _stop_loky():
    """Shut joblib's idle pool down; its next use starts another."""
    module = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(module, "_executor", None)
    with contextlib.suppress(Exception):
        if executor is not None:
            executor.shutdown(wait=True, kill_workers=True)
            module._executor = None
            module._executor_kwargs = None


def _stop_default_executor():
    """End the idle threads of ``asyncio.to_thread``; the loop's next use starts others."""
    if "asyncio" not in sys.modules:
        return
    for loop in _find_loops():
        executor = getattr(loop, "_default_executor", None)
        if executor is None:
            continue
        queue = getattr(executor, "_work_queue", None)
        if queue is not None and queue.empty():
            executor.shutdown(wait=False)
            for thread in list(executor._threads):
                thread.join(0.5)
            loop._default_executor = None


def _list_fds():
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    # The listing itself had one of them, which the next file to be opened will get.
    return [fd for fd in found if _is_open(fd)]


def _is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _has_proc():
    return os.path.isdir("/proc/self/task")
