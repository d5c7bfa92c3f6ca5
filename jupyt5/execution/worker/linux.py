"""System calls that the standard library lacks, through libc: namespaces, mounts, capabilities.

Sources: the manual pages namespaces(7), mount_setattr(2), capabilities(7), seccomp(2), prctl(2).
"""

import ctypes
import errno
import os
import platform

__all__ = [
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "MS_BIND",
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_PRIVATE",
    "MS_RDONLY",
    "MS_REC",
    "drop_capabilities",
    "forbid_new_privileges",
    "hide_memory",
    "install_filter",
    "keep_rights",
    "make_filter",
    "make_read_only",
    "mount",
    "set_parent_death_signal",
    "setns",
    "unmount",
    "unshare",
    "use_rights",
]

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 38, 47
_PR_CAP_AMBIENT_RAISE, _PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x20080522
# CHOWN, DAC_OVERRIDE, FOWNER, SYS_ADMIN: what mounting an overlay takes.
_RIGHTS = (0, 1, 3, 21)

_MACHINE = platform.machine()
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_NR_MOUNT_SETATTR = 442

_libc = ctypes.CDLL(None, use_errno=True)


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def unshare(flags):
    """Move this process (for PID: its next children) into new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd, flags):
    """Join the namespace behind ``fd``."""
    _check(_libc.setns(fd, flags), "setns")


def mount(source, target, kind="", flags=0, options=""):
    """Attach a file system; flags and options are those of the manual page."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount of {target}")


def unmount(target):
    """Detach what is mounted at ``target``."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount of {target}")


def make_read_only(path):
    """Make a mount and all below it read-only (Linux 5.12)."""
    attributes = _MountAttr(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        _NR_MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(path),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
    _check(result, f"mount_setattr of {path}")


def set_parent_death_signal(signal_number):
    """Have this process get a signal when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def forbid_new_privileges():
    """No program that this process starts can gain rights."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide_memory():
    """Keep other processes from reading or tracing this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def keep_rights():
    """Hand the rights to mount on through the next exec."""
    data = _get_capabilities()
    for capability in _RIGHTS:
        data[0].inheritable |= 1 << capability
    _set_capabilities(data)
    for capability in _RIGHTS:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def use_rights(on):
    """Use the permitted rights, or put them aside; no program that is started gets them."""
    data = _get_capabilities()
    data[0].effective = data[0].permitted if on else 0
    data[0].inheritable = 0
    _set_capabilities(data)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def drop_capabilities():
    """Give up all capabilities for good; with no new privileges, no program can bring them back."""
    _set_capabilities((_CapData * 2)())


# --- system-call filter -----------------------------------------------------------------------

_LD_WORD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_AND = 0x54
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARGS = 0, 4, 16
_X32_BIT = 0x40000000

# Numbers from the kernel's tables for each machine.
_TABLES = {
    "x86_64": {
        "arch": 0xC000003E,
        "denied": {
            "ptrace": 101,
            "mount": 165,
            "umount2": 166,
            "pivot_root": 155,
            "keyctl": 250,
            "add_key": 248,
            "request_key": 249,
            "unshare": 272,
            "perf_event_open": 298,
            "open_by_handle_at": 304,
            "setns": 308,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "bpf": 321,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "pidfd_getfd": 438,
            "mount_setattr": 442,
        },
        "missing": {"clone3": 435},
        "close_range": 436,
        "clone": 56,
        "close": 3,
        "dup_onto": (33, 292),
        "socket": 41,
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "denied": {
            "ptrace": 117,
            "mount": 40,
            "umount2": 39,
            "pivot_root": 41,
            "keyctl": 219,
            "add_key": 217,
            "request_key": 218,
            "unshare": 97,
            "perf_event_open": 241,
            "open_by_handle_at": 265,
            "setns": 268,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "bpf": 280,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "open_tree": 428,
            "move_mount": 429,
            "fsopen": 430,
            "pidfd_getfd": 438,
            "mount_setattr": 442,
        },
        "missing": {"clone3": 435},
        "close_range": 436,
        "clone": 220,
        "close": 57,
        "dup_onto": (24,),
        "socket": 198,
    },
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jump_true", ctypes.c_uint8),
        ("jump_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def make_filter(report_fd, sockets=True):
    """Compile the system-call filter of a sample.

    Denied: reading or writing other processes' memory, new namespaces and mounts, and closing or
    replacing ``report_fd``; unless ``sockets``, also new sockets, for no namespace covers those
    that have a name in a folder. Everything else stays allowed; the walls are made of namespaces.

    Returns:
        Something for ``install_filter``; None where the machine's system-call table is not known.
    """
    table = _TABLES.get(_MACHINE)
    if table is None:
        return None
    lines = list(_iter_filter(table, report_fd, sockets))
    instructions = (_Instruction * len(lines))(*lines)
    return _Program(len(lines), instructions)


def install_filter(program):
    """Put a filter from ``make_filter`` on this process and all that it starts."""
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(program))


def _iter_filter(table, report_fd, sockets):
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    absent = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    allow = (_RETURN, 0, 0, _ALLOW)
    # Another call convention would have other numbers.
    yield (_LD_WORD, 0, 0, _OFFSET_ARCH)
    yield (_JUMP_EQUAL, 1, 0, table["arch"])
    yield refuse
    yield (_LD_WORD, 0, 0, _OFFSET_NR)
    if _MACHINE == "x86_64":
        yield (_JUMP_GREATER_EQUAL, 0, 1, _X32_BIT)
        yield refuse
    for number in (*table["denied"].values(), *(() if sockets else (table["socket"],))):
        yield (_JUMP_EQUAL, 0, 1, number)
        yield refuse
    for number in table["missing"].values():
        yield (_JUMP_EQUAL, 0, 1, number)
        yield absent
    yield from _iter_report_guards(table, report_fd, refuse, absent)
    yield (_JUMP_EQUAL, 0, 4, table["clone"])
    yield (_LD_WORD, 0, 0, _OFFSET_ARGS)
    yield (_AND, 0, 0, CLONE_NEWUSER)
    yield (_JUMP_EQUAL, 1, 0, 0)
    yield refuse
    yield allow


def _iter_report_guards(table, report_fd, refuse, absent):
    """Yield what keeps the report open; begins and ends with the call's number loaded."""
    # To the last possible descriptor only, as the C library asks in a child before it starts a
    # program: without that, its fallback would try to close the report for ever.
    yield (_JUMP_EQUAL, 0, 4, table["close_range"])
    yield (_LD_WORD, 0, 0, _OFFSET_ARGS + 8)
    yield (_JUMP_EQUAL, 1, 0, 0xFFFFFFFF)
    yield absent
    yield (_LD_WORD, 0, 0, _OFFSET_NR)
    yield (_JUMP_EQUAL, 0, 3, table["close"])
    yield (_LD_WORD, 0, 0, _OFFSET_ARGS)
    yield (_JUMP_EQUAL, 0, 1, report_fd)
    yield refuse
    # After a load the accumulator holds an argument: the call's number is loaded again.
    yield (_LD_WORD, 0, 0, _OFFSET_NR)
    for number in table["dup_onto"]:
        yield (_JUMP_EQUAL, 0, 4, number)
        yield (_LD_WORD, 0, 0, _OFFSET_ARGS + 8)
        yield (_JUMP_EQUAL, 0, 1, report_fd)
        yield refuse
        yield (_LD_WORD, 0, 0, _OFFSET_NR)


def _prctl(option, *values):
    arguments = [ctypes.c_ulong(value) for value in values]
    arguments += [ctypes.c_ulong(0)] * (4 - len(arguments))
    _check(_libc.prctl(option, *arguments), f"prctl {option}")


def _get_capabilities():
    data = (_CapData * 2)()
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(data)), "capget")
    return data


def _set_capabilities(data):
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
