"""Which problems share a worker, and what that worker is given."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyt5.execution.engine import Found, Judged, run_job
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Job, Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp import grader as grader_module
from jupyt5_dsp.biocoder import checker as checker_module
from jupyt5_dsp.grader import Execution, Grader
from jupyt5_dsp.grading import grade_samples
from jupyt5_dsp.problems import Form, ProblemSet, Shown
from jupyt5_dsp.programs import Program, make_cell, make_program_set
from jupyt5_dsp.samples import Sample
from jupyt5_dsp.suites import find_suite, load_suite
from jupyt5_dsp.validation import Validation, validate_set

from .fixtures import ADD, make_row, write_rows

CONTEXT = "import os\n<<insert solution here>>\nprint('%s', add(<|int|>, 1))\n"
REFERENCE = "def add(a, b):\n    return a + b  # %s\n"
WRONG = "def add(a, b):\n    return a - b\n"


def make_program(task_id: str, form: Form) -> Program:
    shown = Shown(cells=(make_cell("code", ""),), target_idx=0)
    return Program(task_id=task_id, form=form, grading="pass", shown=shown)


def batch(*forms: Form) -> list[set[int]]:
    programs = [make_program(str(idx), form) for idx, form in enumerate(forms)]
    groups = make_program_set(programs).group_problems()
    return [
        {int(task_id) for task_id, own in groups.items() if own == name}
        for name in dict.fromkeys(groups.values())
    ]


def test_programs_without_imports_are_batched_in_their_order() -> None:
    groups = batch(*[Form(reference="1")] * 35)
    assert groups == [set(range(16)), set(range(16, 32)), {32, 33, 34}]


def test_a_batch_imports_the_same_modules() -> None:
    numpy, more = ("numpy",), ("numpy", "scipy.ndimage")
    forms = [Form(reference="1", preload=one) for one in (numpy, more, (), numpy, more)]
    assert batch(*forms) == [{0, 3}, {1, 4}, {2}]


def test_a_program_that_defines_an_answer_is_served_apart() -> None:
    add = Form(reference=ADD, answers=frozenset({"add"}))
    holds_add = Form(reference="1", defines=frozenset({"add", "b"}), answers=frozenset({"c"}))
    other = Form(reference="1", defines=frozenset({"b"}), answers=frozenset({"d"}))
    assert batch(add, holds_add, other) == [{0, 2}, {1}]
    assert batch(holds_add, add, other) == [{0, 2}, {1}]


def test_what_is_never_run_takes_no_place() -> None:
    shown = Shown(cells=(make_cell("code", ""),), target_idx=0)
    programs = [
        Program(
            task_id=str(idx),
            form=Form(reference="1"),
            grading="pass",
            shown=shown,
            invalid_reason="no test" if idx % 2 else "",
        )
        for idx in range(32)
    ]
    groups = make_program_set(programs).group_problems()
    assert len({groups[str(idx)] for idx in range(0, 32, 2)}) == 1
    assert groups.keys() == {str(idx) for idx in range(32)}


def test_what_describes_a_problem_is_what_it_was() -> None:
    plain = Form(reference=ADD)
    named = Form(reference=ADD, defines=frozenset({"a"}), answers=frozenset({"add"}))
    sets = [make_program_set([make_program("p", form)]) for form in (plain, named)]
    assert sets[0].digest() == sets[1].digest()


def load(tmp_path: Path, rows: list[dict[str, object]], inputs: int = 3) -> ProblemSet:
    path = write_rows(tmp_path / "rows.jsonl", rows)
    return load_suite(find_suite("biocoder"), path, {"inputs": str(inputs)})


def test_the_suite_says_what_its_programs_define(tmp_path: Path) -> None:
    holds = f"import os\n{ADD}<<insert solution here>>\nprint(add(1, 2))\n"
    rows = [
        make_row("p", ADD, CONTEXT % "p"),
        make_row("q", "def twice(a):\n    return add(a, a)\n", holds),
        make_row("broken", "def add(a:\n", "import os\nclass add(\n<<insert solution here>>\n"),
    ]
    groups = load(tmp_path, rows).group_problems()
    # Reference p stands in q's program, and a text that cannot be parsed has names, too.
    assert len(set(groups.values())) == 3


@pytest.fixture
def execution(sandbox_option: str) -> Execution:
    interpreter = find_interpreter()
    sandbox = choose_sandbox(sandbox_option, interpreter)
    return Execution(interpreter=interpreter, sandbox=sandbox, limits=Limits(timeout_s=5))


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """All jobs that are run from here on; each has a worker of its own."""
    started: list[Job] = []

    def run(job: Job, *args: Any, **kwargs: Any) -> Iterator[Found]:
        started.append(job)
        return run_job(job, *args, **kwargs)

    monkeypatch.setattr(grader_module, "run_job", run)
    return started


def make_attempts(problem_set: ProblemSet) -> dict[str, list[Attempt]]:
    # The same keys in each: what is told apart by the key alone would be mixed up.
    texts = {"right": ADD, "wrong": WRONG, "broken": "def add(a:\n"}
    attempts = [Attempt(key=key, source=source) for key, source in texts.items()]
    return {problem.task_id: attempts for problem in problem_set.problems}


def run(grader: Grader, attempts: dict[str, list[Attempt]]) -> list[Judged]:
    return [one for one in grader.run(attempts) if isinstance(one, Judged)]


def list_texts(job: Job) -> list[str]:
    return [one.source for task in job.tasks for one in task.attempts]


@pytest.mark.kernel
def test_a_batch_starts_one_worker_for_references_and_one_for_samples(
    tmp_path: Path, execution: Execution, jobs: list[Job]
) -> None:
    names = ("p", "q", "r")
    rows = [make_row(name, REFERENCE % f"of {name}", CONTEXT % name) for name in names]
    problem_set = load(tmp_path, rows)
    attempts = make_attempts(problem_set)
    with Grader(problem_set, execution) as grader:
        found = {(one.task, one.key): one for one in run(grader, attempts)}
        assert {key: str(one.verdict.kind) for key, one in found.items()} == {
            (name, key): kind
            for name in names
            for key, kind in (("right", "passed"), ("wrong", "wrong"), ("broken", "syntax"))
        }
        assert "expected 'q " in found["q", "wrong"].verdict.message
        references, samples = jobs
        assert Counter(task.name for task in references.tasks) == Counter(names)
        assert all("return a + b  # of " in text for text in list_texts(references))
        assert not any("# of " in repr(one) for one in (samples.tasks, list_texts(samples)))
        # What the references print is kept: the next batch of the same problems needs no more.
        run(grader, {"q": attempts["q"]})
        assert len(jobs) == 3
        assert not any("# of " in text for text in list_texts(jobs[2]))


@pytest.mark.kernel
def test_validation_starts_three_workers_a_batch(
    tmp_path: Path, execution: Execution, jobs: list[Job]
) -> None:
    bad = "import os\n<<insert solution here>>\n1 / 0\n"
    rows = [make_row(name, ADD, CONTEXT % name) for name in ("p", "q")]
    problem_set = load(tmp_path, [*rows, make_row("bad", ADD, bad)])
    with Grader(problem_set, execution) as grader:
        found = validate_set(grader, {})
    assert [one.usable for one in found] == ["yes", "yes", "no"]
    assert "ZeroDivisionError" in found[2].reason
    # References; then them and wrong answers as samples; then once more under another hash seed.
    assert [len(job.tasks) for job in jobs] == [3, 2, 2]
    assert jobs[0].seed == jobs[1].seed != jobs[2].seed


@pytest.mark.slow
@pytest.mark.kernel
def test_findings_are_the_same_with_more_workers(
    tmp_path: Path, execution: Execution, jobs: list[Job]
) -> None:
    silent = "import os\n<<insert solution here>>\nadd(1, 2)\n"
    rows = [make_row(str(idx), ADD, CONTEXT % idx) for idx in range(14)]
    found: list[list[Validation]] = []
    for num_workers, sizes in ((1, [5, 5, 5]), (3, [3, 4, 4, 4])):
        problem_set = load(tmp_path, [*rows, make_row("silent", ADD, silent)], inputs=1)
        jobs.clear()
        with Grader(problem_set, execution) as grader:
            found.append(validate_set(grader, {}, num_workers=num_workers))
        held = [job for job in jobs if job.tasks[0].attempts[0].key == "0#0"]
        assert sorted(len(job.tasks) for job in held) == sizes
    assert found[0] == found[1]
    assert [one.usable for one in found[0]] == ["yes"] * 14 + ["no"]


@pytest.mark.kernel
@pytest.mark.parametrize("most_text", [1, 600, 1 << 25])
def test_verdicts_are_those_of_problems_judged_alone(
    tmp_path: Path,
    execution: Execution,
    jobs: list[Job],
    monkeypatch: pytest.MonkeyPatch,
    most_text: int,
) -> None:
    monkeypatch.setattr(checker_module, "_FEW_RUNS", 8)  # p and q in two rounds
    monkeypatch.setattr(checker_module, "_MOST_TEXT", most_text)
    rows = [make_row(name, ADD, CONTEXT % name) for name in ("p", "q", "r")]
    problem_set = load(tmp_path, rows)
    attempts = make_attempts(problem_set)
    attempts["r"] = attempts["r"][:1]
    with Grader(problem_set, execution) as grader:
        alone = [one for name, own in attempts.items() for one in run(grader, {name: own})]
        jobs.clear()
        together = run(grader, attempts)
    describe = [
        sorted((one.task, one.key, repr(one.verdict)) for one in found)
        for found in (alone, together)
    ]
    assert len(describe[0]) == 7
    assert describe[0] == describe[1]
    num_runs = sum(len(list_texts(job)) for job in jobs)
    # p and q: all on one input, the right one on two more; r on three.
    assert num_runs == 2 * (3 + 2) + 3
    num_jobs = {1: num_runs, 600: 3, 1 << 25: 2}
    assert len(jobs) == num_jobs[most_text]


@pytest.mark.kernel
def test_flags_do_not_depend_on_how_many_are_run_at_once(
    tmp_path: Path, execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem_set = load(tmp_path, [make_row("p", ADD, CONTEXT % "p")], inputs=8)
    # Wrong; on the first input one of them looks around, and the other one later.
    texts = {
        str(rest): f"import sys\ndef add(a, b):\n    if a % 2 == {rest}: sys._getframe()\n"
        for rest in (0, 1)
    }
    attempts = {"p": [Attempt(key=key, source=source) for key, source in texts.items()]}
    flags: list[dict[str, tuple[str, ...]]] = []
    with Grader(problem_set, execution) as grader:
        for few_runs in (1, 100):
            monkeypatch.setattr(checker_module, "_FEW_RUNS", few_runs)
            flags.append({one.key: one.verdict.flags for one in run(grader, attempts)})
    assert flags[0] == flags[1]
    assert sorted(map(len, flags[0].values())) == [0, 1]


@pytest.mark.kernel
def test_chunks_keep_the_samples_of_a_problem_together(
    tmp_path: Path, execution: Execution, jobs: list[Job]
) -> None:
    problem_set = load(tmp_path, [make_row(name, ADD, CONTEXT % name) for name in "pq"])
    samples = [
        Sample(task_id=name, sample_idx=idx, completion=f"{ADD}# {idx}\n")
        for idx in range(8)
        for name in "pq"
    ]
    with Grader(problem_set, execution) as grader:
        found = {one.task_id: one for one in validate_set(grader, {})}
    jobs.clear()
    # As where a run goes on: nothing is known of what the references print.
    with Grader(load(tmp_path, [make_row(n, ADD, CONTEXT % n) for n in "pq"]), execution) as grader:
        grade_samples(grader, samples, found, tmp_path / "verdicts.jsonl", num_workers=2)
    assert len((tmp_path / "verdicts.jsonl").read_text().splitlines()) == 16
    assert sorted(tuple(task.name for task in job.tasks) for job in jobs) == [
        ("p",), ("p",), ("q",), ("q",),
    ]  # fmt: skip
