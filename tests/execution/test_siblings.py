"""A sample finds no other sample of its problem, and no reference, where it could copy them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jupyt5.execution.engine import Judged, Replied, run_job
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Attempt, Isolation, Job, Limits, RunsAs, Task
from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.setting import Setting

pytestmark = pytest.mark.kernel

RIGHT = "def add(a, b):\n    return a + b\n"
# The needle is written backwards, so that no sample finds itself.
PEEK = """
import gc, sys, types

needle = "".join(reversed("b + a nruter"))
seen, todo, found = set(), [], []

def push_frames(frame):
    while frame is not None:
        todo.extend(frame.f_locals.values())
        frame = frame.f_back

push_frames(sys._getframe())
try:
    raise ValueError
except ValueError as exc:
    trace = exc.__traceback__
    while trace is not None:
        push_frames(trace.tb_frame)
        trace = trace.tb_next
try:
    todo.extend(gc.get_objects())
except PermissionError:  # refused in samples
    pass
while todo and len(seen) < 300_000:
    one = todo.pop()
    if id(one) in seen:
        continue
    seen.add(id(one))
    if isinstance(one, str):
        if needle in one and one != needle:
            found.append(one)
    elif isinstance(one, dict):
        todo.extend(list(one.keys()) + list(one.values()))
    elif isinstance(one, (list, tuple, set, frozenset)):
        todo.extend(one)
    elif isinstance(one, types.FunctionType):
        todo.extend(one.__defaults__ or ())
        todo.extend((one.__kwdefaults__ or {}).values())
        for cell in one.__closure__ or ():
            try:
                todo.append(cell.cell_contents)
            except ValueError:
                pass
    elif isinstance(one, types.MethodType):
        todo += [one.__self__, one.__func__]
    elif not isinstance(one, (type, types.ModuleType)):
        try:
            todo.append(object.__getattribute__(one, "__dict__"))
        except Exception:
            pass
print("looked at", len(seen) > 50, "found", len(found))
for text in found:
    try:
        exec(text, globals())
    except Exception:
        pass
"""
# Beside it on both sides: what was run before is no more to be found than what comes later.
SAMPLES = {"before": RIGHT, "peek": PEEK, "after": RIGHT}


def test_in_notebooks(grade: Callable[..., dict[str, Judged]], isolation: Isolation) -> None:
    found = grade(SAMPLES, isolation=isolation)
    assert {key: str(one.verdict.kind) for key, one in found.items()} == {
        "before": "passed", "peek": "error", "after": "passed",
    }  # fmt: skip
    assert "looked at True found 0" in found["peek"].output


def test_references_of_later_problems(
    run: Callable[..., list[Judged | Replied]],
    make_notebook: Callable[..., Job],
    isolation: Isolation,
) -> None:
    first = make_notebook({"peek": PEEK})
    later = Task(
        name="u",
        cell_idx=2,
        grading_idxs=(3,),
        attempts=(Attempt(key="right", source=RIGHT),),
        own_names=frozenset({"add"}),
    )
    cells = (*first.cells, (2, RIGHT), (3, "assert add(1, 1) == 2"))
    job = Job(cells=cells, tasks=(*first.tasks, later), seed=7)
    found = [one for one in run(job, isolation=isolation) if isinstance(one, Judged)]
    kinds = {one.key: str(one.verdict.kind) for one in found}
    assert kinds == {"peek": "error", "right": "passed"}


@pytest.mark.parametrize("runs_as", ["program", "script"])
def test_in_programs(
    runs_as: RunsAs,
    isolation: Isolation,
    interpreter: Interpreter,
    sandbox: Sandbox,
    view_path: Path,
) -> None:
    tasks = tuple(
        Task(
            name=name,
            cell_idx=0,
            grading_idxs=(1,),
            attempts=tuple(Attempt(key=key, source=text) for key, text in SAMPLES.items()),
            own_names=frozenset({"add"}),
            cells=((1, "assert add(2, 3) == 5"),),
        )
        for name in ("t", "u")
    )
    setting = Setting(
        interpreter=interpreter,
        sandbox=sandbox,
        limits=Limits(timeout_s=30),
        view_path=view_path,
        isolation=isolation,
    )
    job = Job(cells=(), tasks=tasks, runs_as=runs_as)
    found = [one for one in run_job(job, setting) if isinstance(one, Judged)]
    assert len(found) == 6
    for one in found:
        assert str(one.verdict.kind) == ("error" if one.key == "peek" else "passed")
        assert one.key != "peek" or one.output == "looked at True found 0\n"
