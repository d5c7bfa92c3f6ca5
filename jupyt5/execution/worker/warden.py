"""The outer wall: new namespaces, then the worker as an ordinary process inside them.

Usage: ``python warden.py COMMAND...``. All processes inside end when this one does.
"""

import os
import signal
import sys

import linux

_INNER_ID = 1000
_CANNOT_UNSHARE = 76


def main(command):
    """Run ``command`` in namespaces of its own; returns its exit code."""
    user_id, group_id = os.getuid(), os.getgid()
    linux.set_parent_death_signal(signal.SIGKILL)
    try:
        linux.unshare(
            linux.CLONE_NEWUSER
            | linux.CLONE_NEWNS
            | linux.CLONE_NEWPID
            | linux.CLONE_NEWNET
            | linux.CLONE_NEWIPC
            | linux.CLONE_NEWUTS
        )
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{_INNER_ID} {user_id} 1")
        _write("/proc/self/gid_map", f"{_INNER_ID} {group_id} 1")
    except OSError as exc:
        print(f"no user namespace: {exc}", file=sys.stderr)
        return _CANNOT_UNSHARE
    init = os.fork()
    if init == 0:
        linux.set_parent_death_signal(signal.SIGKILL)
        os._exit(_be_init(command))
    return _wait(init)


def _be_init(command):
    """Be process 1: start the command, bury the dead, end with the command."""
    child = os.fork()
    if child == 0:
        try:
            linux.set_parent_death_signal(signal.SIGKILL)
            # Mounts are made by the worker itself, which gives the right up for each sample.
            linux.keep_rights()
            os.execvp(command[0], command)
        except OSError as exc:
            print(f"{command[0]}: {exc}", file=sys.stderr)
        os._exit(127)
    for fd in (0, 1):
        os.close(fd)
    return _wait(child)


def _wait(child):
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _write(path, text):
    with open(path, "w") as stream:
        stream.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
