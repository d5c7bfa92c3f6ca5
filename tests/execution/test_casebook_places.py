"""Casebook R12, and workers that die, hang or are cancelled."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyt5.execution.engine import Judged, Replied, run_job
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Job, Limits
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.setting import Setting

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

Grade = Callable[..., dict[str, Judged]]
MakeNotebook = Callable[..., Job]
ListDescendants = Callable[[], dict[int, str]]
WaitUntil = Callable[[Callable[[], object], float], bool]

GOLD = "def add(a, b):\n    return a + b\n"


def burn() -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-S", "-c", "while True: pass"]
    return [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]


def test_r12_many_at_once_on_a_busy_machine(
    sandbox: Sandbox, interpreter: Interpreter, view_path: Path, make_notebook: MakeNotebook
) -> None:
    setting = Setting(
        interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=30), view_path=view_path
    )
    num_workers = 2 * (os.cpu_count() or 1)
    jobs = [make_notebook([GOLD] * (64 // num_workers)) for _ in range(num_workers)]
    burners = burn()
    try:
        with ThreadPoolExecutor(num_workers) as pool:
            found = [
                one for part in pool.map(lambda j: list(run_job(j, setting)), jobs) for one in part
            ]
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    kinds = [one.verdict.kind for one in found if isinstance(one, Judged)]
    assert kinds == ["passed"] * 64
    assert not any(one.cold_rerun for one in found if isinstance(one, Judged))


SCRIPT = """
import asyncio, json, sys, threading, time
from pathlib import Path
from jupyt5.execution.engine import Judged, run_job
from jupyt5.execution.setting import Setting
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Job, Limits, Task
from jupyt5.execution.sandbox import choose_sandbox

where, sandbox_name, view = sys.argv[-3:]
interpreter = find_interpreter(None)
sandbox = choose_sandbox(sandbox_name, interpreter)
gold = "def add(a, b):\\n    return a + b\\n"
samples = {"gold": gold, "wrong": "def add(a, b): return 9", "loop": "while True: pass"}
task = Task(name="t", cell_idx=0, grading_idxs=(1,),
            attempts=tuple(Attempt(key=k, source=s) for k, s in samples.items()))
job = Job(cells=((0, gold), (1, "assert add(2, 3) == 5")), tasks=(task,))
setting = Setting(interpreter=interpreter, sandbox=sandbox, view_path=Path(view),
                  limits=Limits(timeout_s=0.5))
found = {}

def call():
    for one in run_job(job, setting):
        if isinstance(one, Judged):
            found[one.key] = (str(one.verdict.kind), one.cpu_s)

if where == "thread":
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
elif where == "loop":
    async def inside():
        call()
    asyncio.run(inside())
elif where == "busy threads":
    done = False
    def spin():
        while not done:
            time.sleep(0.0001)
    threads = [threading.Thread(target=spin) for _ in range(10)]
    for thread in threads: thread.start()
    call()
    done = True
else:
    call()
print(json.dumps(found))
"""


@pytest.mark.parametrize("where", ["main", "thread", "loop", "busy threads", "stdin"])
def test_r12_called_from_odd_places(where: str, sandbox: Sandbox, view_path: Path) -> None:
    arguments = [where, sandbox.name, str(view_path)]
    by_stdin = where == "stdin"
    command = [sys.executable, *(["-"] if by_stdin else ["-c", SCRIPT]), *arguments]
    done = subprocess.run(
        command,
        input=SCRIPT if by_stdin else None,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key: kind for key, (kind, _) in found.items()} == {
        "gold": "passed",
        "wrong": "wrong",
        "loop": "timeout",
    }
    # The limit of half a second of processor time is kept; a fresh process starts up as well.
    assert found["loop"][1] < 0.5 + 2


def test_r12_no_worker_listens_on_a_port(
    sandbox: Sandbox,
    interpreter: Interpreter,
    view_path: Path,
    make_notebook: MakeNotebook,
    list_descendants: ListDescendants,
) -> None:
    setting = Setting(
        interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=30), view_path=view_path
    )
    running = run_job(make_notebook([GOLD, GOLD]), setting)
    next(running)
    sockets = {
        os.readlink(path)
        for pid in list_descendants()
        for path in Path(f"/proc/{pid}/fd").iterdir()
        if os.path.lexists(path)
    }
    for _ in running:
        pass
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    inodes = {line.split()[9] for line in listening.splitlines() if len(line.split()) > 9}
    assert not {name for name in sockets if name[8:-1] in inodes and name.startswith("socket:")}


def test_killed_worker_is_started_again(
    sandbox: Sandbox,
    interpreter: Interpreter,
    view_path: Path,
    isolation: Isolation,
    make_notebook: MakeNotebook,
    list_descendants: ListDescendants,
) -> None:
    before = set(list_descendants())
    setting = Setting(
        interpreter=interpreter,
        sandbox=sandbox,
        limits=Limits(timeout_s=30),
        view_path=view_path,
        isolation=isolation,
    )
    kinds: dict[str, str] = {}
    for found in run_job(make_notebook([GOLD] * 6), setting):
        if isinstance(found, Judged):
            assert found.key not in kinds
            kinds[found.key] = str(found.verdict.kind)
            if len(kinds) == 2:
                for pid in set(list_descendants()) - before:
                    try:
                        os.kill(pid, 9)
                    except ProcessLookupError:
                        continue
    assert kinds == {str(idx): "passed" for idx in range(6)}


def test_hung_or_dying_context_cell_blocks_what_comes_after_it(
    sandbox: Sandbox, interpreter: Interpreter, view_path: Path, isolation: Isolation
) -> None:
    from jupyt5.execution.jobs import Task
    from jupyt5.execution.verdicts import CellStatus

    for bad, status in (("while True: pass", "timeout"), ("import os\nos._exit(3)", "died")):
        cells = [GOLD, "assert add(2, 3) == 5", bad, GOLD, "assert add(2, 3) == 5"]
        attempts = (Attempt(key="a", source=GOLD),)
        tasks = (
            Task(name="before", cell_idx=0, grading_idxs=(1,), attempts=attempts),
            Task(name="after", cell_idx=3, grading_idxs=(4,), attempts=attempts),
        )
        setting = Setting(
            interpreter=interpreter,
            sandbox=sandbox,
            limits=Limits(timeout_s=30, context_timeout_s=5),
            view_path=view_path,
            isolation=isolation,
        )
        found = list(run_job(Job(cells=tuple(enumerate(cells)), tasks=tasks), setting))
        kinds = {one.task: one.verdict.kind for one in found if isinstance(one, Judged)}
        assert kinds == {"before": "passed", "after": "context"}
        if isolation == "fork":
            last = [one.reply for one in found if isinstance(one, Replied)][-1]
            assert (last.cell_idx, last.status) == (2, CellStatus(status))


def test_cancel_ends_the_worker(
    sandbox: Sandbox,
    interpreter: Interpreter,
    view_path: Path,
    make_notebook: MakeNotebook,
    list_descendants: ListDescendants,
    wait_until: WaitUntil,
) -> None:
    before = set(list_descendants())
    cancel = threading.Event()
    setting = Setting(
        interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=100), view_path=view_path
    )
    threading.Timer(2.0, cancel.set).start()
    start_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(run_job(make_notebook(["while True: pass"]), setting, cancel=cancel))
    assert time.monotonic() - start_s < 20
    assert wait_until(lambda: not set(list_descendants()) - before, 1.0)
