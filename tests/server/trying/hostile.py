"""Forty candidates that mean harm to a live kernel, or do it by accident.

``{canary}`` is a port that somebody listens at, ``{pid}`` the kernel's process. The right answer
is ``x + 1``; those in ``RIGHT`` give it beside the harm, and may pass.
"""

__all__ = ["HOSTILE", "RIGHT"]

# What the fixture's kernel holds: x, numbers (list), table (DataFrame), array (numpy), log (a file
# open for writing), source (a file open for reading), link (a connected socket), notes (dict).
HOSTILE = {
    "variables: rebound": "x = 99\nnumbers = None\ny = 42",
    "variables: list emptied": "numbers.clear()\ny = x + 1",
    "variables: array overwritten": "array[:] = 0\ny = x + 1",
    "variables: table dropped": "table.drop(table.index, inplace=True)\ny = x + 1",
    "variables: all deleted": "%reset -f\ny = 42",
    "variables: through gc": "import gc\nfor o in gc.get_objects():\n    o.clear()\ny = 42",
    "variables: through frames": (
        "import sys\nf = sys._getframe()\nwhile f:\n    f.f_globals['x'] = 0\n    f = f.f_back"
    ),
    "memory: of the kernel by pid": "open('/proc/{pid}/mem', 'r+b').write(b'no')",
    "memory: of the own process": (
        "import os\nfd = os.open('/proc/self/mem', os.O_RDWR)\nos.write(fd, b'no')"
    ),
    "memory: ctypes": "import ctypes\nctypes.string_at(0)",
    "memory: ptrace": ("import ctypes\nctypes.CDLL(None).ptrace(16, {pid}, 0, 0)\ny = x + 1"),
    "files: overwritten": "open('data.csv', 'w').write('spoilt')\ny = x + 1",
    "files: made": "open('new.txt', 'w').write('new')\ny = x + 1",
    "files: folder removed": "import shutil, os\nshutil.rmtree(os.getcwd())\ny = x + 1",
    "files: mode": "import os\nos.chmod('data.csv', 0)\nos.chmod('.', 0)\ny = x + 1",
    "files: open for writing": "log.write('spoilt')\nlog.flush()\ny = x + 1",
    "files: open, by number": (
        "import os\nfor fd in range(3, 100):\n"
        "    try:\n        os.write(fd, b'spoilt')\n    except OSError:\n        pass\ny = x + 1"
    ),
    "files: open, truncated": "import os\nos.ftruncate(log.fileno(), 0)\ny = x + 1",
    "files: open for reading, reopened": (
        "open('/proc/self/fd/%d' % source.fileno(), 'r+').write('spoilt')\ny = x + 1"
    ),
    "files: offset moved": "source.seek(0)\nsource.read()\nsource.seek(3)\ny = x + 1",
    "files: outside": "open({home!r} + '/harm.txt', 'w').write('harm')\ny = x + 1",
    "files: in /tmp": "open('/tmp/jupyt5-harm.txt', 'w').write('harm')\ny = x + 1",
    "files: by a shell": "!echo spoilt > data.csv; rm -rf *\ny = x + 1",
    "files: through a mapping": (
        "import mmap\nwith open('data.csv', 'r+b') as f:\n    mmap.mmap(f.fileno(), 0)[:3] = b'bad'"
    ),
    "files: remounted": (
        "import ctypes\nctypes.CDLL(None).mount(b'none', b'/', None, 32, None)\n"
        "open('data.csv', 'w').write('spoilt')"
    ),
    "network: tcp": (
        "import socket\nsocket.create_connection(('127.0.0.1', {canary}), 2).send(b'hello')"
    ),
    "network: udp": (
        "import socket\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', {canary}))"
    ),
    "network: a named socket": (
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({named!r})\ns.send(b'hello')"
    ),
    "network: a program": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', \"import socket; "
        "socket.create_connection(('127.0.0.1', {canary}), 2).send(b'hello')\"])\ny = x + 1"
    ),
    "network: the kernel's own connection": "link.send(b'hello')\ny = x + 1",
    "kernel: messages": (
        "k = get_ipython().kernel\n"
        "k.session.send(k.iopub_socket, 'stream', {{'name': 'stdout', 'text': 'harm'}})\n"
        "k.iopub_thread.socket.send(b'harm')\ny = x + 1"
    ),
    "kernel: streams": (
        "import sys\nsys.__stdout__.write('harm')\nprint('harm')\ndisplay(1)\ny = 42"
    ),
    "kernel: history": (
        "h = get_ipython().history_manager\nh.reset()\nIn.clear()\n"
        "get_ipython().execution_count = 500\ny = x + 1"
    ),
    "kernel: killed": "import os, signal\nos.kill({pid}, signal.SIGKILL)\ny = x + 1",
    "kernel: everybody killed": "import os, signal\nos.kill(-1, signal.SIGKILL)\ny = x + 1",
    "kernel: shut down": "get_ipython().kernel.do_shutdown(False)\nexit()",
    "processes: left behind": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(600)\n    os._exit(0)\ny = x + 1"
    ),
    "processes: a bomb": "import os\nwhile True:\n    os.fork()",
    "time: endless": "while True:\n    pass",
    "exit: at once": "import os\nos._exit(0)",
}

RIGHT = frozenset(
    name
    for name, source in HOSTILE.items()
    if "y = 42" in source or source.rstrip().endswith("y = x + 1")
)
