"""What context cells may leave behind that a fork does not copy faithfully.

Every row uses something in a context cell and again in three samples. All must pass, and the test
says how: in forks, or in fresh processes for a stated reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from jupyt5.execution.engine import Judged

pytestmark = pytest.mark.kernel

Grade = Callable[..., dict[str, Judged]]
FORK = ""
NUM_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Row:
    """``prefix`` runs before the problem and defines ``op``; a right sample's ``op()`` is true.

    ``reason`` is why fresh processes are used; "" says that forks are.
    """

    prefix: str
    reason: str = FORK
    needs: tuple[str, ...] = ()
    sample: str = "result = op()"


ROWS = {
    "nothing": Row("def op(): return True"),
    "OpenBLAS": Row(
        """import numpy as np
a = np.random.default_rng(0).random((200, 200))
def op():
    return bool(np.isfinite((a @ a).sum()) and len(np.linalg.svd(a)[1]) == 200)
op()""",
        needs=("numpy",),
    ),
    "matplotlib": Row(
        """import matplotlib.pyplot as plt, os
def op():
    plt.plot([1, 2]); plt.savefig('p.png'); plt.close()
    return os.path.getsize('p.png') > 1000
op()""",
        needs=("matplotlib",),
    ),
    "random forest": Row(
        """import numpy as np
from sklearn.ensemble import RandomForestClassifier
x = np.arange(40).reshape(20, 2); y = np.arange(20) % 2
def op():
    return len(RandomForestClassifier(4, n_jobs=2, random_state=0).fit(x, y).predict(x)) == 20
op()""",
        needs=("sklearn",),
    ),
    "pandas eval": Row(
        """import pandas as pd
frame = pd.DataFrame({'a': range(5)})
def op():
    return frame.eval('a + 1').sum() == 15
op()""",
        needs=("pandas",),
    ),
    "tqdm": Row(
        """from tqdm import tqdm
def op():
    return sum(tqdm(range(100))) == 4950
op()""",
        needs=("tqdm",),
    ),
    "shell escape": Row(
        """def op():
    lines = !echo hi
    return list(lines) == ['hi']
op()
!true"""
    ),
    "asyncio subprocess": Row(
        """import asyncio
async def start():
    process = await asyncio.create_subprocess_exec('true')
    return await process.wait() == 0
await start()""",
        sample="result = await start()",
    ),
    "await": Row(
        """import asyncio
async def start():
    await asyncio.sleep(0.01)
    return True
await start()""",
        sample="result = await start()",
    ),
    "background task": Row(
        """import asyncio
async def tick():
    while True:
        await asyncio.sleep(0.01)
async def start():
    await asyncio.sleep(0.02)
    return not task.done()
task = None
async def begin():
    return asyncio.get_running_loop().create_task(tick())
task = await begin()""",
        sample="result = await start()",
    ),
    "OpenMP": Row(
        """import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
x = np.random.default_rng(0).random((300, 2)); y = np.arange(300) % 2
def op():
    KMeans(3, n_init=1, random_state=0).fit(x)
    return len(HistGradientBoostingClassifier(max_iter=3).fit(x, y).predict(x)) == 300
op()""",
        needs=("sklearn",),
    ),
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
    "torch DataLoader": Row(
        """import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(8.0))
def op():
    return len(list(DataLoader(data, batch_size=2, num_workers=2))) == 4
op()""",
        needs=("torch",),
    ),
    "loky": Row(
        """from joblib import Parallel, delayed
def op():
    return Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]
op()""",
        needs=("joblib",),
    ),
    "grid search": Row(
        """import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
x = np.random.default_rng(0).random((40, 2)); y = np.arange(40) % 2
def op():
    search = GridSearchCV(LogisticRegression(), {'C': [0.1, 1.0]}, n_jobs=2, cv=2)
    return search.fit(x, y).best_score_ >= 0
op()""",
        needs=("sklearn",),
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
    "to_thread": Row(
        """import asyncio
async def start():
    return await asyncio.to_thread(abs, -1) == 1
await start()""",
        sample="result = await start()",
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
    "finished thread": Row(
        """import threading
def op():
    thread = threading.Thread(target=abs, args=(-1,))
    thread.start(); thread.join()
    return True
op()"""
    ),
    "file open for reading": Row(
        """open('t.txt', 'w').write('one\\ntwo\\nthree\\n')
stream = open('t.txt', buffering=1)
raw = open('t.txt', 'rb', buffering=0)
raw.read(4)
def op():
    return raw.read() == b'two\\nthree\\n' and raw.read() == b'' and stream.read(3) == 'one'"""
    ),
    "file open for writing": Row(
        """out = open('out.txt', 'w')
out.write('begun,'); out.flush()
out.write('kept,')
def op():
    out.write('sample'); out.flush()
    return open('out.txt').read() == 'begun,kept,sample'"""
    ),
    "file open for appending": Row(
        """log = open('log.txt', 'a+')
log.write('a'); log.flush()
def op():
    log.write('b'); log.flush(); log.seek(0)
    return log.read() == 'ab'"""
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
    "sqlite": Row(
        """import sqlite3
base = sqlite3.connect('base.db')
base.execute('create table t (x)'); base.execute('insert into t values (1)'); base.commit()
def op():
    base.execute('insert into t values (2)'); base.commit()
    other = sqlite3.connect('base.db')
    return [r[0] for r in other.execute('select x from t order by x')] == [1, 2]"""
    ),
    "sqlite in memory": Row(
        """import sqlite3
base = sqlite3.connect(':memory:')
base.execute('create table t (x)')
def op():
    base.execute('insert into t values (2)'); base.commit()
    return base.execute('select count(*) from t').fetchone() == (1,)"""
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
    "memmap for reading": Row(
        """import numpy as np
np.arange(4, dtype='i4').tofile('table.bin')
table = np.memmap('table.bin', 'i4', 'r')
def op():
    return int(table.sum()) == 6
op()""",
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
SLOW = {"torch", "torch DataLoader", "loky", "grid search", "OpenMP", "random forest"}


def _make_cases() -> list[object]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [], id=name)
        for name in ROWS
    ]


@pytest.mark.parametrize("name", _make_cases())
def test_hazard(name: str, grade: Grade) -> None:
    row = ROWS[name]
    for module in row.needs:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed.")
    found = grade(
        [row.sample] * NUM_SAMPLES,
        context=[row.prefix],
        reference=row.sample,
        graded="assert result",
    )
    for one in found.values():
        assert one.verdict.kind == "passed", one.verdict
        assert row.reason in one.isolation_reason, one.isolation_reason
        assert one.isolation == ("kernel" if row.reason else "fork"), one.isolation_reason
        assert not one.cold_rerun


def test_forced_fork_tells_what_a_fork_makes_of_it(grade: Grade) -> None:
    """The row "thread pool", forked all the same: it hangs, and only a fresh process clears it."""
    row = ROWS["thread pool"]
    found = grade(
        [row.sample],
        context=[row.prefix],
        reference=row.sample,
        graded="assert result",
        forced=True,
        timeout_s=1,
    )
    assert found["0"].cold_rerun
    assert found["0"].verdict.kind == "passed"
    assert "timeout in a fork" in found["0"].isolation_reason


def test_cuda_for_real(grade: Grade) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("There is no GPU here.")
    prefix = "import torch\na = torch.ones(4, device='cuda')\ndef op(): return a.sum().item() == 4"
    found = grade(
        ["result = op()"], context=[prefix], reference="result = op()", graded="assert result"
    )
    assert found["0"].isolation == "kernel"
    assert "CUDA" in found["0"].isolation_reason
