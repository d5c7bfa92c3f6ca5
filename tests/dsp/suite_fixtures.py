"""A tiny set for each suite, in the suite's own format; every registered suite must have one.

Each asks for ``add(a, b)``, or says itself what wrong answer fits its completions.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .biocoder.fixtures import write_biocoder, write_rosalind
from .conftest import write_set

ADD = "def add(a, b):\n    return a + b\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFixture:
    """How a suite is tried.

    Attributes:
        write: Writes problems below a folder; returns what ``--problems`` gets.
        wrong: A completion that does nothing right; hostile code is put after it.
        options: As on the command line.
        argv: More of the command line, for references that take their time.
        num_problems: Expected with these options.
    """

    write: Callable[[Path], Path]
    wrong: str
    options: Mapping[str, str] = field(default_factory=dict)
    argv: Sequence[str] = ()
    num_problems: int = 2


def write_jsonl(path: Path, records: Sequence[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as stream:
        stream.write(text)
    return path


def write_dsp(folder: Path) -> Path:
    cells = [
        ("code", "import math"),
        ("markdown", "Write `add`."),
        ("code", f"# your code here\n{ADD}"),
        ("code", "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"),
        ("code", "def twice(a):\n    return add(a, a)"),
        ("code", "assert twice(4) == 8"),
    ]
    problems = [
        {"task_id": f"T/{idx}", "notebook_path": "repo/add.ipynb", "cell_index": cell_idx}
        for idx, cell_idx in enumerate((2, 4))
    ]
    return write_set(folder / "dsp", {"repo/add.ipynb": cells}, problems)


def write_humaneval(folder: Path) -> Path:
    records = [
        {
            "task_id": "HumanEval/0",
            "prompt": 'import math\n\n\ndef add(a: int, b: int) -> int:\n    """ Add.\n'
            '    >>> add(2, 3)\n    5\n    """\n',
            "entry_point": "add",
            "canonical_solution": "    return a + b\n",
            "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n"
            "    assert candidate(2, 3) == 5\n    assert candidate(0, 0) == 0\n\n",
        },
        {
            # A helper before it, the docstring after an import, as in two published problems.
            "task_id": "HumanEval/1",
            "prompt": 'def half(a):\n    """Halve."""\n    return a / 2\n\n\ndef mean(a, b):\n'
            '    import math\n    """Return the mean of two numbers."""\n',
            "entry_point": "mean",
            "canonical_solution": "    return half(a + b)\n",
            "test": "def check(candidate):\n    assert candidate(2, 4) == 3\n",
        },
    ]
    return write_jsonl(folder / "HumanEval.jsonl.gz", records)


def write_mbpp(folder: Path) -> Path:
    def row(task_id: int, text: str, code: str, tests: Sequence[str], **more: object) -> dict:
        given = {"task_id": task_id, "text": text, "code": code, "test_list": list(tests)}
        return {**given, "test_setup_code": "", "challenge_test_list": [], **more}

    shots = [row(idx, f"Write shot {idx}.", f"x = {idx}", ["assert x"]) for idx in (2, 3, 4)]
    records = [
        *shots,
        row(11, "Write a function to add.", ADD.replace("\n", "\r\n"), ["assert add(2, 3) == 5"]),
        # The set-up uses a class of the code, as in one published problem.
        row(
            12,
            "Write a class with a value.",
            "class Box:\n    def __init__(self, value):\n        self.value = value\n",
            ["assert box.value == 7"],
            test_setup_code="box = Box(7)",
            challenge_test_list=["assert Box(-1).value == -1"],
        ),
        row(600, "Not of the evaluation.", "y = 1", ["assert y == 1"]),
    ]
    return write_jsonl(folder / "mbpp.jsonl", records)


FIXTURES: dict[str, SuiteFixture] = {
    "dsp": SuiteFixture(write=write_dsp, wrong="def add(a, b):\n    return None\n"),
    "humaneval": SuiteFixture(write=write_humaneval, wrong="    return None\n"),
    "mbpp": SuiteFixture(write=write_mbpp, wrong="def add(a, b):\n    return None\nbox = None\n"),
    "biocoder": SuiteFixture(write=write_biocoder, wrong="def add(*args):\n    return None\n"),
    "rosalind": SuiteFixture(write=write_rosalind, wrong="def main(file):\n    print()\n"),
}
