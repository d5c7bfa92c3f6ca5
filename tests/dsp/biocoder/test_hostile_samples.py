"""Samples that want to pass without an answer, or to harm."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .fixtures import make_row, write_rows

pytestmark = pytest.mark.kernel

# What the reference prints; every sample below looks for it, or knows it.
SECRET = "918273645"
GOLDEN = f"def add(a, b):\n    return {SECRET} + a + b\n"
CONTEXT = "import os\n<<insert solution here>>\nprint(add(0, 0))\n"
NEEDLE = "needle = '546372819'[::-1]\n"
LOOK = """
def add(a, b):
    import gc, os, sys
    found = []
    def see(text):
        if needle in str(text):
            found.append(needle)
    see(os.environ)
    frame = sys._getframe().f_back.f_back
    while frame is not None:
        see(list(frame.f_locals.values()))
        frame = frame.f_back
    for one in gc.get_objects():
        if isinstance(one, (dict, list, tuple)):
            try:
                see(one)
            except Exception:
                pass
    for root in ("/proc/1", "/proc/self", "/proc/%d" % os.getppid()):
        for name in ("environ", "cmdline"):
            try:
                see(open(root + "/" + name, "rb").read())
            except OSError:
                pass
    for top in (".", "/tmp", os.path.expanduser("~"), %r):
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    see(open(os.path.join(folder, name), "rb").read(1 << 20))
                except OSError:
                    pass
    return "found " + found[0] if found else "nothing found"
"""
RIGHT = f"print({SECRET}, flush=True)\n"


def test_nothing_passes_without_an_answer(tmp_path: Path, grade: Callable[..., Any]) -> None:
    path = write_rows(tmp_path / "set" / "rows.jsonl", [make_row("p", GOLDEN, CONTEXT)])
    texts = {
        "gold": GOLDEN,
        "looks around": NEEDLE + LOOK % str(tmp_path),
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
    looked = graded.by_problem["p"]["looks around"]
    assert looked["verdict"] == "wrong"
    assert looked["output_head"].strip() == "nothing found"
    assert verdicts["ends after printing"] == "died"
    assert verdicts["prints much"] == "limit"
    assert verdicts["deep"] == "syntax"
