"""Facts from a real kernel: nothing of it changes, and a busy one is not waited for."""

import asyncio
import json
import time

import pytest

from jupyt5.server.kernels import execute_silently

pytestmark = pytest.mark.kernel

SETUP = """
import pandas as pd, numpy as np
df = pd.DataFrame({"price": [31415.5], "city": ["secret"]})
grid = np.zeros((3, 4))
password = "secret"
"""
STATE = "(get_ipython().execution_count, sorted(globals()), len(In), repr(_))"


async def run(client, code):
    """Execute as a reader's own cell; return the content of the reply."""
    sent = client.execute(code)
    while True:
        reply = await client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == sent:
            return reply["content"]


@pytest.fixture
def kernel(jp_serverapp, jp_asyncio_loop):
    """A running kernel (its id and a client), with some variables in it."""
    wait, manager = jp_asyncio_loop.run_until_complete, jp_serverapp.kernel_manager
    kernel_id = wait(manager.start_kernel())
    client = manager.get_kernel(kernel_id).client()
    client.start_channels()
    wait(client.wait_for_ready(timeout=60))
    for code in (SETUP, "1 + 1"):
        assert wait(run(client, code))["status"] == "ok"
    yield kernel_id, client
    client.stop_channels()
    wait(manager.shutdown_kernel(kernel_id, now=True))


@pytest.fixture
def ask(jp_fetch, body):
    async def send(**fields):
        sent = body(kernel_facts=True, **fields)
        return json.loads(
            (await jp_fetch("jupyt5", "api", "context", method="POST", body=sent)).body
        )

    return send


async def state_of(app, kernel_id):
    manager = app.serverapp.kernel_manager.get_kernel(kernel_id)
    reply = await execute_silently(manager, "", wait_s=20, expressions={"state": STATE})
    found = reply.expressions["state"]
    assert found["status"] == "ok", found
    return found["data"]["text/plain"]


async def test_facts_without_a_trace(kernel, ask, app, fill, monkeypatch):
    monkeypatch.setattr("jupyt5.server.context.facts._WAIT_S", 20.0)
    kernel_id, client = kernel
    before = await state_of(app, kernel_id)
    reply = await ask(kernel_id=kernel_id)
    assert reply["facts_reason"] == ""
    lines = reply["facts"].splitlines()
    assert lines[0] == "# Variables:"
    assert any(
        line.startswith("# df: DataFrame, 1 rows, columns price (float64)") for line in lines
    )
    assert "# grid: ndarray, shape (3, 4), float64" in lines
    assert "# password: str" in lines
    assert "secret" not in reply["text"]
    assert "31415" not in reply["text"]
    assert reply["text"].startswith("# Variables:")
    # A fill request tells its model the same.
    texts = [
        line["text"]
        for line in await fill(kernel_facts=True, kernel_id=kernel_id)
        if line["type"] == "candidate"
    ]
    assert texts == ["x = 1"]
    assert await state_of(app, kernel_id) == before
    assert (await run(client, "2"))["execution_count"] == 3


async def test_the_provider_gets_them(kernel, fill, monkeypatch):
    monkeypatch.setattr("jupyt5.server.context.facts._WAIT_S", 20.0)
    kernel_id, _ = kernel
    cells = [{"kind": "code", "source": ""}, {"kind": "code", "source": ""}]
    lines = await fill(
        provider="fake:echo", cells=cells, target_idx=1, kernel_facts=True, kernel_id=kernel_id
    )
    assert "# grid: ndarray, shape (3, 4), float64" in lines[-2]["text"]


async def test_a_busy_kernel_is_not_waited_for(kernel, ask):
    kernel_id, client = kernel
    client.execute("import time; time.sleep(20)")
    await asyncio.sleep(1)
    start = time.monotonic()
    reply = await ask(kernel_id=kernel_id)
    assert time.monotonic() - start < 3
    assert reply["facts"] is None
    assert "0.5 s" in reply["facts_reason"]


async def test_the_administrator_can_switch_them_off(kernel, ask, app):
    app.allow_kernel_facts = False
    reply = await ask(kernel_id=kernel[0])
    assert (reply["facts"], reply["facts_reason"]) == (
        None,
        "the administrator has switched them off",
    )
