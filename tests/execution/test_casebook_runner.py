"""Casebook R01 to R05, R07 and R14: one sample, and what the engine must say of it.

All samples of an isolation run in one worker, one after another, so each also shows that the ones
before it left nothing behind.
"""

from collections.abc import Callable

import pytest

from jupyt5.execution.engine import Judged, Replied
from jupyt5.execution.jobs import Attempt, Isolation, Job, Task
from jupyt5.execution.verdicts import CellStatus

pytestmark = pytest.mark.kernel

Grade = Callable[..., dict[str, Judged]]
Run = Callable[..., list[Judged | Replied]]

GOLD = "def add(a, b):\n    return a + b\n"
NINE = "def add(a, b):\n    return 9\n"
YES = """class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
def add(a, b):
    return Yes()
"""
IN_ADD = "import os, sys\ndef add(a, b):\n    {}\n    return a + b\n"
# Name, sample, kinds of verdict that are right.
SAMPLES = {
    "gold": (GOLD, "passed"),
    "R01 error at top level": ("1/0", "error"),
    "wrong": (NINE, "wrong"),
    "syntax": ("def add(a, b:\n", "syntax"),
    "R02 _exit in add": (IN_ADD.format("os._exit(0)"), "died"),
    "R02 _exit": ("import os\nos._exit(0)", "died"),
    "R02 kill": ("import os\nos.kill(os.getpid(), 9)", "died"),
    "R02 abort": ("import os\nos.abort()", "died"),
    "R02 exec": ("import os\nos.execv('/bin/true', ['true'])", "died"),
    "R02 exec in add": (IN_ADD.format("os.execv('/bin/true', ['true'])"), "died"),
    "R02 crash": ("import ctypes\nctypes.string_at(0)", "died"),
    # Nobody else is there to be killed; its parent is out of sight, and 0 means its own group.
    "R02 kill all": ("import os\nos.kill(-1, 9)", "error"),
    "R02 kill parent": ("import os\nos.kill(os.getppid(), 9)", "died"),
    "R02 kill group": ("import os\nos.killpg(0, 9)", "died"),
    "after deaths": (GOLD, "passed"),
    "R03 nobody prints": (
        f"shell = get_ipython()\ntype(shell).showtraceback = lambda *a, **k: None\n{NINE}",
        "wrong",
    ),
    "R04 SystemExit": (IN_ADD.format("raise SystemExit(0)"), "exit"),
    "R04 sys.exit": (IN_ADD.format("sys.exit()"), "exit"),
    "R04 KeyboardInterrupt": (IN_ADD.format("raise KeyboardInterrupt"), "exit"),
    "R04 exit in add": (IN_ADD.format("exit()"), "wrong exit"),
    "R04 quit": (f"quit()\n{GOLD}", "exit"),
    "R04 late SystemExit": (f"{GOLD}raise SystemExit", "passed"),
    "R04 interrupt": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)", "exit"),
    "after exits": (GOLD, "passed"),
    "R05 yes": (YES, "passed"),
    "R05 numpy": ("import numpy\ndef add(a, b):\n    return numpy.int64(a) + b\n", "passed"),
    "R07 inline": (f"%matplotlib inline\n{GOLD}", "passed"),
    "R07 shell": (f"!echo hi\nout = !echo ho\nassert out == ['ho']\n{GOLD}", "passed"),
    "R07 install": (f"!pip install numpy\n{GOLD}", "passed"),
    "R07 %pip": (f"%pip install numpy\n{GOLD}", "passed"),
    "R07 %%time": (f"%%time\n{GOLD}", "passed"),
    "R14 own marker": (f"# <jupyt5>\n# <grading cell 1>\n# %%\n# In[2]:\n{NINE}", "wrong"),
    "R14 separator": (f'{NINE}"""\n# %%\n"""\n\n\n# %%\ndef add(a, b): return a + b + 1', "wrong"),
    "input": (f"input('?')\n{GOLD}", "error passed"),
    "input in add": (IN_ADD.format("input()"), "error"),
    "await": (f"import asyncio\nawait asyncio.sleep(0)\n{GOLD}", "passed"),
    "output and history": (f"1 + 1\n{GOLD}", "passed"),
    "empty": ("", "error"),
    "lone surrogate": ("x = '\ud800'", "syntax error"),
    "nul": ("x = 1\x00", "syntax error"),
    "last": (GOLD, "passed"),
}
# Two run into the limit on purpose: their own job, with a short one.
HANGS = {
    "R01 endless loop": "while True:\n    pass\n",
    "R01 endless loop in add": IN_ADD.format("while True: pass"),
    "no break": "while True:\n    try:\n        while True: pass\n    except BaseException: pass\n",
    "sleep": "import time\ntime.sleep(600)\n",
    "stop": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
}


@pytest.fixture
def table(grade: Grade, isolation: Isolation) -> dict[str, Judged]:
    return _grade_table(grade, isolation)


_done: dict[Isolation, dict[str, Judged]] = {}


def _grade_table(grade: Grade, isolation: Isolation) -> dict[str, Judged]:
    if isolation not in _done:
        samples = {name: source for name, (source, _) in SAMPLES.items()}
        _done[isolation] = grade(samples, isolation=isolation)
    return _done[isolation]


@pytest.mark.parametrize("name", SAMPLES)
def test_verdict(name: str, table: dict[str, Judged]) -> None:
    found, (_, kinds) = table[name], SAMPLES[name]
    assert found.verdict.kind in kinds.split(), found.verdict
    if found.verdict.kind == "died":
        # A death is noticed, not waited out: the limit is 90 s, and this machine may be busy.
        assert found.wall_s < 60


def test_only_what_is_suspect_is_flagged(table: dict[str, Judged]) -> None:
    flagged = {name: one.verdict.flags for name, one in table.items() if one.verdict.flags}
    assert flagged.pop("R05 yes") == ("suspect: comparison overridden",)
    assert flagged.pop("R04 late SystemExit") == ("solution cell raised",)
    assert flagged.pop("R03 nobody prints") == ("suspect: shell changed",)
    assert flagged.pop("R02 crash") == ("suspect: native memory",)
    flagged.pop("input", None)
    assert flagged == {}


def test_each_sample_says_how_it_ran(table: dict[str, Judged], isolation: Isolation) -> None:
    for name, one in table.items():
        crashed_in_fork = isolation == "fork" and name in ("R02 crash", "R02 abort")
        assert one.cold_rerun == crashed_in_fork, name
        assert one.isolation == ("kernel" if crashed_in_fork else isolation), name


@pytest.mark.slow
def test_r01_hung_samples_time_out(grade: Grade, isolation: Isolation) -> None:
    found = grade({**HANGS, "gold": GOLD}, isolation=isolation, timeout_s=1)
    assert found.pop("gold").verdict.passed
    for name, one in found.items():
        assert one.verdict.kind == "timeout", (name, one.verdict)
        assert one.wall_s < 20, name
        # A time-out in a fork could be the fork's fault: it counts only in a fresh process.
        assert one.cold_rerun == (isolation == "fork"), name


def test_r05_honest_comparisons_are_not_flagged(grade: Grade, isolation: Isolation) -> None:
    pytest.importorskip("pandas")
    honest = {
        "array": "def add(a, b):\n    return np.array([a, b])\n",
        "series": "def add(a, b):\n    return pd.Series([a, b]).to_numpy()\n",
        "dataclass": (
            "from dataclasses import dataclass\n@dataclass(order=True)\nclass Pair:\n    a: int\n"
            "    b: int\ndef add(a, b):\n    p = Pair(a, b)\n    return np.array([p.a, p.b])\n"
        ),
        "namedtuple": (
            "from collections import namedtuple\nP = namedtuple('P', 'a b')\n"
            "def add(a, b):\n    return np.array(P(a, b))\n"
        ),
    }
    found = grade(
        honest,
        context=["import numpy as np\nimport pandas as pd"],
        graded="np.testing.assert_array_equal(add(2, 3), [2, 3])",
        isolation=isolation,
    )
    assert {one.verdict.kind for one in found.values()} == {"passed"}
    assert {one.verdict.flags for one in found.values()} == {()}


def test_r07_magics_in_grading_cells(run: Run, isolation: Isolation) -> None:
    """One notebook, a problem for each: a magic must neither hide a failure nor make one."""
    graded = [
        "%%time\nassert add(2, 3) == 5",
        "%%capture out\nassert add(2, 3) == 5",
        "%time assert add(2, 3) == 5",
        "!echo hi\nassert add(2, 3) == 5",
        "import asyncio\nawait asyncio.sleep(0)\nassert add(2, 3) == 5",
        "%matplotlib inline\nassert add(2, 3) == 5",
    ]
    attempts = (Attempt(key="wrong", source=NINE), Attempt(key="passed", source=GOLD))
    cells = [source for text in graded for source in (GOLD, text)]
    tasks = tuple(
        Task(name=text, cell_idx=2 * idx, grading_idxs=(2 * idx + 1,), attempts=attempts)
        for idx, text in enumerate(graded)
    )
    found = run(Job(cells=tuple(enumerate(cells)), tasks=tasks), isolation=isolation)
    kinds = {(one.task, one.key): one.verdict.kind for one in found if isinstance(one, Judged)}
    assert kinds == {(text, kind): kind for text in graded for kind in ("wrong", "passed")}


def test_r07_refused_escapes_in_context_cells_are_told(
    run: Run, make_notebook: Callable[..., Job]
) -> None:
    context = ["!pip install numpy", "import sys\n!{sys.executable} -m pip install x", "!echo pip"]
    found = run(make_notebook([GOLD], context=context))
    refused = [one.refused for one in found if isinstance(one, Replied)]
    assert refused[0] == ("pip install numpy",)
    assert len(refused[1]) == 1
    assert refused[1][0].endswith("-m pip install x")
    assert refused[2] == ()
    assert [one.verdict.kind for one in found if isinstance(one, Judged)] == ["passed"]


def test_r14_failing_context_is_nobodys_failure(
    run: Run, make_notebook: Callable[..., Job], isolation: Isolation
) -> None:
    context = ["base = open('missing.txt').read()"]
    found = run(make_notebook([GOLD, NINE, "1/0"], context=context), isolation=isolation)
    judged = [one for one in found if isinstance(one, Judged)]
    assert [one.verdict.kind for one in judged] == ["context"] * 3
    assert all("FileNotFoundError" in one.verdict.message for one in judged)
    if isolation == "fork":
        told = [one.reply for one in found if isinstance(one, Replied)]
        assert [(one.cell_idx, one.status) for one in told[:1]] == [(0, CellStatus.ERROR)]


def test_r14_forgiven_context_is_flagged(grade: Grade, isolation: Isolation) -> None:
    found = grade(
        {"gold": GOLD, "bad": NINE},
        context=["base = open('missing.txt').read()"],
        forgives_context=True,
        isolation=isolation,
    )
    assert found["gold"].verdict.kind == "passed"
    assert found["gold"].verdict.flags == ("context cell raised",)
    assert found["gold"].context_errors == (0,)
    assert found["bad"].verdict.kind == "wrong"


def test_r14_teacher_forcing(run: Run, isolation: Isolation) -> None:
    cells = [GOLD, "assert add(2, 3) == 5", "def double(a):\n    return add(a, a)\n"]
    cells.append("assert double(4) == 8")
    # Fresh processes share nothing that could wear out.
    num_samples = 50 if isolation == "fork" else 5
    wrong = tuple(Attempt(key=f"w{idx}", source=NINE) for idx in range(num_samples))
    right = tuple(Attempt(key=f"r{idx}", source=cells[2]) for idx in range(num_samples))
    tasks = (
        Task(name="add", cell_idx=0, grading_idxs=(1,), attempts=wrong),
        Task(name="double", cell_idx=2, grading_idxs=(3,), attempts=right),
    )
    found = run(Job(cells=tuple(enumerate(cells)), tasks=tasks), isolation=isolation)
    kinds = {
        name: {one.verdict.kind for one in found if isinstance(one, Judged) and one.task == name}
        for name in ("add", "double")
    }
    assert kinds == {"add": {"wrong"}, "double": {"passed"}}


def test_cells_between_solution_and_grading_run_but_do_not_judge(
    run: Run, isolation: Isolation
) -> None:
    cells = [GOLD, "x = add(1, 1)", "1/0", "assert x == 2"]
    attempts = tuple(Attempt(key=key, source=text) for key, text in (("g", GOLD), ("n", NINE)))
    task = Task(name="t", cell_idx=0, grading_idxs=(3,), attempts=attempts)
    found = run(Job(cells=tuple(enumerate(cells)), tasks=(task,)), isolation=isolation)
    kinds = {one.key: one.verdict.kind for one in found if isinstance(one, Judged)}
    assert kinds == {"g": "passed", "n": "wrong"}
