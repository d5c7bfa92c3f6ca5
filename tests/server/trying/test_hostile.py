"""Forty hostile candidates against a live kernel, which must not notice."""

import asyncio
import hashlib
import socket
import tempfile
from pathlib import Path

import pytest

from jupyt5.execution.jobs import Limits
from jupyt5.execution.trials import Trial
from jupyt5.server.trying.live import open_live
from tests.server.trying.hostile import HOSTILE, RIGHT

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

TRIAL = Trial(cells=((0, ""), (1, ""), (2, "assert y == 42")), target_idx=1, grading_idx=2)
LIMITS = Limits(timeout_s=1.0, memory_bytes=1 << 30, disk_bytes=1 << 26)
SETUP = """
import socket, numpy as np, pandas as pd
x, numbers, notes = 41, list(range(1000)), {"a": [1]}
table = pd.DataFrame({"a": range(100), "b": list("ab") * 50})
array = np.arange(100_000)
source = open("data.csv"); _ = source.readline()
log = open("log.txt", "w"); _ = log.write("kept\\n"); log.flush()
"""
# What a candidate could have changed, by name.
PARTS = {
    "variables": "(x, numbers, notes, table.to_csv(), array.tobytes())",
    "names": "sorted(get_ipython().user_ns)",
    "history": "(In[:], sorted(Out), get_ipython().execution_count)",
    "offsets": "(source.tell(), os.lseek(source.fileno(), 0, 1), os.lseek(log.fileno(), 0, 1))",
    "process": "(sorted(os.environ.items()), os.getcwd(), sys.path, os.umask(os.umask(18)))",
    "modules": "sorted(sys.modules)",
    # IPython itself stops the thread that saves its history before any fork, until it is needed.
    "descriptors": (
        "sorted(path for n in os.listdir('/dev/fd') if os.path.lexists('/dev/fd/' + n) "
        "for path in [os.readlink('/dev/fd/' + n)] if path[0] == '/' and path[:6] != '/proc/' "
        "and 'history' not in path)"
    ),
    "threads": (
        "sorted(one.name for one in __import__('threading').enumerate() "
        "if 'History' not in one.name)"
    ),
    "connection": "link.getpeername()",
    "shell": "(str(sys.stdout), str(get_ipython().displayhook), type(get_ipython()).__name__)",
    "saving": "(get_ipython().history_manager.enabled, get_ipython().history_manager.using_thread)",
    "random": "(__import__('random').getstate(), np.random.get_state()[1].tobytes())",
}
STATE = (
    "(lambda os, sys, digest: {"
    + ", ".join(
        f"{name!r}: digest(repr({text}).encode()).hexdigest()" for name, text in PARTS.items()
    )
    + "})(__import__('os'), __import__('sys'), __import__('hashlib').sha256)"
)


def digest_files(folder):
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mode,
        )
        for path in sorted(folder.rglob("*"))
    }


def list_processes():
    """Return processes by id, with the command line of each."""
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                found[int(path.name)] = (path / "cmdline").read_bytes()
            except OSError:
                continue
    return found


@pytest.fixture
def elsewhere():
    """A folder that is not below ``/tmp``, all of which is overlaid."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="jupyt5-") as name:
        yield Path(name)


@pytest.fixture
def canaries(elsewhere):
    """Listen where candidates would call; yields the sockets."""
    tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    named = socket.socket(socket.AF_UNIX)
    named.bind(str(elsewhere / "s"))
    tcp.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", tcp.getsockname()[1]))
    for one in (tcp, named):
        one.listen()
    for one in (tcp, udp, named):
        one.setblocking(False)
    yield tcp, udp, named
    for one in (tcp, udp, named):
        one.close()


async def prepare(kernel, tcp, folder):
    (folder / "data.csv").write_text("a,b\n1,2\n3,4\n")
    reply = await kernel.run(
        f"{SETUP}\nlink = socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}))"
    )
    assert reply["status"] == "ok", reply
    return tcp.accept()[0]  # the kernel's own connection


async def test_nothing_reaches_the_kernel(kernel, canaries, jp_root_dir):
    assert len(HOSTILE) == 40
    tcp, udp, named = canaries
    folder = jp_root_dir / "course"
    with await prepare(kernel, tcp, folder) as peer:
        peer.setblocking(False)
        before, files = await kernel.ask(STATE), digest_files(jp_root_dir)
        assert await kernel.ask(STATE) == before  # asking changes nothing
        started = set(list_processes())
        fields = {
            "pid": kernel.pid, "canary": tcp.getsockname()[1], "named": named.getsockname(),
            "home": str(jp_root_dir),
        }  # fmt: skip
        verdicts = {}
        async with open_live(kernel.manager, TRIAL, LIMITS) as session:
            for name, source in HOSTILE.items():
                verdicts[name] = (await session.judge("0", source.format(**fields))).verdict
            assert (await session.judge("0", "y = x + 1")).verdict.kind == "passed"
        for one in (tcp, named):
            with pytest.raises(BlockingIOError):
                one.accept()
        for one in (udp, peer):
            with pytest.raises(BlockingIOError):
                one.recv(100)
    assert await kernel.ask(STATE) == before
    assert digest_files(jp_root_dir) == files
    assert not Path("/tmp/jupyt5-harm.txt").exists()
    await asyncio.sleep(1)
    assert not {
        pid: line for pid, line in list_processes().items()
        if pid not in started and line == Path(f"/proc/{kernel.pid}/cmdline").read_bytes()
    }  # fmt: skip
    assert (await kernel.run("y = x + 1"))["status"] == "ok"
    passed = {name for name, verdict in verdicts.items() if verdict.passed}
    assert passed <= RIGHT, passed - RIGHT
    assert verdicts["time: endless"].kind == "timeout"
    assert verdicts["exit: at once"].kind == "died"


async def test_files_of_a_folder_elsewhere(kernel, elsewhere):
    (elsewhere / "a.txt").write_text("kept")
    await kernel.run(f"import os; os.chdir({str(elsewhere)!r}); log = open('b.txt', 'w')")
    async with open_live(kernel.manager, TRIAL, LIMITS) as session:
        source = (
            "log.write('harm'); log.flush()\nopen('a.txt', 'a').write('harm')\n"
            "assert open('a.txt').read() == 'keptharm'\nopen('c.txt', 'w')\ny = 42"
        )
        for _ in range(2):  # one does not see what another wrote
            tried = await session.judge("0", source)
            assert tried.verdict.passed, tried.verdict
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {
        "a.txt": "kept", "b.txt": "",
    }  # fmt: skip


async def test_output_of_a_candidate_reaches_nobody(kernel):
    """Streams, displays and results of candidates are no messages of the kernel."""
    async with open_live(kernel.manager, TRIAL, LIMITS) as session:
        source = "print('harm')\ndisplay('harm')\ny = 42\ny"
        tried = await session.judge("0", source)
    assert tried.verdict.passed, tried.verdict
    assert "harm" in tried.verdict.output_head
    kinds = []
    while await kernel.client.iopub_channel.socket.poll(300):
        message = await kernel.client.get_iopub_msg(timeout=1)
        kinds.append(message["msg_type"])
        assert "harm" not in str(message["content"])
    assert set(kinds) <= {"status", "execute_input"}
