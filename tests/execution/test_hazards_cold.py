"""Context cells that leave something behind which no fork copies faithfully.

Every row uses something in a context cell and again in two samples. All must pass, in fresh
processes for the stated reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from jupyt5.execution.engine import Judged

pytestmark = pytest.mark.kernel

Grade = Callable[..., dict[str, Judged]]
SAMPLE = "result = op()"


@dataclass(frozen=True, slots=True)
class Row:
    """``prefix`` runs before the problem and defines ``op``; a right sample's ``op()`` is true."""

    prefix: str
    reason: str
    needs: tuple[str, ...] = ()


ROWS = {
    "torch": Row(
        """import torch
torch.set_num_threads(2)
def op():
    a = torch.rand(400, 400, requires_grad=True)
    (a @ a).sum().backward()
    return bool(torch.isfinite(a.grad).all())
op()""",
        reason="background threads",
        needs=("torch",),
    ),
    "thread pool": Row(
        """from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
def op():
    return list(pool.map(abs, [-1, -2])) == [1, 2]
op()""",
        reason="background threads",
    ),
    "process pool": Row(
        """import multiprocessing
pool = multiprocessing.get_context('fork').Pool(2)
def op():
    return pool.map(abs, [-1, -2]) == [1, 2]
op()""",
        reason="child processes",
    ),
    "loop in a thread": Row(
        """import asyncio, threading
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
async def one():
    return True
def op():
    return asyncio.run_coroutine_threadsafe(one(), loop).result(20)
op()""",
        reason="background threads",
    ),
    "thread with the logging lock": Row(
        """import logging, threading, time
def hold():
    while True:
        with logging._lock:
            time.sleep(0.05)
        time.sleep(0.001)
threading.Thread(target=hold, daemon=True).start()
def op():
    logging.getLogger('x').setLevel('INFO')
    return True
op()""",
        reason="background threads",
    ),
    "thread with a lock": Row(
        """import threading, time
lock = threading.Lock()
def hold():
    while True:
        with lock:
            time.sleep(0.05)
        time.sleep(0.001)
threading.Thread(target=hold, daemon=True).start()
def op():
    with lock:
        return True
op()""",
        reason="background threads",
    ),
    "thread that imports": Row(
        """import threading, time, pathlib
pathlib.Path('slow_one.py').write_text('import time; time.sleep(1); done = True')
def load():
    import slow_one
threading.Thread(target=load, daemon=True).start()
time.sleep(0.1)
def op():
    import slow_one
    return slow_one.done""",
        reason="background threads",
    ),
    "thread that prints": Row(
        """import threading, time
def talk():
    while True:
        print('.', end='')
        time.sleep(0.001)
threading.Thread(target=talk, daemon=True).start()
def op():
    print('hello')
    return True
op()""",
        reason="background threads",
    ),
    "idle timer": Row(
        """import threading
timer = threading.Timer(500, print)
timer.daemon = True
timer.start()
def op():
    timer.cancel(); timer.join(20)
    return not timer.is_alive()""",
        reason="background threads",
    ),
    "deleted file": Row(
        """import tempfile
spare = tempfile.TemporaryFile('w+')
spare.write('a'); spare.flush()
def op():
    spare.write('b'); spare.flush(); spare.seek(0)
    return spare.read() == 'ab'""",
        reason="unnamed file",
    ),
    "memmap": Row(
        """import numpy as np
table = np.memmap('table.bin', 'i4', 'w+', shape=(4,))
table[:] = 1; table.flush()
def op():
    table[0] += 1; table.flush()
    return int(np.fromfile('table.bin', 'i4').sum()) == 5""",
        reason="shared through a mapping",
        needs=("numpy",),
    ),
    "shared array": Row(
        """import multiprocessing
array = multiprocessing.Array('i', [0])
def op():
    array[0] += 1
    return array[0] == 1""",
        reason="shared through a mapping",
    ),
    "socket": Row(
        """import socket
left, right = socket.socketpair()
def op():
    left.send(b'x')
    return right.recv(10) == b'x'""",
        reason="open socket",
    ),
    "pipe": Row(
        """import os
read_fd, write_fd = os.pipe()
def op():
    os.write(write_fd, b'x')
    return os.read(read_fd, 10) == b'x'""",
        reason="open pipe",
    ),
    "child process": Row(
        """import subprocess
child = subprocess.Popen(['sleep', '500'])
def op():
    child.kill()
    return child.wait() == -9""",
        reason="child processes",
    ),
    # No GPU is needed to see that a process which says it has a context is not forked.
    "CUDA, as torch tells it": Row(
        """import sys, types
sys.modules['torch'] = types.ModuleType('torch')
sys.modules['torch'].cuda = types.SimpleNamespace(is_initialized=lambda: True)
def op(): return True""",
        reason="CUDA",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "torch" else []) for n in ROWS]
)
def test_hazard(name: str, grade: Grade) -> None:
    row = ROWS[name]
    for module in row.needs:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed.")
    found = grade([SAMPLE] * 2, context=[row.prefix], reference=SAMPLE, graded="assert result")
    for one in found.values():
        assert one.verdict.kind == "passed", one.verdict
        assert row.reason in one.isolation_reason
        assert one.isolation == "kernel"
        assert not one.cold_rerun


def test_forced_fork_tells_what_a_fork_makes_of_it(grade: Grade) -> None:
    """The row "thread pool", forked all the same: it hangs, and only a fresh process clears it."""
    found = grade(
        [SAMPLE],
        # One thread: a pool of two would start the other in the fork, and get through.
        context=[ROWS["thread pool"].prefix.replace("Executor(2)", "Executor(1)")],
        reference=SAMPLE,
        graded="assert result",
        forced=True,
        timeout_s=1,
    )
    assert found["0"].cold_rerun
    assert found["0"].verdict.kind == "passed"
    assert "timeout in a fork" in found["0"].isolation_reason


def test_cuda_for_real(grade: Grade) -> None:
    if not Path("/dev/nvidia0").exists() or find_spec("torch") is None:
        pytest.skip("There is no GPU here, or no torch.")
    prefix = "import torch\na = torch.ones(4, device='cuda')\ndef op(): return a.sum().item() == 4"
    found = grade([SAMPLE], context=[prefix], reference=SAMPLE, graded="assert result")
    assert found["0"].isolation == "kernel"
    assert "CUDA" in found["0"].isolation_reason
