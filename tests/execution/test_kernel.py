"""Cells on a real kernel (casebook R01 to R04, R10, R12b)."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from jupyt5.execution.kernel import Launch, Step, run_steps
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, Verdict, judge
from jupyt5.execution.workspace import open_workspace

pytestmark = pytest.mark.kernel

GOLD = "def add(a, b):\n    return a + b\n"
GRADED = "assert add(2, 3) == 5\nassert add(0, 0) == 0\n"


def plan(solution: str, *, limit_s: float = 20) -> list[Step]:
    return [
        Step(cell_idx=0, source="x = 1", stage=Stage.CONTEXT, limit_s=60),
        Step(cell_idx=1, source=solution, stage=Stage.SOLUTION, limit_s=limit_s, group="s"),
        Step(
            cell_idx=2,
            source=GRADED,
            stage=Stage.GRADING,
            limit_s=limit_s,
            group="s",
            goes_on=False,
        ),
    ]


def run(sandbox: Sandbox, steps: list[Step]) -> tuple[CellReply, ...]:
    with open_workspace() as workspace:
        return run_steps(steps, Launch(workspace, sandbox))


def verdict_of(sandbox: Sandbox, solution: str, *, limit_s: float = 20) -> Verdict:
    return judge(run(sandbox, plan(solution, limit_s=limit_s)))


@pytest.mark.parametrize(
    ("solution", "kinds"),
    [
        (GOLD, "passed"),
        ("def add(a, b):\n    return 9\n", "wrong"),
        ("1/0", "error"),
        ("def add(a, b:\n", "syntax"),
        # R02: the interpreter is gone
        ("import os\ndef add(a, b):\n    os._exit(0)\n", "died"),
        ("import os\nos._exit(0)", "died"),
        ("import os\nos.kill(os.getpid(), 9)", "died"),
        ("import os\nos.execv('/bin/true', ['true'])", "died"),
        ("import ctypes\nctypes.string_at(0)", "died"),
        # R03: nobody prints the error
        (
            "shell = get_ipython()\ntype(shell).showtraceback = lambda *a, **k: None\n"
            "def add(a, b):\n    return 9\n",
            "wrong",
        ),
        # R04: polite exits
        ("def add(a, b):\n    raise SystemExit(0)\n", "exit"),
        ("import sys\ndef add(a, b):\n    sys.exit()\n", "exit"),
        ("def add(a, b):\n    raise KeyboardInterrupt\n", "exit"),
        ("def add(a, b):\n    exit()\n", "wrong exit"),
        (f"quit()\n{GOLD}", "exit"),
    ],
)
def test_verdict_kinds(sandbox: Sandbox, solution: str, kinds: str) -> None:
    start_s = time.monotonic()
    verdict = verdict_of(sandbox, solution)
    assert verdict.kind in kinds.split()
    # A death is noticed, not waited out.
    assert time.monotonic() - start_s < 15


def test_top_level_exit_after_a_right_answer_passes_with_a_flag(sandbox: Sandbox) -> None:
    verdict = verdict_of(sandbox, GOLD + "raise SystemExit")
    assert verdict.passed
    assert verdict.flags == ("solution cell raised",)


def test_endless_loop_times_out_in_half_a_second(sandbox: Sandbox) -> None:
    replies = run(sandbox, plan("while True:\n    pass", limit_s=0.5))
    assert judge(replies).kind == "timeout"
    assert 0.4 < replies[1].wall_s < 3


def test_endless_printing_times_out(sandbox: Sandbox) -> None:
    verdict = verdict_of(sandbox, "while True:\n    print('x')", limit_s=2)
    assert verdict.kind == "timeout"


def test_solution_and_grading_share_one_limit(sandbox: Sandbox) -> None:
    solution = "import time\ntime.sleep(1)\ndef add(a, b):\n    time.sleep(1.2)\n    return a + b\n"
    assert verdict_of(sandbox, solution, limit_s=2).kind == "timeout"
    assert verdict_of(sandbox, solution, limit_s=30).kind == "passed"


def test_run_goes_on_after_a_time_out_where_asked(sandbox: Sandbox) -> None:
    steps = [
        Step(cell_idx=0, source="y = 1\nwhile True:\n    pass", stage=Stage.CONTEXT, limit_s=1),
        Step(cell_idx=1, source="assert y == 1", stage=Stage.CONTEXT, limit_s=20),
    ]
    statuses = [reply.status for reply in run(sandbox, steps)]
    assert statuses == [CellStatus.TIMEOUT, CellStatus.OK]


def test_blank_grading_cell_proves_nothing(sandbox: Sandbox) -> None:
    steps = plan(GOLD)[:2]
    steps.append(Step(cell_idx=2, source=" \n", stage=Stage.GRADING, limit_s=5))
    assert not judge(run(sandbox, steps)).passed


def test_flood_of_output_is_cut_and_judged_by_the_reply(sandbox: Sandbox) -> None:
    flood = f"for _ in range(100_000):\n    print('x' * 80)\n{GOLD}"
    verdict = verdict_of(sandbox, flood, limit_s=60)
    assert verdict.passed
    assert len(verdict.output_head.encode()) <= 4096
    head, _, mark = verdict.output_head.rpartition("\n[… ")
    assert mark == f"{100_000 * 81 - len(head):,} more characters]"


def test_hostile_text_is_plain(sandbox: Sandbox) -> None:
    verdict = verdict_of(
        sandbox, "print('\\x1b[31mred\\x1b]0;title\\x07')\nraise ValueError('\\x1b[1m')"
    )
    assert "\x1b" not in verdict.output_head + verdict.message + verdict.traceback
    assert "red" in verdict.output_head


@pytest.mark.parametrize(
    ("solution", "kind"),
    [
        ("x = '\ud800'", "syntax"),
        ("get_ipython().kernel.session.key = b'x'", "died"),
        ("get_ipython().kernel.iopub_socket.send(b'junk')", "died"),
        (
            "k = get_ipython().kernel\n"
            "k.session.send(k.iopub_socket, 'display_data', {'data': 'x', 'metadata': {}}, "
            "parent=k.get_parent())",
            "error",
        ),
        ("get_ipython().payload_manager.read_payload = lambda: 5", "error"),
    ],
)
def test_broken_talk_with_the_kernel_is_a_verdict(
    sandbox: Sandbox, solution: str, kind: str
) -> None:
    verdict = verdict_of(sandbox, solution)
    assert not verdict.passed
    assert verdict.kind == kind


def test_lone_surrogate_in_the_output_can_be_written(sandbox: Sandbox) -> None:
    verdict = verdict_of(sandbox, "raise ValueError('a' + chr(0xd800))")
    assert verdict.kind == "error"
    assert (verdict.message + verdict.output_head + verdict.traceback).encode("utf-8")


def test_inside_a_running_loop(sandbox: Sandbox) -> None:
    async def call() -> Verdict:
        return verdict_of(sandbox, GOLD)

    assert asyncio.run(call()).passed


def test_cancel_ends_the_kernel_and_leaves_nothing(sandbox: Sandbox) -> None:
    cancel = threading.Event()
    threading.Timer(2.0, cancel.set).start()
    start_s = time.monotonic()
    with open_workspace() as workspace:
        marker = str(workspace.socket_path)
        with pytest.raises(KeyboardInterrupt):
            run_steps(
                plan("while True: pass", limit_s=60), Launch(workspace, sandbox), cancel=cancel
            )
    assert time.monotonic() - start_s < 20
    assert not find_processes(marker)


def test_descriptors_and_folders_do_not_pile_up(sandbox: Sandbox, tmp_path: Path) -> None:
    run(sandbox, plan(GOLD))
    before = len(os.listdir("/proc/self/fd"))
    for solution in (GOLD, "import os\nos._exit(1)", "while True: pass"):
        run(sandbox, plan(solution, limit_s=1))
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def find_processes(marker: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(entry.name)
    return found
