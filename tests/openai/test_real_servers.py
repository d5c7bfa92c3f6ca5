"""openai: against real servers: our own with the bundled model, and llama.cpp's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from jupyt5.errors import ProviderError
from jupyt5.notebook import Cell
from jupyt5.providers import Sampling, list_providers, load_provider, stream_drafts
from jupyt5.providers.base import Provider

from .conftest import KEY, REQUEST, text_of

pytestmark = pytest.mark.slow

GREEDY = Sampling(temperature=0.0, max_tokens=24)
GGUF_ENV = "JUPYT5_TEST_GGUF"  # path of a small GGUF file of a chat model


def fill(provider: Provider, sampling: Sampling = GREEDY, n: int = 1) -> list[str]:
    drafts = stream_drafts(
        provider, REQUEST, n=n, sampling=sampling, seed=3, cancel=threading.Event()
    )
    return [draft.text for draft in drafts if draft.finished]


def wait_for(base_url: str, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        try:
            if httpx.get(f"{base_url}/models", headers={"Authorization": f"Bearer {KEY}"}):
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise TimeoutError(base_url)


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(20)


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """`jupyt5 serve` with the bundled model."""
    if not any(info.uri == "jupyt5:nano" and info.available for info in list_providers()):
        pytest.skip("no bundled model in this installation")
    code = "import sys; from jupyt5.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", "--port", "0"]
    environ = os.environ | {"JUPYT5_SERVE_TOKEN": KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            end(process)


@pytest.fixture(scope="module")
def llama_server() -> Iterator[str]:
    """llama.cpp's Python server with a small model."""
    path = os.environ.get(GGUF_ENV, "")
    if not path or not Path(path).is_file():
        pytest.skip(f"{GGUF_ENV} does not name a GGUF file")
    if find_spec("llama_cpp") is None or find_spec("sse_starlette") is None:
        pytest.skip("llama-cpp-python[server] is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "llama_cpp.server", "--model", path, "--model_alias", "small"]
    command += ["--port", str(port), "--n_ctx", "2048", "--api_key", KEY, "--verbose", "False"]
    # Settings of the server for answers cut off when a further request comes: not here.
    command += ["--interrupt_requests", "False"]
    with subprocess.Popen(command, text=True) as process:
        try:
            base_url = f"http://127.0.0.1:{port}/v1"
            wait_for(base_url, process)
            yield base_url
        finally:
            end(process)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch):
    def give(base_url: str, key: str = KEY) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", base_url)
        monkeypatch.setenv("OPENAI_API_KEY", key)

    return give


def test_our_server_says_what_the_model_says(own_server: str, key):
    key(own_server)
    local, remote = load_provider("jupyt5:nano"), load_provider("openai:jupyt5:nano#fim")
    assert fill(remote) == fill(local) != [""]
    warm = Sampling(temperature=0.8, max_tokens=24)
    assert fill(remote, warm, n=3) == fill(remote, warm, n=3)
    chat = load_provider(f"openai:jupyt5:nano@{own_server}")
    assert fill(chat) != [""]


def test_our_server_refuses_a_wrong_key_and_model(own_server: str, key):
    key(own_server, "sk-wrong")
    with pytest.raises(ProviderError, match=r"refused the key .*token it was started with"):
        fill(load_provider("openai:jupyt5:nano"))
    key(own_server)
    with pytest.raises(ProviderError, match=r"no model other \(404\).*Served: jupyt5:nano"):
        fill(load_provider("openai:other"))


@pytest.mark.parametrize("style", ["chat", "completions", "fim"])
def test_llama_cpp_streams(llama_server: str, key, style: str):
    key(llama_server)
    provider = load_provider(f"openai:small#{style}")
    chunks = list(provider.generate(REQUEST, 1, GREEDY, 0, threading.Event()))
    assert len(chunks) > 3
    assert chunks[-1].finished
    assert text_of(chunks).strip()
    again = list(provider.generate(REQUEST, 1, GREEDY, 0, threading.Event()))
    assert text_of(again) == text_of(chunks)


def test_llama_cpp_stops_when_cancelled(llama_server: str, key):
    key(llama_server)
    provider = load_provider("openai:small#completions")
    long = Sampling(temperature=0.0, max_tokens=1000)
    cancel = threading.Event()
    stream = provider.generate(REQUEST, 1, long, 0, cancel)
    next(stream)
    cancel.set()
    started = time.monotonic()
    assert list(stream) == []
    assert time.monotonic() - started < 0.5
    # The server's only slot is free again: a short answer does not wait for the long one.
    assert fill(provider, Sampling(temperature=0.0, max_tokens=2))
    assert time.monotonic() - started < 15


def test_llama_cpp_refuses_a_wrong_key(llama_server: str, key):
    key(llama_server, "sk-wrong")
    with pytest.raises(ProviderError, match=r"refused the key \(401\)"):
        fill(load_provider("openai:small"))


def test_llama_cpp_says_when_the_notebook_is_too_long(llama_server: str, key):
    key(llama_server)
    provider = load_provider("openai:small#completions")
    long = Cell(None, "code", "\n".join(f"x{number} = {number}" for number in range(9000)))
    request = replace(REQUEST, cells=(long, *REQUEST.cells[1:]))
    # Depending on its version it refuses, or ends a stream that it has opened.
    with pytest.raises(ProviderError, match=r"\((400|500)\): .*context|answered nothing"):
        list(provider.generate(request, 1, GREEDY, 0, threading.Event()))
