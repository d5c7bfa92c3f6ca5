"""How a sample proves that its grading cells ran to their ends.

Before any of the hypothesis runs, the child draws a secret and reports only its hash. The secret
then lives in one place: the value stack of the frame of ``prove``, as an argument that is waiting
for its call. No frame attribute, no garbage collector and no name leads there, and what is left
to do after the last grading cell uses nothing but that stack. So pure Python can neither report
the secret early nor change what stands between the grading cells and the report. Native code can
read it; the guard refuses the ways to that from Python, and what it cannot refuse it reports.
"""

import hashlib
import os

__all__ = ["RECORD_BYTES", "commit", "prove", "report"]

RECORD_BYTES = 33
_SECRET_BYTES = 32


def report(report_fd, kind, text="", *, write=os.write):
    """Write one record: a letter and 32 bytes. What is written cannot be taken back."""
    # ``write`` is bound here, for a sample may put something else into ``os``.
    write(report_fd, kind + text.encode("utf-8", "replace")[:32].ljust(32, b"\0"))


def commit(report_fd):
    """Report the hash of a new secret.

    Returns:
        A descriptor from which the secret can be read once.
    """
    secret = os.urandom(_SECRET_BYTES)
    os.write(report_fd, b"C" + hashlib.sha256(secret).digest())
    read_fd, write_fd = os.pipe()
    os.write(write_fd, secret)
    os.close(write_fd)
    return read_fd


def prove(report_fd, secret_fd, codes, namespaces):
    """Execute all ``codes``, each in its namespace; if none of them raises, report the secret."""
    write, read, join = os.write, os.read, b"".join
    to_bytes, keep, each, execute = bytes, filter, map, exec
    # One expression: everything that it needs is on the stack before the first cell runs, and
    # `exec` returns None, so the middle part is empty once all cells have run.
    write(
        report_fd,
        join((b"P", read(secret_fd, 32), to_bytes(keep(None, each(execute, codes, namespaces))))),
    )
