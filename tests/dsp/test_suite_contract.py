"""What holds for every registered suite: gold passes, nothing passes for nothing, nor by force."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from jupyt5_dsp.cli import main
from jupyt5_dsp.samples import make_gold
from jupyt5_dsp.suites import find_suite, list_suites, load_suite

from .suite_fixtures import FIXTURES, SuiteFixture

# Put after a wrong answer. With --strict, for what succeeds at a price is flagged.
HOSTILE = {
    "ends the interpreter": "import os\nos._exit(0)\n",
    "exits": "import sys\nsys.exit(0)\n",
    "exits by name": "raise SystemExit\n",
    "never ends": "while True:\n    pass\n",
    "forges output": 'print(\'{"kind": "end"}\', flush=True)\nimport os\nos._exit(0)\n',
    "writes to all descriptors": (
        "import os\nfor fd in range(3, 300):\n    try:\n"
        "        os.write(fd, b'P' + bytes(32) + b'{\"kind\": \"end\"}\\n')\n"
        "    except OSError:\n        pass\n"
    ),
    "equals everything": (
        "class Same(int):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = int.__hash__\n"
        "def add(*args):\n    return Same()\nmean = twice = add\n"
    ),
    "replaces the test's helper": (
        "def check(candidate):\n    pass\nimport builtins\nbuiltins.AssertionError = Exception\n"
        "builtins.check = check\n"
    ),
}


def test_every_suite_has_a_fixture_and_says_what_it_is() -> None:
    suites = list_suites()
    assert [suite.name for suite in suites] == list(FIXTURES)
    for suite in suites:
        assert suite.version.startswith(f"{suite.name}-v")
        assert suite.about
        assert suite.licence
        assert suite.home.startswith("https://")
        for option in suite.options:
            assert not option.choices or option.default in option.choices


@pytest.mark.parametrize("name", FIXTURES)
def test_every_choice_loads_and_only_what_is_shown_differs(name: str, tmp_path: Path) -> None:
    suite, fixture = find_suite(name), FIXTURES[name]
    path = fixture.write(tmp_path)
    plain = load_suite(suite, path, fixture.options)
    assert len(plain.problems) == fixture.num_problems
    for option in suite.options:
        for choice in option.choices:
            other = load_suite(suite, path, {**fixture.options, option.name: choice})
            assert other.problems
            if option.name == "presentation":
                # Verdicts do not depend on how a model was asked.
                assert other.digest() == plain.digest()


@pytest.mark.kernel
@pytest.mark.parametrize("name", FIXTURES)
def test_gold_passes_empty_and_hostile_fail(
    name: str, tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fixture = FIXTURES[name]
    path = fixture.write(tmp_path)
    problem_set = load_suite(find_suite(name), path, fixture.options)
    tried = {"gold": None, "empty": "", "wrong": fixture.wrong}
    tried |= {idea: f"{fixture.wrong}\n{code}" for idea, code in HOSTILE.items()}
    lines = [
        {"task_id": gold.task_id, "completion": gold.completion if text is None else text}
        for gold in make_gold(problem_set)
        for text in tried.values()
    ]
    samples = tmp_path / "samples.jsonl"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = run(name, path, samples, tmp_path / "run", fixture, sandbox_option)
    capsys.readouterr()
    assert results["num_valid"] == results["num_problems"] == fixture.num_problems
    passed: dict[str, set[str]] = defaultdict(set)
    for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines():
        record = json.loads(line)
        is_suspect = any(flag.startswith("suspect:") for flag in record["flags"])
        if record["verdict"] == "passed" and not is_suspect:
            passed[record["task_id"]].add(list(tried)[record["sample_idx"]])
    assert passed == {problem.task_id: {"gold"} for problem in problem_set.problems}
    assert all(problem["num_correct"] == 1 for problem in results["problems"])


def run(
    name: str, path: Path, samples: Path, out: Path, fixture: SuiteFixture, sandbox: str
) -> dict[str, Any]:
    argv = ["run", "--suite", name, "--problems", str(path), "--samples", str(samples)]
    argv += ["--out", str(out), "--sandbox", sandbox, "--strict", "--timeout-s", "1", "-k", "1"]
    for option, value in fixture.options.items():
        argv += ["--option", f"{option}={value}"]
    assert main([*argv, *fixture.argv, "--workers", "2"]) == 0
    return json.loads((out / "results.json").read_text())
