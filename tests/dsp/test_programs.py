"""Programs are judged as plain Python, each from a state in which nothing has run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Limits, RunsAs
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5.execution.verdicts import Verdict, VerdictKind
from jupyt5_dsp.checker import Execute
from jupyt5_dsp.grader import Execution, Grader, describe_environment
from jupyt5_dsp.problems import Form, ProblemSet, Shown
from jupyt5_dsp.programs import Program, make_cell, make_program_set
from jupyt5_dsp.validation import Validation, validate_set

ISOLATIONS: tuple[Isolation, ...] = ("fork", "kernel")
RIGHT = "def add(a, b):\n    return a + b\n"


def make_program(task_id: str, form: Form, grading: str) -> Program:
    shown = Shown(cells=(make_cell("code", ""),), target_idx=0)
    return Program(task_id=task_id, form=form, grading=grading, shown=shown)


def make_set(runs_as: RunsAs = "program") -> ProblemSet:
    form = Form(reference=RIGHT, suffix="\n")
    program = make_program("P/0", form, "assert add(2, 3) == 5")
    return make_program_set([program], runs_as=runs_as)


@pytest.fixture
def execution(sandbox_option: str) -> Execution:
    interpreter = find_interpreter()
    sandbox = choose_sandbox(sandbox_option, interpreter)
    return Execution(interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=2))


def judge(
    problem_set: ProblemSet,
    execution: Execution,
    attempts: Sequence[Attempt],
    isolation: Isolation = "fork",
) -> dict[str, Judged]:
    with Grader(problem_set, execution) as grader:
        found = grader.run({"P/0": attempts}, isolation=isolation)
        return {one.key: one for one in found if isinstance(one, Judged)}


# A text, and its verdict as a program and as a script.
CASES = {
    "right": (RIGHT, "passed", "passed"),
    "wrong": ("def add(a, b):\n    return 0\n", "wrong", "wrong"),
    # The tests would pass; a notebook would go on, a program has ended.
    "raises at its end": (RIGHT + "1/0\n", "error", "error"),
    "exits": (RIGHT + "raise SystemExit(0)\n", "exit", "passed"),
    "exits in anger": (RIGHT + "import sys\nsys.exit(3)\n", "exit", "error"),
    "exits by name": (RIGHT + "exit()\n", "exit", "passed"),
    "magic": (RIGHT + "%time\n", "syntax", "syntax"),
    "shell": (RIGHT + "!ls\n", "syntax", "syntax"),
    "awaits": (RIGHT + "import asyncio\nawait asyncio.sleep(0)\n", "syntax", "syntax"),
    "null byte": (RIGHT + "x = '\0'\n", "syntax", "syntax"),
    "bad syntax while running": (RIGHT + "exec('1 +')\n", "error", "error"),
    "no shell's names": (RIGHT + "get_ipython()\n", "error", "error"),
    "no display": (RIGHT + "display(1)\n", "error", "error"),
    "main block": (RIGHT + "if __name__ == '__main__':\n    1/0\n", "passed", "error"),
    "reads its input": (RIGHT + "input()\n", "error", "error"),
    "open line at the end": ("def add(a, b): return a + b \\", "syntax", "syntax"),
    "reads its own file": (
        RIGHT + "assert 'def add' in open(__file__).read()\n",
        "error",
        "passed",
    ),
    "pickles": (
        "import pickle\nclass A:\n    pass\npickle.loads(pickle.dumps(A()))\n" + RIGHT,
        "error",
        "passed",
    ),
}


@pytest.mark.kernel
@pytest.mark.parametrize("runs_as", ["program", "script"])
def test_verdicts_of_programs(runs_as: RunsAs, execution: Execution) -> None:
    problem_set = make_set(runs_as)
    problem = problem_set.problems[0]
    attempts = [
        Attempt(key=name, source=problem_set.fill(problem, text))
        for name, (text, _, _) in CASES.items()
    ]
    column = 1 if runs_as == "program" else 2
    expected = {name: case[column] for name, case in CASES.items()}
    for isolation in ISOLATIONS:
        found = judge(problem_set, execution, attempts, isolation)
        assert {name: str(one.verdict.kind) for name, one in found.items()} == expected
        assert {one.isolation for one in found.values()} == {isolation}


@pytest.mark.kernel
def test_what_a_run_finds_and_what_is_kept(execution: Execution) -> None:
    source = RIGHT + (
        "import os, sys\nprint(os.environ.get('PASSATK0'), os.path.exists('input.txt'))\n"
        "print('to stderr', file=sys.stderr)\nopen('left', 'w').close()\nprint(os.listdir('.'))\n"
    )
    attempts = [
        Attempt(key="a", source=source, environment={"PASSATK0": "17"}),
        Attempt(key="b", source=source, files={"input.txt": "1 2\n"}),
    ]
    for isolation in ISOLATIONS:
        found = judge(make_set(), execution, attempts, isolation)
        assert found["a"].output == "17 False\n['left']\n"
        assert found["b"].output.startswith("None True\n")
        assert "'input.txt'" in found["b"].output
        # For people, both.
        assert "to stderr" in found["a"].verdict.output_head
        assert found["a"].num_output_bytes == len(found["a"].output)


@pytest.mark.kernel
def test_modules_are_loaded_before_anything_is_forked(execution: Execution) -> None:
    form = Form(reference=RIGHT, preload=("pandas", "no_such_module"))
    problem_set = make_program_set([make_program("P/0", form, "assert add(2, 3) == 5")])
    source = RIGHT + "import sys\nprint('pandas' in sys.modules)\n"
    found = judge(problem_set, execution, [Attempt(key="a", source=source)])["a"]
    assert (found.output, found.verdict.passed) == ("True\n", True)
    # What verdicts may depend on is noted.
    assert "'pandas'" in str(describe_environment(problem_set, execution))
    assert "'pandas'" not in str(describe_environment(make_set(), execution))


@pytest.mark.kernel
def test_a_timeout_is_not_tried_again(execution: Execution) -> None:
    # In notebooks a fork may hang where a fresh process does not; a program's fork is fresh.
    quick = replace(execution, limits=Limits(timeout_s=0.4))
    found = judge(make_set(), quick, [Attempt(key="a", source="while True:\n    pass\n")])["a"]
    assert (str(found.verdict.kind), found.cold_rerun, found.isolation) == (
        "timeout",
        False,
        "fork",
    )


@pytest.mark.kernel
def test_no_reference_is_where_a_sample_could_find_it(execution: Execution) -> None:
    # Up to the worker's own frames, whose locals and attributes hold all that it was sent.
    source = (
        "import sys\nframe, seen = sys._getframe(), []\nwhile frame is not None:\n"
        "    seen += [repr(vars(v)) if hasattr(v, '__dict__') else repr(v)\n"
        "             for v in list(frame.f_locals.values())]\n    frame = frame.f_back\n"
        "print('reference' if 'a ' '+ b' in ''.join(seen) else 'nothing')\n"
    )
    found = judge(make_set(), execution, [Attempt(key="a", source=source)])["a"]
    assert found.output == "nothing\n"
    assert "suspect: interpreter internals" in found.verdict.flags


@pytest.mark.kernel
def test_programs_of_a_batch_see_nothing_of_each_other(execution: Execution) -> None:
    # P/1 leans on P/0's function, which a notebook would have left behind.
    leaning = "def twice(a):\n    return add(a, a)\n"
    lonely = make_program("P/1", Form(reference=leaning), "assert twice(2) == 4")
    first = make_set()
    both = make_program_set([
        make_program("P/0", Form(reference=RIGHT), "assert add(2, 3) == 5"), lonely,
    ])  # fmt: skip
    assert len(set(both.group_problems().values())) == 1
    with Grader(both, execution) as grader:
        findings = {one.task_id: one for one in validate_set(grader, {})}
    assert findings["P/0"].usable == "yes"
    assert findings["P/1"].usable == "no"
    assert "NameError" in findings["P/1"].reason
    assert first.problems[0].form != both.problems[0].form


def test_forms_are_filled() -> None:
    form = Form(reference="x", prefix="class A:\n    ", suffix="\nrest", indent="    ")
    assert form.fill("def f(self):\n    pass\n\n") == (
        "class A:\n    def f(self):\n        pass\n    \n    \nrest"
    )


def test_doubles_and_empty_sets_are_refused() -> None:
    program = make_program("P/0", Form(reference=RIGHT), "assert True")
    with pytest.raises(ProblemSetError, match="P/0 is there twice"):
        make_program_set([program, program])
    with pytest.raises(ProblemSetError, match="There are no problems"):
        make_program_set([])


@dataclass(frozen=True, slots=True)
class EqualOutput:
    """Runs an attempt and the reference on two inputs each, and compares what they print."""

    version: str = "1"
    output_bytes: int = 10_000
    reference: str = "import os\nprint(int(os.environ['N']) ** 2)\n"

    def judge(
        self, attempts: Mapping[str, Sequence[Attempt]], execute: Execute
    ) -> Iterator[Judged]:
        golden: dict[str, list[Attempt]] = {
            task_id: self._expand("golden", self.reference) for task_id in attempts
        }
        expected = {(one.task, one.key): one.output for one in execute(golden)}
        runs = {
            task_id: [run for one in own for run in self._expand(one.key, one.source)]
            for task_id, own in attempts.items()
        }
        found = {(one.task, one.key): one for one in execute(runs)}
        for task_id, own in attempts.items():
            for key in (one.key for one in own):
                same = [
                    found[task_id, f"{key}#{n}"].output == expected[task_id, f"golden#{n}"]
                    for n in (2, 3)
                ]
                kind = VerdictKind.PASSED if all(same) else VerdictKind.WRONG
                yield replace(found[task_id, f"{key}#3"], key=key, verdict=Verdict(kind=kind))

    def _expand(self, key: str, source: str) -> list[Attempt]:
        return [Attempt(key=f"{key}#{n}", source=source, environment={"N": str(n)}) for n in (2, 3)]


@pytest.mark.kernel
def test_a_checker_judges_by_output(execution: Execution) -> None:
    checker = EqualOutput()
    program = make_program("P/0", Form(reference=checker.reference), "pass")
    problem_set = make_program_set([program], runs_as="script", checker=checker)
    tried = {
        "other words": "import os\nn = int(os.environ['N'])\nprint(n * n)\n",
        "right for 2 only": "print(4)\n",
        "empty": "",
        "dies": "import os\nos._exit(0)\n",
    }
    found = judge(problem_set, execution, [Attempt(key=k, source=s) for k, s in tried.items()])
    assert {key: str(one.verdict.kind) for key, one in found.items()} == {
        "other words": "passed", "right for 2 only": "wrong", "empty": "wrong", "dies": "wrong",
    }  # fmt: skip
    with Grader(problem_set, execution) as grader:
        (finding,) = validate_set(grader, {})
        again = replace(problem_set, checker=EqualOutput(version="2"))
        with Grader(again, execution) as other:
            (newer,) = validate_set(other, {})
    assert isinstance(finding, Validation)
    assert (finding.usable, newer.usable) == ("yes", "yes")
    assert finding.key != newer.key
