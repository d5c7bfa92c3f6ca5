"""Cuts a forked kernel off from its parent: descriptors, streams, messages, history, event loop.

What is open in the copy is open in the kernel, too: one write would reach it. So everything is
closed but regular files, and these are opened again by their paths, inside the walls.
"""

import asyncio
import contextlib
import fcntl
import io
import os
import signal
import stat
import sys
import threading

from IPython.core.display_trap import DisplayTrap
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from . import shell as shells

__all__ = ["OpenFiles", "adopt_shell", "close_descriptors", "find_copy_hazards"]

_RESULTS = ("_", "__", "___")


class OpenFiles:
    """The regular files that the kernel's user has open, with where each is read next."""

    def __init__(self):
        self._found = []
        for fd in _list_fds():
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{fd}")
                is_named = stat.S_ISREG(os.fstat(fd).st_mode) and os.path.exists(path)
                # IPython's own: what is tried has no place in it.
                if is_named and fd > 2 and os.path.basename(path) != "history.sqlite":
                    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
                    flags &= ~(os.O_CREAT | os.O_TRUNC | os.O_EXCL)
                    self._found.append((fd, path, flags, os.lseek(fd, 0, os.SEEK_CUR)))

    @property
    def fds(self):
        """Their descriptors."""
        return [fd for fd, *_ in self._found]

    def reopen(self):
        """Open all again by their paths; close what cannot be opened in the same way."""
        for fd, path, flags, offset in self._found:
            try:
                new_fd = os.open(path, flags)
            except OSError:
                with contextlib.suppress(OSError):
                    os.close(fd)
                continue
            os.lseek(new_fd, offset, os.SEEK_SET)
            if new_fd != fd:
                os.dup2(new_fd, fd, inheritable=False)
                os.close(new_fd)


def close_descriptors(kept):
    """Close all descriptors but those ``kept``; the standard ones lead nowhere afterwards."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    signal.set_wakeup_fd(-1)
    for fd in _list_fds():
        if fd > 2 and fd not in kept:
            with contextlib.suppress(OSError):
                os.close(fd)


def find_copy_hazards():
    """Return what this process still shares with the kernel, to be asked before closing."""
    hazards = []
    with open("/proc/self/maps") as stream:
        for line in stream:
            fields = line.split(None, 5)
            is_shared = fields[1][1] == "w" and fields[1][3] == "s"
            if is_shared and not (len(fields) > 5 and fields[5].startswith("/dev/shm/sem.")):
                hazards.append("memory is shared through a mapping")
                break
    for fd in _list_fds():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/dev/nvidia"):
                hazards.append("a GPU is open")
                break
    return hazards


def adopt_shell():
    """Make the kernel's shell one that prints plainly, sends nothing and stores nothing.

    Returns:
        The shell, with the namespace, magics and extensions of its user.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise RuntimeError("no IPython shell")
    _replace_streams()
    _silence_kernel(getattr(shell, "kernel", None))
    _leave_loop()
    _forget_history(shell.history_manager)
    kind = type(shell)
    shell.__class__ = type("Shell", (shells.Quiet, kind), {"__module__": kind.__module__})
    shell.prepare()
    shells.ask_nobody()
    _print_results(shell)
    return shell


def _replace_streams():
    """Write to descriptors 1 and 2, also where somebody kept one of the kernel's streams."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(fd, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding="utf-8", errors="replace", line_buffering=True
        )
        old = getattr(sys, name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        for method in ("write", "flush", "writelines"):
            with contextlib.suppress(Exception):
                setattr(old, method, getattr(stream, method))


def _silence_kernel(kernel):
    """No message of this kernel goes anywhere."""
    if kernel is None:
        return
    for session in {id(one): one for one in _list_sessions(kernel)}.values():
        session.send = _send_nothing
    with contextlib.suppress(Exception):
        kernel.raw_input = kernel.getpass = shells.refuse_input


def _list_sessions(kernel):
    for holder in (kernel, getattr(kernel, "shell", None)):
        for one in (
            holder,
            *(getattr(holder, name, None) for name in ("display_pub", "displayhook")),
        ):
            session = getattr(one, "session", None)
            if session is not None:
                yield session


def _send_nothing(*args, **kwargs):
    return {}


def _leave_loop():
    """Leave the event loop in which the kernel's request is being served."""
    asyncio.events._set_running_loop(None)
    with contextlib.suppress(Exception):
        if sys.version_info < (3, 14):
            # A policy that has no loop yet makes one when old IPython asks for it.
            asyncio.set_event_loop_policy(None)
        else:
            asyncio.set_event_loop(None)


def _forget_history(manager):
    """Keep history in memory; locks that a thread of the kernel held would never be freed."""
    manager.enabled = False
    manager.using_thread = False
    manager.db_input_cache_lock = threading.Lock()
    manager.db_output_cache_lock = threading.Lock()
    manager.save_thread = None
    for name, value in (("save_flag", threading.Event()), ("db", None)):
        with contextlib.suppress(Exception):  # IPython's versions differ in what they have
            setattr(manager, name, value)


def _print_results(shell):
    """Show values by printing them; ``_`` and its like keep what they mean."""
    kept = {name: shell.user_ns[name] for name in _RESULTS if name in shell.user_ns}
    noted = {name: getattr(shell.displayhook, name, "") for name in _RESULTS}
    shell.display_pub = DisplayPublisher(parent=shell, shell=shell)
    shell.displayhook = DisplayHook(parent=shell, shell=shell, cache_size=shell.cache_size)
    shell.display_trap = DisplayTrap(hook=shell.displayhook)
    shell.user_ns.update(kept)
    for name, value in noted.items():
        setattr(shell.displayhook, name, value)


def _list_fds():
    return [int(name) for name in os.listdir("/proc/self/fd")]
