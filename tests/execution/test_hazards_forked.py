"""Context cells that leave something behind which a forked process can go on with.

Every row uses something in a context cell and again in each of its samples. All rows of a table
are problems of one notebook, so each also finds what the rows above it left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from jupyt5.execution.engine import Judged, Replied
from jupyt5.execution.jobs import Attempt, Job, Task

pytestmark = pytest.mark.kernel

Run = Callable[..., list[Judged | Replied]]
NUM_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Row:
    """``prefix`` runs before the problem; a right sample makes ``result`` true."""

    prefix: str
    needs: tuple[str, ...] = ()
    sample: str = "result = op()"

    def find_missing(self) -> list[str]:
        """Return what is not installed."""
        return [name for name in self.needs if find_spec(name) is None]


LIGHT = {
    "nothing": Row("def op(): return True"),
    "OpenBLAS": Row(
        """import numpy as np
a = np.random.default_rng(0).random((200, 200))
def op():
    return bool(np.isfinite((a @ a).sum()) and len(np.linalg.svd(a)[1]) == 200)
op()""",
        needs=("numpy",),
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
    "to_thread": Row(
        """import asyncio
async def start():
    return await asyncio.to_thread(abs, -1) == 1
await start()""",
        sample="result = await start()",
    ),
    "finished thread": Row(
        """import threading
def op():
    thread = threading.Thread(target=abs, args=(-1,))
    thread.start(); thread.join()
    return True
op()"""
    ),
    "thread about to end": Row(
        """import threading, time
def op():
    threading.Thread(target=time.sleep, args=(0.05,)).start()
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
    "memmap for reading": Row(
        """import numpy as np
np.arange(4, dtype='i4').tofile('table.bin')
table = np.memmap('table.bin', 'i4', 'r')
def op():
    return int(table.sum()) == 6
op()""",
        needs=("numpy",),
    ),
}
# Slow to import, or with processes of their own.
HEAVY = {
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
}


def judge_table(run: Run, rows: Mapping[str, Row]) -> dict[str, list[Judged]]:
    cells: list[str] = []
    tasks: list[Task] = []
    for name, row in rows.items():
        if row.find_missing():
            continue
        at = len(cells) + 1
        cells += [row.prefix, row.sample, "assert result"]
        attempts = tuple(Attempt(key=str(idx), source=row.sample) for idx in range(NUM_SAMPLES))
        tasks.append(Task(name=name, cell_idx=at, grading_idxs=(at + 1,), attempts=attempts))
    found: dict[str, list[Judged]] = {}
    for one in run(Job(cells=tuple(enumerate(cells)), tasks=tuple(tasks), seed=7)):
        if isinstance(one, Judged):
            found.setdefault(one.task, []).append(one)
        elif isinstance(one, Replied):
            assert not one.reply.error_name, one.reply
    return found


@pytest.fixture(scope="module")
def light(run: Run) -> dict[str, list[Judged]]:
    return judge_table(run, LIGHT)


@pytest.fixture(scope="module")
def heavy(run: Run) -> dict[str, list[Judged]]:
    return judge_table(run, HEAVY)


def check_row(name: str, row: Row, found: dict[str, list[Judged]]) -> None:
    missing = row.find_missing()
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed.")
    assert len(found[name]) == NUM_SAMPLES
    for one in found[name]:
        assert one.isolation == "fork", one.isolation_reason
        assert one.verdict.kind == "passed", one.verdict
        assert not one.cold_rerun


@pytest.mark.parametrize("name", LIGHT)
def test_light_row_is_forked(name: str, light: dict[str, list[Judged]]) -> None:
    check_row(name, LIGHT[name], light)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_row_is_forked(name: str, heavy: dict[str, list[Judged]]) -> None:
    check_row(name, HEAVY[name], heavy)
