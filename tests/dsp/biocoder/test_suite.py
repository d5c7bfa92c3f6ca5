"""BioCoder's suite from end to end: real programs in the real sandbox."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .fixtures import ADD, MEMBER, MEMBER_CONTEXT, PLAIN_CONTEXT, make_row, write_rows

pytestmark = pytest.mark.kernel

Grade = Callable[..., Any]
WRONG = "def add(a, b):\n    return a - b\n"

COMPLETIONS = {
    "whole": ADD,
    "body": "    return a + b\n",
    "near": "def add(a, b):\n    return a + b + (a % 7 == 0)\n",
    "wrong": WRONG,
    "broken": "def add(a, b):\n    return a +\n",
    "null byte": "def add(a, b):\n    return a + b\n# \0",
    "margin": "return a + b\n",
    "raises": "def add(a, b):\n    return a + c\n",
    "eval": "def add(a, b):\n    return eval('a +')\n",
    "loops": "def add(a, b):\n    while True: pass\n",
    "exit code 3": "import sys\ndef add(a, b):\n    sys.exit(3)\n",
    "exit code 0": "import sys\ndef add(a, b):\n    print('sum', a + b, 1, 1)\n    sys.exit(0)\n",
    "absent": "",
}


def test_verdicts_and_the_inputs_that_decide(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("plain", ADD, PLAIN_CONTEXT)])
    graded = grade("biocoder", path, ["plain"], COMPLETIONS, "--option", "inputs=30")
    assert graded.verdicts("plain") == {
        "whole": "passed",
        "body": "passed",
        "near": "wrong",
        "wrong": "wrong",
        "broken": "syntax",
        "null byte": "syntax",
        "margin": "syntax",
        "raises": "error",
        "eval": "error",
        "loops": "timeout",
        "exit code 3": "error",
        "exit code 0": "wrong",
        "absent": "error",
    }
    own = graded.by_problem["plain"]
    assert "on input 1 of 30" in own["wrong"]["message"]
    assert "expected 'sum " in own["wrong"]["message"]
    # It differs on one input in seven only: the first round of one input need not find it.
    assert "of 30, line 1" in own["near"]["message"]
    assert "NameError" in own["raises"]["traceback"]
    for name in ("raises", "loops", "broken"):
        assert own[name]["message"].endswith(" on input 1 of 30.")
        assert ". on input" not in own[name]["message"]


def test_members_are_inserted_with_their_indentation(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("member", MEMBER, MEMBER_CONTEXT)])
    texts = {
        "whole": MEMBER,
        "body": "    return a + b\n",
        "two": (
            "def add(self, a, b):\n    return self.own(a) + b\ndef own(self, a):\n    return a\n"
        ),
        "wrong": "def add(self, a, b):\n    return 6\n",
    }
    graded = grade("biocoder", path, ["member"], texts)
    assert list(graded.verdicts("member").values()) == ["passed", "passed", "passed", "wrong"]


def test_problems_that_can_judge_nothing_are_found(tmp_path: Path, grade: Grade) -> None:
    unseeded = PLAIN_CONTEXT.replace("helper():", "helper():\n    import random").replace(
        "return 0", "return random.random()"
    )
    ordered = "import os\n<<insert solution here>>\nprint({'a', 'bc', 'def', 'g'}, add(1, 2))\n"
    again = f"import os\n<<insert solution here>>\n{ADD}print(add(1, 2))\n"
    silent = "import os\n<<insert solution here>>\nadd(1, 2)\n"
    commented = "import os\n# <<insert solution here>>\nprint(1)\n"
    missing = "import absent_package\n<<insert solution here>>\nprint(add(1, 2))\n"
    rows = [
        make_row("sound", ADD, PLAIN_CONTEXT),
        make_row("unseeded", ADD, unseeded),
        make_row("set order", ADD, ordered),
        make_row("defined again", ADD, again),
        make_row("silent", ADD, silent),
        make_row("commented", ADD, commented),
        make_row("package missing", ADD, missing),
        make_row("no context", ADD, ""),
    ]
    names = [str(row["id"]) for row in rows]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    graded = grade("biocoder", path, names, {"gold": ADD, "wrong": WRONG})
    found = {name: (one["usable"], one["reason"]) for name, one in graded.validations.items()}
    assert found["sound"] == ("yes", "")
    assert found["unseeded"][0] == "no"
    assert found["set order"][0] in ("unstable", "no")
    assert found["defined again"][0] == "vacuous"
    assert "prints nothing" in found["silent"][1]
    assert "in a comment" in found["commented"][1]
    assert "No module named 'absent_package'" in found["package missing"][1]
    assert found["no context"] == ("no", "no test context")
    assert graded.verdicts("sound") == {"gold": "passed", "wrong": "wrong"}
    for name in names[1:]:
        assert graded.verdicts(name) == {"gold": "invalid", "wrong": "invalid"}, name


def test_repairs_are_made_on_request_only_and_told(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("plain", ADD, PLAIN_CONTEXT)])
    texts = {"fenced": f"Here:\n```python\n{ADD}```\n", "gold": ADD}
    plain = grade("biocoder", path, ["plain"], texts)
    assert plain.verdicts("plain") == {"fenced": "syntax", "gold": "passed"}
    repaired = grade("biocoder", path, ["plain"], texts, "--option", "corrections=yes")
    assert repaired.verdicts("plain") == {"fenced": "passed", "gold": "passed"}
    own = repaired.by_problem["plain"]
    assert own["fenced"]["flags"] == ["corrected: fence removed"]
    assert own["gold"]["flags"] == []


@pytest.mark.slow
def test_other_seeds_make_other_inputs_and_the_same_verdicts(tmp_path: Path, grade: Grade) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_row("plain", ADD, PLAIN_CONTEXT)])
    messages = set()
    for seed in ("0", "1"):
        graded = grade(
            "biocoder",
            path,
            ["plain"],
            {"gold": ADD, "bad": WRONG},
            "--option",
            f"input-seed={seed}",
        )
        assert graded.verdicts("plain") == {"gold": "passed", "bad": "wrong"}
        messages.add(graded.by_problem["plain"]["bad"]["message"])
    assert len(messages) == 2
