"""Samples that want to pass without an answer, or to harm."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .fixtures import make_row, write_rows

pytestmark = pytest.mark.kernel

Grade = Callable[..., Any]

# What the reference prints; every sample below looks for it, or knows it.
# Another one each time: this file itself may be among what a sample can read.
SECRET = str(10**11 + secrets.randbelow(10**11))
GOLDEN = f"def add(a, b):\n    return {SECRET} + a + b\n"
CONTEXT = "import os\n<<insert solution here>>\nprint(add(0, 0))\n"
# Not a text of its own that it could find.
NEEDLE = f"def needle():\n    return ''.join(reversed('{SECRET[::-1]}'))\n"
LOOK = """
def add(a, b):
    import gc, os, sys
    found = []
    def see(text):
        if needle() in str(text):
            found.append(needle())
    see(os.environ)
    frame = sys._getframe().f_back.f_back
    while frame is not None:
        see(list(frame.f_locals.values()))
        frame = frame.f_back
    try:
        objects = gc.get_objects()
    except PermissionError:  # refused in samples
        objects = []
    for one in objects:
        if isinstance(one, (dict, list, tuple)):
            try:
                see(one)
            except Exception:
                pass
    for root in ("/proc/1", "/proc/self", "/proc/" + str(os.getppid())):
        for name in ("environ", "cmdline"):
            try:
                see(open(root + "/" + name, "rb").read())
            except OSError:
                pass
    for top in (".", "/tmp/jupyt5", os.path.expanduser("~"), %r):
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    see(open(os.path.join(folder, name), "rb").read(1 << 20))
                except OSError:
                    pass
    return "found " + found[0] if found else "nothing found"
"""
RIGHT = f"print({SECRET}, flush=True)\n"
# Reads all memory that its process has, freed or not. It knows half of what it looks for.
SCAN = """
def add(a, b):
    import ctypes
    half, found = b"%s", 0
    with open("/proc/self/maps") as stream:
        regions = [line.split() for line in stream]
    for where, rights, _, _, _, *name in regions:
        if rights.startswith("rw") and name in ([], ["[heap]"], ["[stack]"]):
            first, last = (int(one, 16) for one in where.split("-"))
            for rest in ctypes.string_at(first, last - first).split(half)[1:]:
                found += rest[:4].isdigit()
    return f"found {found > 0}"
"""


def test_no_sample_finds_the_answer(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "set" / "rows.jsonl", [make_row("p", GOLDEN, CONTEXT)])
    # No right sample beside it: what samples of one worker see of each other is no answer.
    texts = {"looks around": NEEDLE + LOOK % str(tmp_path)}
    graded = grade("biocoder", path, ["p"], texts, "--timeout-s", "20")
    assert graded.validations["p"]["usable"] == "yes"
    assert graded.verdicts("p") == {"looks around": "wrong"}
    assert graded.by_problem["p"]["looks around"]["output_head"].strip() == "nothing found"


def test_no_sample_finds_the_answer_to_another_problem(tmp_path: Path, grade: Grade) -> None:
    golden = "def add(a, b):\n    return 1 + a + b\n"
    rows = [make_row("p", GOLDEN, CONTEXT), make_row("q", golden, CONTEXT)]
    path = write_rows(tmp_path / "set" / "rows.jsonl", rows)
    # One batch, and in the same worker right samples of both before and after it.
    texts = {"p's": GOLDEN, "looks around": NEEDLE + LOOK % str(tmp_path), "p's again": GOLDEN}
    graded = grade("biocoder", path, ["p", "q"], texts, "--timeout-s", "20")
    for name, verdict in (("p", "passed"), ("q", "wrong")):
        assert graded.verdicts(name) == {
            "p's": verdict, "looks around": "wrong", "p's again": verdict,
        }  # fmt: skip
        seen = graded.by_problem[name]["looks around"]["output_head"].strip()
        assert seen == "nothing found"


def test_no_worker_holds_an_answer_in_another_problem_s_program(
    tmp_path: Path, grade: Grade
) -> None:
    around = f"import os\n{GOLDEN}<<insert solution here>>\nprint(twice(4), add(0, 0))\n"
    twice = "def twice(a):\n    return 2 * a\n"
    rows = [make_row("p", GOLDEN, CONTEXT), make_row("q", twice, around)]
    path = write_rows(tmp_path / "set" / "rows.jsonl", rows)
    texts = {"scans": twice + SCAN % SECRET[:8]}
    graded = grade("biocoder", path, ["p", "q"], texts, "--timeout-s", "20")
    seen = {name: own["scans"]["output_head"].strip() for name, own in graded.by_problem.items()}
    # The answer to p stands in q's program: there, and only there, a scan finds it.
    assert seen == {"p": "found False", "q": "8 found True"}


def test_nothing_passes_without_an_answer(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "set" / "rows.jsonl", [make_row("p", GOLDEN, CONTEXT)])
    texts = {
        "gold": GOLDEN,
        "ends after printing": f"import os\ndef add(a, b): pass\n{RIGHT}os._exit(0)\n",
        "killed after printing": (
            f"import os, signal\ndef add(a, b): pass\n{RIGHT}os.kill(os.getpid(), signal.SIGKILL)\n"
        ),
        "patches print": (
            "import builtins\nbuiltins.print = lambda *a, **k: None\ndef add(a, b): 0\n"
        ),
        "prints for ever": "def add(a, b): pass\nwhile True: print('x' * 10_000)\n",
        "prints much": "def add(a, b): pass\nprint('x' * 3_000_000)\n",
        "forks for ever": "import os\ndef add(a, b): pass\nwhile True: os.fork()\n",
        "deep": "def add(a, b): return " + "(" * 3000 + ")" * 3000 + "\n",
    }
    graded = grade("biocoder", path, ["p"], texts)
    verdicts = graded.verdicts("p")
    assert verdicts.pop("gold") == "passed"
    assert set(verdicts) == set(texts) - {"gold"}
    assert "passed" not in verdicts.values()
    assert verdicts["ends after printing"] == "died"
    assert verdicts["prints much"] == "limit"
    assert verdicts["deep"] == "syntax"


def test_a_pass_that_reads_the_inputs_is_flagged(tmp_path: Path, grade: Grade) -> None:
    context = "import os\n<<insert solution here>>\nprint(add(<|int|>, 1))\n"
    golden = "def add(a, b):\n    return a + b\n"
    reads = 'def add(a, b):\n    return int(os.environ["HOME"] and a) + b\n'
    rows = [make_row("p", golden, context), make_row("q", reads, context)]
    path = write_rows(tmp_path / "set" / "rows.jsonl", rows)
    texts = {
        "gold": golden,
        "table": 'def add(a, b):\n    v = os.environ["PASSATK0"]\n    return {v: int(v) + 1}[v]\n',
        "body": '    from os import getenv\n    return int(getenv("PASSATK" + "0")) + b\n',
        "sets": 'def add(a, b):\n    os.environ["LANG"] = "C"\n    return a + b\n',
        "reads": reads,
    }
    graded = grade("biocoder", path, ["p", "q"], texts)
    flag = ["suspect: reads the test's inputs"]
    assert graded.verdicts("p") == graded.verdicts("q") == dict.fromkeys(texts, "passed")
    flags = {name: own["flags"] for name, own in graded.by_problem["p"].items()}
    assert flags == {"gold": [], "table": flag, "body": flag, "sets": [], "reads": flag}
    # What the reference of q reads, it may read; a variable's name is another thing.
    flags = {name: own["flags"] for name, own in graded.by_problem["q"].items()}
    assert flags == {"gold": [], "table": flag, "body": flag, "sets": [], "reads": []}


def test_a_wrong_sample_that_reads_the_inputs_is_just_wrong(tmp_path: Path, grade: Grade) -> None:
    context = "import os\n<<insert solution here>>\nprint(add(<|int|>, 1))\n"
    row = make_row("p", "def add(a, b):\n    return a + b\n", context)
    path = write_rows(tmp_path / "set" / "rows.jsonl", [row])
    graded = grade("biocoder", path, ["p"], {"no": '    return "@" + os.environ["PASSATK0"]\n'})
    assert graded.by_problem["p"]["no"]["verdict"] == "wrong"
    assert graded.by_problem["p"]["no"]["flags"] == []
