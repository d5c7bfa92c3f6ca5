"""Casebook R08 to R11: processes, files, output, and hash seeds."""

import hashlib
import os
import resource
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyt5.execution.engine import Judged, run_job
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Isolation, Job, Limits
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.scratch import remove_folder
from jupyt5.execution.setting import Setting
from jupyt5.execution.views import make_view

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

Grade = Callable[..., dict[str, Judged]]
MakeNotebook = Callable[..., Job]
ListDescendants = Callable[[], dict[int, str]]
WaitUntil = Callable[[Callable[[], object], float], bool]

GOLD = "def add(a, b):\n    return a + b\n"
# R08
LEAVER = """import os, subprocess, sys
open('left.txt', 'w').write('x')
def add(a, b):
    subprocess.Popen(
        [sys.executable, '-S', '-c', 'import time; time.sleep(300)'], start_new_session=True
    )
    if os.fork() == 0:
        os.setsid()
        import time
        time.sleep(300)
    return a + b
"""
# R09
DATA = {"data.csv": "x\n1\n2\n"}
# The sum of what it writes is another, so that an honest sample that read it would fail.
BAD = "open('data.csv', 'w').write('x\\n4\\n')\ndef total():\n    return 3\n"
HONEST = """def total():
    return sum(int(r["x"]) for r in csv.DictReader(open("data.csv")))
import csv
"""
TOTAL = "import csv\nassert total() == 3"


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def test_r08_nothing_that_a_sample_started_outlives_its_verdict(
    walls: Sandbox,
    interpreter: Interpreter,
    isolation: Isolation,
    make_notebook: MakeNotebook,
    list_descendants: ListDescendants,
    wait_until: WaitUntil,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    view_path = make_view(None)
    num_fds = len(os.listdir("/proc/self/fd"))
    files = set(tmp_path.iterdir())  # the view, and this process's lock beside it
    before = set(list_descendants())
    setting = Setting(
        interpreter=interpreter,
        sandbox=walls,
        limits=Limits(timeout_s=30),
        view_path=view_path,
        isolation=isolation,
    )

    def list_new() -> set[int]:
        return set(list_descendants()) - before

    num_samples = 50
    num_judged, most = 0, 0
    for found in run_job(make_notebook([LEAVER] * num_samples), setting):
        if isinstance(found, Judged):
            num_judged += 1
            most = max(most, len(list_new()))
            # GOLD's answer is right, whatever else it does.
            assert found.verdict.kind == "passed", found.verdict
            assert found.wall_s < 20
            # The worker itself is three processes: warden, init, interpreter; then the next
            # sample's init, the sample, and what that started.
            assert wait_until(lambda: len(list_new()) <= 3 + 4, 1.0), list_new()
    assert num_judged == num_samples
    assert most > 0
    assert wait_until(lambda: not list_new(), 1.0)
    assert len(os.listdir("/proc/self/fd")) == num_fds
    assert set(tmp_path.iterdir()) == files
    assert list((view_path / "jupyt5" / "work").iterdir()) == []
    remove_folder(view_path)
    assert list(tmp_path.iterdir()) == []


def test_r08_closing_the_iterator_ends_everything(
    sandbox: Sandbox,
    interpreter: Interpreter,
    view_path: Path,
    make_notebook: MakeNotebook,
    list_descendants: ListDescendants,
    wait_until: WaitUntil,
) -> None:
    before = set(list_descendants())
    setting = Setting(
        interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=30), view_path=view_path
    )
    job = make_notebook([GOLD, "while True: pass"])
    running = run_job(job, setting)
    first = next(one for one in running if isinstance(one, Judged))
    assert first.verdict.kind == "passed"
    assert set(list_descendants()) - before
    running.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert wait_until(lambda: not set(list_descendants()) - before, 1.0)


@pytest.mark.parametrize("first", [BAD, HONEST], ids=["bad first", "honest first"])
def test_r09_samples_do_not_change_each_others_data(
    first: str, grade: Grade, isolation: Isolation
) -> None:
    second = HONEST if first is BAD else BAD
    num_samples = 40 if isolation == "fork" else 10
    samples = {f"{idx}": first if idx % 2 == 0 else second for idx in range(num_samples)}
    found = grade(
        samples,
        context=["import csv"],
        graded=TOTAL,
        reference=HONEST,
        files=DATA,
        isolation=isolation,
    )
    kinds = {samples[key]: one.verdict.kind for key, one in found.items()}
    # BAD deceives nobody but itself: its own answer is three, in its own world.
    assert kinds == {BAD: "passed", HONEST: "passed"}
    assert {one.verdict.kind for one in found.values()} == {"passed"}


def test_r09_both_at_once_and_the_data_stay_as_they_were(
    walls: Sandbox, interpreter: Interpreter, view_path: Path, make_notebook: MakeNotebook
) -> None:
    before = digest(view_path)
    setting = Setting(
        interpreter=interpreter, sandbox=walls, limits=Limits(timeout_s=30), view_path=view_path
    )
    spoiler = f"import os\n{BAD}open('new.txt', 'w').close()\nos.mkdir('d'); os.remove('data.csv')"

    def judge(source: str) -> set[str]:
        job = make_notebook([source] * 20, graded=TOTAL, reference=HONEST)
        return {str(one.verdict.kind) for one in run_job(job, setting) if isinstance(one, Judged)}

    with ThreadPoolExecutor(2) as pool:
        kinds = list(pool.map(judge, [spoiler, HONEST]))
    assert kinds[1] == {"passed"}
    assert digest(view_path) == before


def test_r10_flood_of_output(grade: Grade, isolation: Isolation) -> None:
    flood = "def add(a, b):\n    for _ in range(1_000_000): print('x' * 80)\n    return a + b\n"
    once = "assert add(2, 3) == 5"
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = grade([flood, GOLD], graded=once, isolation=isolation, timeout_s=120)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    verdict = found["0"].verdict
    assert verdict.kind == "passed", verdict
    assert len(verdict.output_head.encode()) <= 4096
    head, _, mark = verdict.output_head.rpartition("\n[… ")
    assert mark == f"{81_000_000 - len(head):,} more characters]"
    assert found["1"].verdict.kind == "passed"
    assert grown_kib < 20 * 1024


def test_r10_endless_output_is_a_time_out(grade: Grade) -> None:
    endless = "while True: print('x')"
    sneaky = "import os\nwhile True: os.write(1, b'x' * 1000); os.write(251, b'{}\\n' * 99)"
    reports = "import os\nwhile True: os.write(250, b'x' * 1000)"
    found = grade({"e": endless, "s": sneaky, "r": reports, "gold": GOLD}, timeout_s=1)
    assert found["e"].verdict.kind == "timeout"
    assert found["s"].verdict.kind == "timeout"
    assert found["r"].verdict.kind in ("timeout", "died", "limit", "error")
    assert "suspect: report channel written" in found["r"].verdict.flags
    assert found["gold"].verdict.kind == "passed"


def test_r11_hash_seed_is_fixed(
    sandbox: Sandbox, interpreter: Interpreter, view_path: Path, make_notebook: MakeNotebook
) -> None:
    tags = "def tags():\n    return tuple(set(['ant', 'bee', 'cat']))\n"
    graded = "assert tags() == ('ant', 'bee', 'cat')"

    def judge(seed: int, isolation: Isolation = "fork") -> str:
        job = make_notebook([tags], reference=tags, graded=graded)
        job = Job(cells=job.cells, tasks=job.tasks, seed=seed)
        setting = Setting(
            interpreter=interpreter,
            sandbox=sandbox,
            limits=Limits(timeout_s=30),
            view_path=view_path,
            isolation=isolation,
        )
        (found,) = (one for one in run_job(job, setting) if isinstance(one, Judged))
        return str(found.verdict.kind)

    kinds: list[str] = []
    for num_workers, num_runs in ((1, 4), (2, 8), (8, 18)):
        with ThreadPoolExecutor(num_workers) as pool:
            kinds += pool.map(judge, [1] * num_runs)
    assert len(kinds) == 30
    assert len(set(kinds)) == 1
    assert judge(1, "kernel") == kinds[0]
    # The verdict does hang on the seed: one order in six is the right one.
    others = (judge(seed) for seed in range(2, 60))
    assert any(kind != kinds[0] for kind in others)


def test_random_numbers_are_fixed_too(grade: Grade, isolation: Isolation) -> None:
    pytest.importorskip("numpy")
    draw = "import random\nimport numpy as np\nx = (random.random(), float(np.random.rand()))\n"
    found = grade(
        [draw] * 4,
        context=["import random\nimport numpy as np\nrandom.random()"],
        reference=draw,
        graded="raise ValueError(repr(x))",
        isolation=isolation,
    )
    assert len({one.verdict.message for one in found.values()}) == 1
