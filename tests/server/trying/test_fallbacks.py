"""Kernels that cannot be forked: each with its reason, and what is done instead."""

from types import SimpleNamespace

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution import trials
from jupyt5.execution.jobs import Limits
from jupyt5.execution.sandbox import WORKER_PATH
from jupyt5.execution.trials import Trial
from jupyt5.server.trying.live import CannotTryError, open_live

TRIAL = Trial(cells=((0, ""), (1, ""), (2, "assert y == 42")), target_idx=1, grading_idx=2)
LIMITS = Limits(timeout_s=5.0)
# The filter of a sample forbids namespaces, among others: as if the machine did.
NO_NAMESPACES = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("linux", {str(WORKER_PATH / "linux.py")!r})
linux = importlib.util.module_from_spec(spec)
spec.loader.exec_module(linux)
linux.forbid_new_privileges()
linux.install_filter(linux.make_filter(250))
"""
CUDA = """
import sys, types
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
"""
THREADS = """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(60,), daemon=True) for _ in range(3)]
for one in threads: one.start()
"""
SHARED = "import mmap; shared = mmap.mmap(-1, 4096)"
CHILD = "import subprocess; child = subprocess.Popen(['sleep', '60'])"


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (NO_NAMESPACES, "unshare"),
        (CUDA, "CUDA is initialised"),
        (THREADS, "3 of its threads are running"),
        (SHARED, "memory is shared"),
        (CHILD, "1 of its child processes"),
    ],
    ids=["no namespaces", "CUDA", "threads", "shared memory", "child process"],
)
async def test_no_fork(kernel, code, reason):
    assert (await kernel.run(code))["status"] == "ok"
    with pytest.raises(CannotTryError, match=reason):
        async with open_live(kernel.manager, TRIAL, LIMITS):
            pass
    assert (await kernel.run("1"))["execution_count"] == 2


async def test_no_kernel():
    with pytest.raises(CannotTryError, match="no kernel is running"):
        async with open_live(None, TRIAL, LIMITS):
            pass


async def test_kernel_elsewhere():
    with pytest.raises(CannotTryError, match="on another machine"):
        async with open_live(SimpleNamespace(provisioner=object()), TRIAL, LIMITS):
            pass


@pytest.mark.kernel
async def test_kernel_of_another_language(kernel, fill, notebook, allow):
    await notebook()
    await allow()
    kernel.manager.kernel_spec.language = "R"
    lines = await fill("y = 42", kernel=kernel)
    assert [line["reason"] for line in lines if line.get("state") == "not_tried"] == [
        "the kernel runs R"
    ]
    assert [line for line in lines if line["type"] == "candidate"]


async def test_no_sandbox_at_all(fill, notebook, allow, monkeypatch):
    def refuse(*_):
        raise ExecutionError("there is no sandbox on this machine")

    monkeypatch.setattr(trials, "find_walls", refuse)
    await notebook()
    await allow()
    lines = await fill("y = 42")
    assert (
        "no sandbox" in next(line for line in lines if line.get("state") == "not_tried")["reason"]
    )
    assert lines[-1]["tried"] == "none"
    assert not [line for line in lines if line["type"] == "verdict"]


@pytest.mark.kernel
@pytest.mark.slow
async def test_kernel_with_a_large_array(kernel):
    if _available_bytes() < 6 << 30:
        pytest.skip("This machine has less than 6 GiB to spare.")
    await kernel.run("import numpy as np\nx = 41\narray = np.ones(1 << 28)")
    async with open_live(kernel.manager, TRIAL, LIMITS) as session:
        tried = await session.judge("0", "array[:1000] = 0\ny = x + int(array[-1])")
    assert tried.verdict.passed, tried.verdict
    assert await kernel.ask("float(array.sum())") == str(float(1 << 28))


def _available_bytes():
    with open("/proc/meminfo") as stream:
        lines = [line.split() for line in stream]
    return next(int(line[1]) * 1024 for line in lines if line[0] == "MemAvailable:")


@pytest.mark.kernel
async def test_state_of_the_reader_is_there(kernel):
    """Magics, transformers, ``_`` and the random generator are those of the live kernel."""
    await kernel.run(
        "import random\nrandom.seed(3); random.random()\n"
        "from IPython.core.magic import register_line_magic\n"
        "@register_line_magic\ndef twice(line): return 2 * int(line)"
    )
    await kernel.run("40 + 1")
    draw = "(lambda r: (r.setstate(__import__('random').getstate()), r.random())[1])"
    expected = await kernel.ask(f"{draw}(__import__('random').Random())")
    async with open_live(kernel.manager, TRIAL, LIMITS) as session:
        source = f"assert random.random() == {expected}\nz = %twice 4\nassert z == 8\ny = _ + 1"
        for _ in range(2):
            tried = await session.judge("0", source)
            assert tried.verdict.passed, tried.verdict
        tried = await session.judge("0", "import asyncio\nawait asyncio.sleep(0)\ny = 42")
        assert tried.verdict.passed, tried.verdict
