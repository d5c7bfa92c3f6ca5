"""One try in a fork of a live kernel: walls around it, then a process for each candidate.

Talks JSON lines over a socket. Answers one job with ``ready`` or ``unsafe``; then every line that
comes is a candidate and is answered with ``sample``. When the other side hangs up, all ends.
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
import traceback

from . import detach, linux, manager, sample
from .walls import Walls

__all__ = ["serve"]

_INNER_ID = 1000
_POLL_MS = 100
_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)


class _Channel:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self._stream = self.socket.makefile("r", encoding="utf-8", newline="\n")

    def read(self):
        """Return the next line's content; None at the end."""
        line = self._stream.readline()
        return json.loads(line) if line else None

    def tell(self, kind, **fields):
        line = json.dumps(dict(fields, kind=kind), default=str) + "\n"
        self.socket.sendall(line.encode("utf-8", "replace"))

    def close(self):
        """Close without a word to the other side."""
        os.close(self.socket.detach())


def serve(socket_path, hazards, random_state):
    """Do one job; never returns.

    Args:
        socket_path: Where to ask for it.
        hazards: Why the kernel thinks that this copy is not a faithful one.
        random_state: What ``random`` was like in the kernel.
    """
    channel = None
    try:
        hazards = [*hazards, *detach.find_copy_hazards()]
        files = detach.OpenFiles()
        detach.close_descriptors(files.fds)
        channel = _Channel(socket_path)
        job = channel.read()
        if hazards:
            channel.tell("unsafe", reasons=hazards)
        elif job is not None:
            _be_warden(channel, job, files, random_state)
    except BaseException as exc:
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.tell("unsafe", reasons=[_describe(exc)])
    finally:
        os._exit(0)


def _be_warden(channel, job, files, random_state):
    """Build the outer wall, and end what is inside when the other side hangs up."""
    user_id, group_id = os.getuid(), os.getgid()
    linux.unshare(_NAMESPACES)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INNER_ID} {user_id} 1"),
        ("gid_map", f"{_INNER_ID} {group_id} 1"),
    ):
        with open("/proc/self/" + name, "w") as stream:
            stream.write(text)
    init = os.fork()
    if init == 0:
        linux.set_parent_death_signal(signal.SIGKILL)
        _be_init(channel, job, files, random_state)
    poll = select.poll()
    poll.register(channel.socket, 0)  # only whether it hung up
    while os.waitpid(init, os.WNOHANG)[0] == 0:
        if poll.poll(_POLL_MS):
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
            return


def _be_init(channel, job, files, random_state):
    """Be process 1 of the namespace: bury the dead, end with the session."""
    child = os.fork()
    if child == 0:
        try:
            linux.set_parent_death_signal(signal.SIGKILL)
            _Session(channel, job, files, random_state).run()
        except BaseException as exc:
            with contextlib.suppress(OSError):
                channel.tell("unsafe", reasons=[_describe(exc)])
        finally:
            os._exit(0)
    channel.close()
    for fd in files.fds:
        os.close(fd)
    while os.wait()[0] != child:
        pass
    os._exit(0)


class _Session:
    def __init__(self, channel, job, files, random_state):
        self._channel = channel
        self._files = files
        self._limits = job["limits"]
        folder = os.getcwd()
        shell = detach.adopt_shell()
        self._walls = Walls(
            base="/tmp",
            hidden=(),
            shown=_list_mounts_inside(["/tmp", folder]),
            disk_bytes=job["disk_bytes"],
            overlaid=[folder],
        )
        self._walls.build()
        # The same path now leads into a layer that is thrown away.
        os.chdir(folder)
        files.reopen()
        sources = {idx: source for idx, source in job["cells"]}
        for name in sample.find_imports(shell, "\n".join(sources.values())):
            # Before a candidate can put something else in its way.
            with contextlib.suppress(BaseException):
                __import__(name)
        task = {"cell_idx": job["target_idx"], **{n: job[n] for n in ("grading", "own_names")}}
        self._plan = sample.Plan(shell, task, sources, self._limits, sockets=False)
        if self._plan.filter is None:
            raise RuntimeError("no system-call filter for this processor")
        if random_state is not None:
            random.setstate(random_state)
        self._seeds = sample.Seeds()

    def run(self):
        """Try candidates until there are no more."""
        self._channel.tell("ready", python=sys.version.split()[0])
        while True:
            entry = self._channel.read()
            if entry is None:
                return

            def live(pipes, entry=entry):
                sample.live(entry["source"], pipes, self._enter, filtered=True)

            found = manager.run_sample(live, self._limits, self._walls)
            self._channel.tell("sample", key=entry["key"], **found)

    def _enter(self):
        self._channel.close()
        self._walls.enter_sample()
        self._files.reopen()
        self._seeds.restore(None)
        return self._plan


def _list_mounts_inside(folders):
    """Return mount points below folders, which an overlay would not show."""
    folders = [os.path.realpath(folder).rstrip("/") + "/" for folder in folders]
    with open("/proc/self/mountinfo") as stream:
        points = [line.split()[4].replace("\\040", " ") for line in stream]
    return [point for point in points if point.startswith(tuple(folders))]


def _describe(exc):
    where = traceback.extract_tb(exc.__traceback__)[-1:]
    at = f" ({os.path.basename(where[0].filename)}:{where[0].lineno})" if where else ""
    return f"{type(exc).__name__}: {exc}{at}"[:500]
