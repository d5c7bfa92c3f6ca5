"""Starts the process of one sample, reads what it writes, and ends it in time."""

import base64
import contextlib
import json
import os
import select
import signal
import sys
import time

__all__ = ["run_sample"]

_POLL_S = 0.05
_READ_BYTES = 1 << 16
_REPORT_LIMIT_BYTES = 1 << 16
_DETAIL_LIMIT_BYTES = 1 << 20
_WALL_FACTOR = 3


class _Pipes:
    """The pipes of a sample, and what came through them: report, detail, output, errors."""

    def __init__(self, output_limit):
        self.reads, self.writes = zip(*(os.pipe() for _ in range(4)))
        for fd in self.reads:
            os.set_blocking(fd, False)
        self.report, self.detail, self.output = bytearray(), bytearray(), bytearray()
        self.errors = bytearray()
        self.num_output_bytes = self.num_error_bytes = 0
        self._output_limit = output_limit
        self._open = set(self.reads)

    def close_writes(self):
        for fd in self.writes:
            os.close(fd)

    def wait(self, timeout_s):
        """Read what is there, or wait for something."""
        if not self._open:
            time.sleep(min(timeout_s, 0.002))
            return
        for fd in select.select(list(self._open), [], [], timeout_s)[0]:
            self._read(fd)

    def drain(self):
        """Read what is left."""
        for fd in list(self._open):
            for _ in range(64):
                if not self._read(fd):
                    break

    def close(self):
        for fd in self.reads:
            os.close(fd)

    def describe(self):
        """Return what came through, ready for JSON."""
        return {
            "report": base64.b64encode(bytes(self.report[:_REPORT_LIMIT_BYTES])).decode(),
            "details": _parse_details(self.detail),
            "output": bytes(self.output).decode("utf-8", "replace"),
            "num_output_bytes": self.num_output_bytes,
            "errors": bytes(self.errors).decode("utf-8", "replace"),
            "num_error_bytes": self.num_error_bytes,
        }

    def _read(self, fd):
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._open.discard(fd)
            return False
        report_fd, detail_fd, output_fd, _ = self.reads
        if fd == report_fd:
            self.report += data
        elif fd == detail_fd:
            self.detail += data[: _DETAIL_LIMIT_BYTES - len(self.detail)]
        elif fd == output_fd:
            self.num_output_bytes += len(data)
            self.output += data[: self._output_limit - len(self.output)]
        else:
            self.num_error_bytes += len(data)
            self.errors += data[: self._output_limit - len(self.errors)]
        return True


def run_sample(live, limits, walls, *, cold=False):
    """Fork a sample and wait for its end.

    Args:
        live: Called in the child with the descriptors to write to; never returns.
        limits: The job's limits.
        walls: The worker's walls; None to run without.
        cold: Whether the child first runs the context cells itself.

    Returns:
        What is known of the sample, ready for JSON.
    """
    pipes = _Pipes(limits["output_bytes"])
    started_s = time.monotonic()
    _flush()
    init = walls.begin_sample() if walls else None
    pid = os.fork()
    if pid == 0:
        # A group of its own: a signal to the sample's group must not reach the worker.
        os.setpgid(0, 0)
        # Who can read the report could take flags out of it.
        pipes.close()
        live(pipes.writes)
        os._exit(0)
    if walls:
        walls.after_fork()
    pipes.close_writes()
    watch = _Watch(pid, pipes, limits, cold)
    ended = watch.wait()
    status, usage = _end(pid, init, reaped=watch.reaped)
    pipes.drain()
    pipes.close()
    return dict(
        pipes.describe(),
        ended=ended,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        wall_s=round(time.monotonic() - started_s, 4),
        cpu_s=round(usage.ru_utime + usage.ru_stime, 4),
    )


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


class _Watch:
    """Waits until a sample has said its last word, has died, or has used up its time."""

    def __init__(self, pid, pipes, limits, cold):
        self._pid = pid
        self._pipes = pipes
        self._limits = limits
        # A cold sample first runs the context cells, under limits of their own.
        self._in_context = cold
        self._begun_s = time.monotonic()
        self._begun_cpu_s = 0.0
        self._num_context_details = 0
        self.reaped = None

    def wait(self):
        """Return why the waiting ended: ``said``, ``died``, ``timeout``, ``context timeout``."""
        while True:
            self._pipes.wait(min(_POLL_S, self._limits["cpu_s"] / 10))
            detail = bytes(self._pipes.detail)
            if self._in_context:
                self._follow_context(detail)
            if _says_last(detail):
                return "said"
            if len(self._pipes.report) > _REPORT_LIMIT_BYTES:
                return "flood"
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            if pid:
                self.reaped = (status, usage)
                return "died"
            if self._in_context:
                if time.monotonic() - self._begun_s > self._limits["context_s"]:
                    return "context timeout"
            elif self._is_over():
                return "timeout"

    def _follow_context(self, detail):
        num_details = detail.count(b"\n")
        if num_details > self._num_context_details:
            self._num_context_details = num_details
            self._begun_s = time.monotonic()
        if self._pipes.report[:1] == b"C":
            self._in_context = False
            self._begun_s = time.monotonic()
            self._begun_cpu_s = self._read_cpu_s()

    def _is_over(self):
        cpu_limit_s = self._limits["cpu_s"]
        if time.monotonic() - self._begun_s > _WALL_FACTOR * cpu_limit_s:
            return True
        return self._read_cpu_s() - self._begun_cpu_s > cpu_limit_s

    def _read_cpu_s(self):
        # The clock of another process, see clock_getcpuclockid(3).
        try:
            return time.clock_gettime((~self._pid << 3) | 2)
        except OSError:
            return 0.0


def _says_last(detail):
    last = detail.rstrip(b"\n").rpartition(b"\n")[2] if detail.endswith(b"\n") else b""
    return b'"kind": "end"' in last or b'"kind": "failure"' in last or b'"kind": "fault"' in last


def _end(pid, init, reaped):
    """Kill all that the sample started; returns its own wait status and use of resources."""
    if init is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    else:
        # The kernel ends a process namespace with its init, before init itself can be waited for.
        os.kill(init, signal.SIGKILL)
    status, usage = reaped or os.wait4(pid, 0)[1:]
    if init is not None:
        os.waitpid(init, 0)
    return status, usage


def _parse_details(data):
    details = []
    for line in bytes(data).split(b"\n"):
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            details.append(value)
    return details
