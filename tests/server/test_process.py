"""Models in processes of their own: what breaks one of them, the server survives."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from jupyt5.errors import ContextError, ProviderError, UsageError
from jupyt5.notebook import Cell
from jupyt5.providers import FillRequest, Sampling, load_provider
from jupyt5.server.process import ProcessProvider
from jupyt5.server.shelf import ProviderShelf

REQUEST = FillRequest(
    cells=(
        Cell(None, "code", "import math"),
        Cell(None, "markdown", "Compute the area."),
        Cell(None, "code", ""),
        Cell(None, "code", "assert area > 3"),
    ),
    target_idx=2,
)
SLOW = "fake:slow=50&text=" + "+".join("abcdefghijklmnopqrstuvwxyz")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are for POSIX systems")


def draw(provider: Any, n: int = 1, cancel: threading.Event | None = None) -> list[Any]:
    sampling = Sampling(temperature=0.8 if n > 1 else 0.0, max_tokens=16)
    return list(provider.generate(REQUEST, n, sampling, 3, cancel or threading.Event()))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or " Z " not in Path(
        f"/proc/{pid}/stat"
    ).read_text(errors="replace")


def wait_until(is_true: Any, timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_the_same_answers_as_in_threads():
    here, apart = load_provider("jupyt5:nano"), ProcessProvider("jupyt5:nano")
    assert apart.uri == here.uri
    for n in (1, 3):
        assert draw(apart, n) == draw(here, n)
    sampling = Sampling()
    assert apart.preview(REQUEST, sampling) == here.preview(REQUEST, sampling)


def test_answers_at_the_same_time_do_not_mix():
    apart = ProcessProvider("fake:slow=1&text=a+b+c&text=d+e+f")
    found: dict[int, str] = {}

    def work(seed: int) -> None:
        sampling = Sampling(temperature=0.0)
        chunks = apart.generate(REQUEST, 1, sampling, seed, threading.Event())
        found[seed] = "".join(chunk.text_delta for chunk in chunks)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {seed: ("a b c", "d e f")[seed % 2] for seed in range(12)}


def test_cancel_reaches_the_generator():
    """The process goes on to the next request, which would find it busy for a second otherwise."""
    apart = ProcessProvider(SLOW)
    cancel = threading.Event()
    chunks = apart.generate(REQUEST, 1, Sampling(temperature=0.0), 0, cancel)
    next(chunks)
    cancel.set()
    start = time.monotonic()
    assert list(chunks) == []
    assert time.monotonic() - start < 0.2
    thread_count = Path(f"/proc/{apart.pid}/task")
    if thread_count.exists():  # the thread that generated has ended
        assert wait_until(lambda: len(list(thread_count.iterdir())) == 1, 0.5)


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("jupyt5:/nowhere", ProviderError, "There is no model jupyt5:/nowhere"),
        ("fake:nonsense", UsageError, "does not know nonsense"),
    ],
)
def test_a_load_that_fails(uri: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        ProcessProvider(uri)


def test_a_load_that_fails_for_a_reason_not_foreseen(tmp_path: Path, monkeypatch):
    (tmp_path / "ctranslate2.py").write_text("raise OSError('libgomp is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ProviderError, match="jupyt5:nano did not load: libgomp is broken"):
        ProcessProvider("jupyt5:nano")


def test_a_load_ends_with_the_server(monkeypatch):
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr("jupyt5.server.process.provider.subprocess.Popen", Popen)
    ending = threading.Event()
    threading.Timer(0.3, ending.set).start()
    with pytest.raises(ProviderError, match="the server ends"):
        ProcessProvider("fake:load=60000", ending=ending)
    assert wait_until(lambda: not is_alive(started[0].pid))


def test_errors_keep_their_kind():
    with pytest.raises(ProviderError, match="fake: was asked to fail"):
        draw(ProcessProvider("fake:fail"))
    apart = ProcessProvider("fake:text=x")
    assert [chunk.text_delta for chunk in draw(apart)] == ["x", ""]
    assert ContextError is not ProviderError


def test_a_crash_is_told():
    apart = ProcessProvider(SLOW)
    chunks = apart.generate(REQUEST, 1, Sampling(temperature=0.0), 0, threading.Event())
    next(chunks)
    assert not apart.has_died
    os.kill(apart.pid, signal.SIGKILL)
    with pytest.raises(ProviderError, match=r"has died \(SIGKILL, often for want of memory\)"):
        list(chunks)
    assert apart.has_died
    with pytest.raises(ProviderError, match="Ask again"):
        draw(apart)


async def test_the_shelf_starts_it_anew_and_keeps_nothing_of_the_dead():
    shelf = ProviderShelf(ProcessProvider)
    apart: Any = await shelf.get("fake:text=x")
    first, process = apart.pid, weakref.ref(apart._process)
    os.kill(first, signal.SIGSEGV)
    async with asyncio.timeout(10):
        while not apart.has_died:
            await asyncio.sleep(0.01)
    del apart
    anew: Any = await shelf.get("fake:text=x")
    assert anew.pid != first
    assert [chunk.text_delta for chunk in draw(anew)] == ["x", ""]
    gc.collect()
    assert process() is None
    shelf.close()


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="no real-time signals here")
def test_a_signal_without_a_name_is_a_death_too():
    apart = ProcessProvider(SLOW)
    chunks = apart.generate(REQUEST, 1, Sampling(temperature=0.0), 0, threading.Event())
    next(chunks)
    os.kill(apart.pid, signal.SIGRTMIN + 3)
    with pytest.raises(ProviderError, match=rf"has died \(signal {signal.SIGRTMIN + 3}\)"):
        list(chunks)


def test_words_that_nobody_understands_end_the_process(monkeypatch, caplog):
    apart = ProcessProvider(SLOW)
    chunks = apart.generate(REQUEST, 1, Sampling(temperature=0.0), 0, threading.Event())
    next(chunks)
    pid = apart.pid
    monkeypatch.setattr(apart._process._connection, "recv", lambda: int("no answer"))
    with pytest.raises(ProviderError, match=r"has died \(SIGKILL"):
        list(chunks)
    assert wait_until(lambda: not is_alive(pid))
    assert "no answer" in caplog.text


def test_it_ends_with_its_provider():
    apart = ProcessProvider("fake:")
    pid = apart.pid
    del apart
    gc.collect()
    assert wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_server(number: int):
    code = (
        "import time\nfrom jupyt5.server.process import ProcessProvider\n"
        f"provider = ProcessProvider({SLOW!r})\nprint(provider.pid, flush=True)\ntime.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    assert is_alive(pid)
    server.send_signal(number)
    server.communicate()
    assert wait_until(lambda: not is_alive(pid))


def test_modules_in_the_working_folder_are_not_taken(tmp_path: Path, monkeypatch):
    """A notebook's folder may hold a json.py."""
    (tmp_path / "json.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    assert len(draw(ProcessProvider("fake:text=x"))) == 2


class TestServer:
    async def test_the_server_lives_on(self, fill, jp_fetch, app):
        lines = await fill(provider="jupyt5:nano", max_tokens=4)
        assert lines[-1]["type"] == "done"
        provider: Any = await app.engine.shelf.get("jupyt5:nano")
        first = provider.pid
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: provider.has_died)
        status = json.loads((await jp_fetch("jupyt5", "api", "status")).body)
        assert status["providers"][-1] == {"uri": "jupyt5:nano", "state": "absent", "reason": ""}
        lines = await fill(request_id="r2", provider="jupyt5:nano", max_tokens=4)
        assert (lines[0]["type"], lines[0]["state"]) == ("status", "loading")
        assert lines[-1]["type"] == "done"
        status = json.loads((await jp_fetch("jupyt5", "api", "status")).body)
        assert status["running"] == 0

    async def test_its_end_does_not_wait_for_a_load(self, fill, app, monkeypatch):
        monkeypatch.setattr("jupyt5.server.app._LOCAL_SCHEMES", {"fake"})
        uri = "fake:load=60000&text=x"
        reply = asyncio.ensure_future(fill(provider=uri))
        while app.engine.shelf.state(uri).state != "loading":
            await asyncio.sleep(0.01)
        (loader,) = [t for t in threading.enumerate() if t.name.startswith("jupyt5-load")]
        await app.stop_extension()
        await asyncio.to_thread(loader.join, 5)
        assert not loader.is_alive()
        assert (await reply)[-1]["code"] == "cancelled"

    async def test_threads_where_the_administrator_wants_them(self, fill, app):
        app.model_process = False
        await fill(provider="jupyt5:nano", max_tokens=4)
        assert not isinstance(await app.engine.shelf.get("jupyt5:nano"), ProcessProvider)
