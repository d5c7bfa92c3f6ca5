"""What a sample may use, and what it cannot reach."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.engine import Judged
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Isolation
from jupyt5.execution.sandbox import Sandbox, choose_sandbox
from jupyt5.execution.scratch import remove_folder
from jupyt5.execution.views import make_view

pytestmark = pytest.mark.kernel

Grade = Callable[..., dict[str, Judged]]
WaitUntil = Callable[[Callable[[], object], float], bool]

GOLD = "def add(a, b):\n    return a + b\n"
MIB = 1 << 20
SMALL = {
    "memory_bytes": 256 * MIB,
    "disk_bytes": 32 * MIB,
    "file_bytes": 8 * MIB,
    "num_processes": 40,
}
# Each name says what is used up; the kinds that are right for it.
GREEDY = {
    "memory": ("x = bytearray(1 << 30)", "oom"),
    "memory in steps": ("x = []\nwhile True: x.append(bytearray(1 << 20))", "oom"),
    "memory in add": ("def add(a, b):\n    return len(bytearray(1 << 30))", "oom"),
    "one file": ("open('big', 'wb').write(bytes(9 << 20))", "limit"),
    "many files": ("for n in range(40): open(str(n), 'wb').write(bytes(1 << 20))", "limit oom"),
    "shared memory": ("open('/dev/shm/x', 'wb').write(bytes(9 << 20))", "limit"),
    "threads": (
        "import threading, time\nfor _ in range(999):\n"
        "    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "limit oom",
    ),
}
# Each asserts what holds inside.
INSIDE = {
    "no network": """import socket
try:
    socket.create_connection(("1.1.1.1", 80), 5)
except OSError as exc:
    assert exc.errno == 101, exc
else:
    assert False, "connected"
""",
    "no names are looked up": """import socket
try:
    socket.gethostbyname("example.org")
except OSError:
    pass
else:
    assert False
""",
    "localhost is its own": """import socket
try:
    socket.create_connection(("127.0.0.1", PORT), 5)
except OSError:
    pass
else:
    assert False, "reached the tool's machine"
""",
    "read-only system": """import os, sys
for path in ("/etc/x", "/x", "/usr/x", sys.prefix + "/x", os.path.dirname(os.__file__) + "/x.py",
             "/var/x", "/var/tmp/x", "/root/x", "/run/x", "/dev/x", "/proc/x", "/sys/x"):
    try:
        open(path, "w")
    except OSError:
        continue
    assert False, path
""",
    "no remount": """import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mount(b"none", b"/", None, 32 | 4096, None) == -1
assert libc.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None) == -1
assert libc.umount2(b"/tmp", 2) == -1
assert libc.unshare(0x10000000) == -1
assert libc.unshare(0x20000) == -1
""",
    "no rights": """status = open("/proc/self/status").read()
rights = {l.split(":")[0]: l.split()[1] for l in status.splitlines() if l.startswith("Cap")}
assert int(rights["CapEff"], 16) == int(rights["CapPrm"], 16) == int(rights["CapInh"], 16) == 0
assert "NoNewPrivs:\\t1" in status
import os
try:
    os.chroot("/")
except PermissionError:
    pass
else:
    assert False
""",
    "own processes only": """import os
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
assert os.getpid() in pids and len(pids) <= 3, pids
""",
    "no secrets in the environment": """import os, subprocess
assert "s3cret" not in str(os.environ)
assert b"s3cret" not in subprocess.run(["env"], capture_output=True).stdout
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        text = open(f"/proc/{pid}/environ", "rb").read()
    except OSError:
        continue
    assert b"s3cret" not in text
""",
    "descriptors": """import os
allowed = {0, 1, 2, 250, 251}
left = {int(n) for n in os.listdir("/proc/self/fd")} - allowed
paths = set()
for fd in left:
    try:
        paths.add(os.readlink(f"/proc/self/fd/{fd}"))
    except OSError:
        continue
# One pipe is left: the secret was read from it.
pipes = [p for p in paths if p.startswith("pipe:")]
assert len(pipes) <= 1, paths
assert not {p for p in paths if not p.startswith(("anon_inode:", "/dev/null", "pipe:"))}, paths
""",
    "writes stay inside": """import os
open("kept", "w").write("x")
open(os.path.expanduser("~/kept"), "w").write("x")
open("/tmp/kept", "w").write("x")
open("/dev/shm/kept", "w").write("x")
try:
    open("../../x", "w").write("x")
except OSError:
    pass
os.symlink("/etc", "out")
try:
    open("out/j5-test", "w")
except OSError:
    pass
else:
    assert False
os.remove("data.csv")
os.mkdir("data.csv")
""",
    "sees nothing of the one before": """import os
assert not os.path.exists("kept") and open("data.csv").read() == "x\\n1\\n2\\n"
for path in ("~/kept", "/tmp/kept", "/dev/shm/kept", "../../x", "out"):
    assert not os.path.lexists(os.path.expanduser(path)), path
""",
    "memory of others": """import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("mem", "maps", "environ"):
        if int(pid) == os.getpid():
            continue
        try:
            open(f"/proc/{pid}/{name}", "rb").read(1)
        except OSError:
            continue
        assert name != "mem", (pid, name)
""",
    "own memory": """import os
for path in ("/proc/self/mem", f"/proc/{os.getpid()}/mem", "/proc/thread-self/mem"):
    try:
        os.open(path, os.O_RDWR)
    except OSError:
        continue
    assert False, path
""",
    "no other namespace": """import os
for name in ("mnt", "pid", "user"):
    try:
        os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
    except OSError:
        continue
    import ctypes
    fd = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
    assert ctypes.CDLL(None).setns(fd, 0) == -1
""",
}


def test_processor_time_is_limited_and_sleep_is_not_work(
    grade: Grade, isolation: Isolation
) -> None:
    sleeper = f"import time\ntime.sleep(1.5)\n{GOLD}"
    found = grade({"sleep": sleeper}, isolation=isolation, timeout_s=1)
    assert found["sleep"].verdict.kind == "passed", found["sleep"].verdict
    assert found["sleep"].cpu_s < 1


@pytest.mark.slow
def test_wall_time_is_capped_at_three_times_the_limit(grade: Grade, isolation: Isolation) -> None:
    found = grade(["import time\ntime.sleep(600)"], isolation=isolation, timeout_s=1)
    assert found["0"].verdict.kind == "timeout"
    assert 3 <= found["0"].wall_s < 20


@pytest.mark.slow
def test_solution_and_grading_share_one_limit(grade: Grade) -> None:
    # On the wall clock, where a busy machine has less of a say: the cap is three times the limit,
    # 4.5 s, more than either half takes.
    sample = "import time\ntime.sleep(2)\ndef add(a, b):\n    time.sleep({})\n    return a + b\n"
    samples = {"short": sample.format(0), "long": sample.format(3.5)}
    found = grade(samples, graded="assert add(2, 3) == 5", timeout_s=1.5)
    assert found["short"].verdict.kind == "passed"
    assert found["long"].verdict.kind == "timeout"


@pytest.mark.slow
def test_greed_is_named(grade: Grade, isolation: Isolation, walls: Sandbox) -> None:
    samples = {name: source for name, (source, _) in GREEDY.items()}
    found = grade({**samples, "gold": GOLD}, isolation=isolation, **SMALL)
    assert found["gold"].verdict.kind == "passed"
    for name, (_, kinds) in GREEDY.items():
        assert found[name].verdict.kind in kinds.split(), (name, found[name].verdict)
    assert found["memory"].verdict.kind == "oom"


def test_memory_that_context_cells_took_is_not_counted(grade: Grade, isolation: Isolation) -> None:
    found = grade(
        {"gold": GOLD, "more": f"x = bytearray(100 << 20)\n{GOLD}"},
        context=["big = bytearray(400 << 20)"],
        isolation=isolation,
        memory_bytes=256 * MIB,
    )
    assert {one.verdict.kind for one in found.values()} == {"passed"}


def test_output_is_cut(grade: Grade, isolation: Isolation) -> None:
    found = grade([f"print('é' * 5000)\n{GOLD}"], isolation=isolation, output_bytes=1001)
    text = found["0"].verdict.output_head
    assert text.startswith("é" * 499)
    assert "more characters]" in text
    assert len(text.encode()) < 1100


def test_fork_bomb_is_bounded(grade: Grade, walls: Sandbox) -> None:
    # Where Linux lets us: everything that it started is gone with it, and the next one runs.
    bomb = (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    )
    found = grade({"bomb": bomb, "gold": GOLD}, timeout_s=1)
    assert found["bomb"].verdict.kind in ("timeout", "limit", "died")
    assert found["gold"].verdict.kind == "passed"


def test_walls_hold(
    walls: Sandbox, grade: Grade, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "s3cret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        samples = {name: f"PORT = {port}\n{source}\n{GOLD}" for name, source in INSIDE.items()}
        found = grade(samples, files={"data.csv": "x\n1\n2\n"}, isolation=isolation)
    failed = {
        name: (one.verdict.kind, one.verdict.message)
        for name, one in found.items()
        if not one.verdict.passed or "solution cell raised" in one.verdict.flags
    }
    assert failed == {}


def test_context_cells_are_walled_in_too(walls: Sandbox, grade: Grade) -> None:
    checks = [INSIDE[name] for name in ("no network", "writes stay inside")]
    found = grade([GOLD], context=checks, files={"data.csv": ""})
    assert found["0"].verdict.kind == "passed", found["0"].verdict


def test_hidden_folders_look_empty(
    grade: Grade, interpreter: Interpreter, isolation: Isolation, tmp_path: Path
) -> None:
    (tmp_path / "answers.jsonl").write_text("secret")
    outside = Path.home()
    try:
        sandbox = choose_sandbox("auto", interpreter, hidden_paths=[tmp_path])
    except ExecutionError as exc:
        pytest.skip(str(exc))
    look = f"""import os
for path in ({str(tmp_path)!r}, {str(outside)!r}, "/home", "/var/tmp"):
    assert not os.path.isfile(path + "/answers.jsonl")
    for name in os.listdir(path) if os.path.isdir(path) else ():
        # What is left of a hidden folder leads to the interpreter.
        assert name in {sorted(_parts_towards_interpreter(interpreter))!r}, (path, name)
"""
    found = grade([look + GOLD], sandbox=sandbox, isolation=isolation)
    assert found["0"].verdict.passed
    assert found["0"].verdict.flags == (), found["0"].verdict


def _parts_towards_interpreter(interpreter: Interpreter) -> set[str]:
    return {part for path in interpreter.shown_paths for part in path.parts} | {"main"}


def test_the_data_set_is_never_written(walls: Sandbox, grade: Grade, tmp_path: Path) -> None:
    source = tmp_path / "repo"
    source.mkdir()
    (source / "data.csv").write_text("x\n1\n")
    before = hashlib.sha256((source / "data.csv").read_bytes()).hexdigest()
    view_path = make_view(source)
    try:
        copy = view_path / "jupyt5" / "work" / "data.csv"
        assert copy.read_text() == "x\n1\n"
        assert copy.stat().st_ino != (source / "data.csv").stat().st_ino
    finally:
        remove_folder(view_path)
    spoil = f"import os\nfor p in ({str(source)!r}, '.'):\n    os.makedirs(p, exist_ok=True)\n"
    spoil += "    open(p + '/data.csv', 'w').write('y')\n"
    grade([spoil + GOLD], files={"data.csv": "x"})
    assert hashlib.sha256((source / "data.csv").read_bytes()).hexdigest() == before
    assert [path.name for path in source.iterdir()] == ["data.csv"]


KILLED = """
import sys
from pathlib import Path
from jupyt5.execution.engine import run_job
from jupyt5.execution.setting import Setting
from jupyt5.execution.interpreters import find_interpreter
from jupyt5.execution.jobs import Attempt, Job, Limits, Task
from jupyt5.execution.sandbox import choose_sandbox
name, view, isolation, marker = sys.argv[1:]
interpreter = find_interpreter(None)
leave = f"import subprocess\\nsubprocess.Popen(['sleep', '{marker}'], start_new_session=True)\\n"
task = Task(name="t", cell_idx=1, grading_idxs=(2,), attempts=(
    Attempt(key="a", source="x = 1"), Attempt(key="b", source=leave + "while True: pass")))
job = Job(cells=((0, "y = 1"), (1, "x = 1"), (2, "assert x == 1")), tasks=(task,))
setting = Setting(interpreter=interpreter, sandbox=choose_sandbox(name, interpreter),
                  view_path=Path(view), limits=Limits(timeout_s=100), isolation=isolation)
for found in run_job(job, setting):
    print("told", flush=True)
"""


@pytest.mark.parametrize("name", ["namespaces", "bwrap"])
def test_dead_tool_leaves_no_process_and_no_mount(
    name: str,
    isolation: Isolation,
    interpreter: Interpreter,
    wait_until: WaitUntil,
) -> None:
    try:
        choose_sandbox(name, interpreter)
    except ExecutionError as exc:
        pytest.skip(str(exc))
    mounts = Path("/proc/self/mounts").read_text()
    view_path = make_view(None)
    marker = f"600.{os.getpid()}{time.monotonic_ns() % 10**6}"
    command = [sys.executable, "-c", KILLED, name, str(view_path), isolation, marker]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert tool.stdout is not None
        assert tool.stdout.readline() == "told\n"
        assert wait_until(lambda: find_processes(f"sleep\0{marker}"), 60)
        tool.send_signal(signal.SIGKILL)
        tool.wait()
        assert wait_until(lambda: not find_processes(f"sleep\0{marker}"), 5)
        assert wait_until(lambda: not _holders(view_path), 5)
    finally:
        tool.kill()
        tool.communicate()
        remove_folder(view_path)
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not view_path.exists()


def _holders(view_path: Path) -> list[str]:
    """Processes in whose mount namespace the view is still mounted."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if view_path.name in text:
                found.append(entry.name)
    return found


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
