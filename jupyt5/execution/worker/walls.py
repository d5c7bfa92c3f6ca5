"""Mounts of the worker and of each sample: a read-only system, and private files in ``/tmp``.

The writable world is one overlay on ``/tmp``: below lies a prepared folder (the notebook's files,
a home), above a layer of the session's own. A sample gets an overlay of its own, with both layers
below it, so it sees all that the context cells wrote and leaves nothing behind. Other folders can
be overlaid in the same way where they are: what lies below is then their own content.
"""

import os
import posixpath

from . import linux

__all__ = ["HOME", "WORK", "Walls"]

HOME, WORK = "/tmp/jupyt5/home", "/tmp/jupyt5/work"
_STASH = "/run"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PID_MAX = 320
_BIND = linux.MS_BIND | linux.MS_REC
_OVERLAY_FLAGS = linux.MS_NOSUID | linux.MS_NODEV
_INIT_COMMAND = ("sleep", "2147483647")


class Walls:
    """The mounts of one worker.

    Args:
        base: Folder that becomes the bottom of ``/tmp``.
        hidden: Folders whose content nobody inside may see.
        shown: Folders that stay visible inside hidden ones, e.g. the interpreter's own.
        disk_bytes: Size of what the session or one sample may write.
        overlaid: Folders that can be written to, as it seems; none of them inside another.
    """

    def __init__(self, base, hidden, shown, disk_bytes, overlaid=()):
        overlaid = [posixpath.realpath(path) for path in overlaid]
        if base == "/tmp":
            overlaid = [path for path in overlaid if not _is_inside(path, "/tmp")]
        # Each with the folder that lies below it; the rest of the system is read-only.
        self._layers = [("/tmp", base), *((path, path) for path in overlaid)]
        shown = [*shown, *overlaid]
        self._hidden = sorted({posixpath.realpath(path) for path in hidden})
        self._shown = sorted({posixpath.realpath(path) for path in shown})
        self._disk = f"size={disk_bytes},mode=755"
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._init_path = next(
            path for path in ("/bin/sleep", "/usr/bin/sleep") if os.path.exists(path)
        )

    def build(self):
        """Make the session's mounts; to be called once, with CAP_SYS_ADMIN in effect."""
        linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
        linux.make_read_only("/")
        linux.mount("tmpfs", _STASH, "tmpfs", _OVERLAY_FLAGS, self._disk)
        for name in ("base", "scratch", "shown", "dev"):
            os.mkdir(posixpath.join(_STASH, name))
        for number, (_, below) in enumerate(self._layers):
            os.mkdir(f"{_STASH}/base/{number}")
            linux.mount(below, f"{_STASH}/base/{number}", flags=_BIND)
        for number, path in enumerate(self._shown):
            os.mkdir(f"{_STASH}/shown/{number}")
            linux.mount(path, f"{_STASH}/shown/{number}", flags=_BIND)
        for path in self._hidden:
            if os.path.isdir(path) and not _is_inside(path, "/tmp"):
                self._cover(path)
        self._mount_overlays(_STASH, ())
        self._build_devices()
        self._mount_proc()
        linux.use_rights(False)

    def begin_sample(self):
        """Make a process namespace for the next child.

        Returns:
            Process id of its init: all that lives in the namespace dies with it.
        """
        linux.use_rights(True)
        linux.unshare(linux.CLONE_NEWPID)
        return os.posix_spawn(self._init_path, _INIT_COMMAND, {})

    def after_fork(self):
        """Take the parent back into its own process namespace."""
        linux.setns(self._own_pids, linux.CLONE_NEWPID)
        linux.use_rights(False)

    def enter_sample(self):
        """Give a freshly forked child mounts of its own and take all rights from it."""
        folder = os.getcwd()
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC)
        scratch = _STASH + "/scratch"
        linux.mount("tmpfs", scratch, "tmpfs", _OVERLAY_FLAGS, self._disk)
        self._mount_overlays(scratch, (_STASH,))
        linux.mount("tmpfs", "/dev/shm", "tmpfs", _OVERLAY_FLAGS, self._disk)
        self._mount_proc()
        _limit_process_ids()
        linux.mount("tmpfs", _STASH, "tmpfs", linux.MS_RDONLY, "size=4k")
        # The same path now leads into the sample's own layer.
        os.chdir(folder)
        os.close(self._own_pids)
        linux.drop_capabilities()

    def _mount_overlays(self, upper, between):
        """Overlay each layer's folder; ``between`` are earlier uppers, seen through this one."""
        options = "lowerdir=%s,upperdir=%s,workdir=%s,userxattr"
        for number, (path, _) in enumerate(self._layers):
            for name in ("up", "work"):
                os.makedirs(f"{upper}/{name}/{number}")
            lower = [*(f"{one}/up/{number}" for one in between), f"{_STASH}/base/{number}"]
            parts = (":".join(lower), f"{upper}/up/{number}", f"{upper}/work/{number}")
            linux.mount("overlay", path, "overlay", _OVERLAY_FLAGS, options % parts)
            for shown in self._shown:
                if shown != path and _is_inside(shown, path):
                    self._show(shown)

    def _cover(self, path):
        inside = [shown for shown in self._shown if _is_inside(shown, path)]
        if path in inside:
            return
        linux.mount("tmpfs", path, "tmpfs", _OVERLAY_FLAGS, "size=1m,mode=755")
        for shown in inside:
            self._show(shown)
        linux.make_read_only(path)

    def _show(self, path):
        os.makedirs(path, exist_ok=True)
        source = f"{_STASH}/shown/{self._shown.index(path)}"
        linux.mount(source, path, flags=_BIND)

    def _build_devices(self):
        kept = [name for name in _DEVICES if os.path.exists("/dev/" + name)]
        for name in kept:
            stand_in = f"{_STASH}/dev/{name}"
            os.close(os.open(stand_in, os.O_CREAT | os.O_WRONLY, 0o666))
            linux.mount("/dev/" + name, stand_in, flags=linux.MS_BIND)
        linux.mount("tmpfs", "/dev", "tmpfs", linux.MS_NOSUID, "size=64k,mode=755")
        for name in kept:
            os.close(os.open("/dev/" + name, os.O_CREAT | os.O_WRONLY, 0o666))
            linux.mount(f"{_STASH}/dev/{name}", "/dev/" + name, flags=linux.MS_BIND)
        for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
            os.symlink("/proc/self/fd" + target, "/dev/" + name)
        os.mkdir("/dev/shm")
        linux.make_read_only("/dev")
        linux.mount("tmpfs", "/dev/shm", "tmpfs", _OVERLAY_FLAGS, self._disk)

    def _mount_proc(self):
        try:
            linux.mount("proc", "/proc", "proc", _OVERLAY_FLAGS | linux.MS_NOEXEC)
        except OSError:
            # Inside a container whose own /proc is partly covered, a new one is refused.
            linux.mount("tmpfs", "/proc", "tmpfs", linux.MS_RDONLY, "size=4k")


def _limit_process_ids():
    """Bound the processes of the namespace, where Linux can (6.14): it binds root, too."""
    try:
        with open("/proc/sys/kernel/pid_max", "w") as stream:
            stream.write(str(_PID_MAX))
    except OSError:
        return


def _is_inside(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")
