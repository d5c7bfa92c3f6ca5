"""Runs inside a live kernel: forks it, and leaves no name, file or thread behind.

The text of this file is executed in a namespace of its own by a silent request. The fork serves
one try (``session.py``) and ends with it; the kernel itself goes on after some milliseconds.
"""

import contextlib
import json
import linecache
import os
import sys
import threading
import time

__all__ = ["start"]

# libzmq's, and jemalloc's: both leave a forked copy alone.
_NATIVE_THREADS = ("ZMQbg", "jemalloc_bg_thd")
_OWN_MODULES = ("ipykernel", "IPython.core.history")
_MAX_ENDING_S = 0.25


def start(socket_path, folder):
    """Fork this kernel; the copy asks at ``socket_path`` what to do.

    Args:
        socket_path: A listening socket. If it is gone, so is whoever asked: nothing is done.
        folder: Of this package.
    """
    if not os.path.exists(socket_path):
        return
    state = _get_random_state()
    read_fd, write_fd = os.pipe()
    middle = os.fork()
    if middle == 0:
        # Forked twice: the kernel has no child afterwards that it never asked for.
        try:
            if os.fork() == 0:
                os.close(write_fd)
                _live_on(socket_path, folder, read_fd, state)
        finally:
            os._exit(0)
    os.close(read_fd)
    with contextlib.suppress(ChildProcessError):  # the kernel's user ignores SIGCHLD
        os.waitpid(middle, 0)
    try:
        with contextlib.suppress(BrokenPipeError):
            os.write(write_fd, json.dumps(_find_hazards()).encode())
    finally:
        os.close(write_fd)
        _forget_cell()


def _live_on(socket_path, folder, read_fd, state):
    """Be the copy, to the end."""
    os.setsid()
    data = b""
    while True:
        more = os.read(read_fd, 1 << 16)
        if not more:
            break
        data += more
    os.close(read_fd)
    sys.dont_write_bytecode = True
    import importlib.util

    name = "_jupyt5_worker"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    session = importlib.import_module(name + ".session")
    session.serve(socket_path, json.loads(data.decode()), state)


def _get_random_state():
    """Return the state of ``random``, which a fork would start afresh."""
    module = sys.modules.get("random")
    return module.getstate() if module is not None else None


def _find_hazards():
    """Return why a fork of this kernel was not a faithful copy.

    Asked after the fork, before which some pools (OpenBLAS's) end by themselves.
    """
    hazards = []
    if "ipykernel" not in sys.modules:
        hazards.append("it is not an IPython kernel")
    names = _list_other_threads()
    deadline = time.monotonic() + _MAX_ENDING_S
    while names and time.monotonic() < deadline:
        time.sleep(0.01)
        names = _list_other_threads()
    if names:
        noun = "thread is" if len(names) == 1 else "threads are"
        hazards.append(f"{len(names)} of its {noun} running")
    num_children = _count_children()
    if num_children:
        hazards.append(f"{num_children} of its child processes are running")
    torch = sys.modules.get("torch")
    try:
        if torch is not None and torch.cuda.is_initialized():
            hazards.append("CUDA is initialised")
    except Exception:
        hazards.append("whether CUDA is initialised cannot be told")
    return hazards


def _list_other_threads():
    """Return the ids of threads that are neither the kernel's own nor harmless."""
    own = {str(os.getpid())}
    for thread in threading.enumerate():
        is_own = type(thread).__module__.startswith(_OWN_MODULES)
        # Run by a plain Thread, by the kernel's own function.
        target = getattr(thread, "_target", None)
        is_own = is_own or str(getattr(target, "__module__", "")).startswith(_OWN_MODULES)
        is_own = is_own or (type(thread) is threading.Thread and thread.name == "IOPub")
        if is_own:
            own.add(str(thread.native_id))
    others = []
    for name in os.listdir("/proc/self/task"):
        if name in own:
            continue
        try:
            with open(f"/proc/self/task/{name}/comm") as stream:
                is_other = not stream.read().startswith(_NATIVE_THREADS)
        except OSError:
            continue
        if is_other:
            others.append(name)
    return others


def _count_children():
    own_pid, count = str(os.getpid()), 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stream:
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            continue
        count += fields[1] == own_pid and fields[0] != "Z"
    return count


def _forget_cell():
    """Take the request's own text out of the cache that tracebacks read."""
    frame = sys._getframe()
    while frame is not None and "get_ipython" not in frame.f_globals:
        frame = frame.f_back
    if frame is not None:
        linecache.cache.pop(frame.f_code.co_filename, None)
