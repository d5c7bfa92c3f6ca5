"""GET status: could a cell be filled now? Answered at once, without loading anything."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyt5.providers.fake import FakeProvider

FAKE = "fake:text=x+=+1"  # the server's own, see conftest
SLOW = "fake:slow=100&text=a+b+c+d+e+f+g+h"


@pytest.fixture
def ask(jp_fetch: Any) -> Any:
    async def send(provider: str = "") -> dict[str, Any]:
        params = {"provider": provider} if provider else {}
        response = await jp_fetch("jupyt5", "api", "status", params=params)
        return json.loads(response.body)

    return send


async def test_idle_then_ready(ask, fill, app):
    before = await ask()
    assert (before["provider"], before["default"]) == (FAKE, FAKE)
    assert (before["state"], before["reason"], before["running"]) == ("idle", "", 0)
    assert before["enabled"] is True
    assert app.engine.shelf.states() == []  # asking loads nothing
    await fill()
    assert (await ask())["state"] == "ready"


async def test_another_provider(ask, fill):
    await fill()
    other = await ask("fake:text=y")
    assert (other["provider"], other["state"], other["default"]) == ("fake:text=y", "idle", FAKE)


async def test_loading_is_told_at_once(ask, fill):
    reply = asyncio.ensure_future(fill(provider="fake:load=800&text=x"))
    await asyncio.sleep(0.2)
    start = time.perf_counter()
    status = await ask("fake:load=800&text=x")
    assert time.perf_counter() - start < 0.4
    assert (status["state"], status["running"]) == ("loading", 1)
    assert (await reply)[-1]["type"] == "done"


async def test_busy_while_no_turn_is_free(ask, fill, app):
    app.max_parallel_fills = 1
    first = asyncio.ensure_future(fill(request_id="r1", provider=SLOW))
    second = asyncio.ensure_future(fill(request_id="r2", provider=SLOW))
    states = []
    while not second.done():
        status = await ask(SLOW)
        states.append((status["state"], status["running"], status["waiting"]))
        await asyncio.sleep(0.03)
    assert ("busy", 2, 1) in states
    assert (await first)[-1]["type"] == (await second)[-1]["type"] == "done"
    assert (await ask(SLOW))["state"] == "ready"


async def test_one_of_two_turns_is_not_busy(ask, fill):
    reply = asyncio.ensure_future(fill(provider=SLOW))
    await asyncio.sleep(0.2)
    status = await ask(SLOW)
    assert (status["state"], status["running"]) == ("ready", 1)
    await reply


async def test_offline_after_a_failed_load_until_the_next_one_succeeds(ask, fill, app, monkeypatch):
    loads: list[str] = []

    def load(uri: str) -> FakeProvider:
        loads.append(uri)
        if len(loads) == 1:
            raise ValueError("no such\n tensor")
        return FakeProvider("text=x")

    monkeypatch.setattr("jupyt5.server.app.load_provider", load)
    app.load_retry_s = 0.0
    await fill()
    status = await ask()
    assert status["state"] == "offline"
    assert "no such tensor" in status["reason"]
    assert "\n" not in status["reason"]
    await fill(request_id="r2")
    assert (await ask())["state"] == "ready"


async def test_a_failing_answer_is_not_offline(ask, fill):
    lines = await fill(provider="fake:fail")
    assert lines[-1]["code"] == "provider_failed"
    assert (await ask("fake:fail"))["state"] == "ready"


async def test_switched_off_is_still_answered(ask, app):
    app.enabled = False
    status = await ask()
    assert (status["enabled"], status["state"]) == (False, "idle")


async def test_a_provider_that_is_not_allowed(ask, app):
    app.allowed_providers = ["fake:text=y"]
    status = await ask("fake:text=z")
    assert (status["provider"], status["state"]) == ("fake:text=z", "offline")
    assert "fake:text=z is not allowed" in status["reason"]
    assert "fake:text=y" in status["reason"]


@pytest.mark.parametrize("allowed", [[], ["fake:text=y"]])
async def test_a_password_in_a_uri_stays_out_of_log_and_reply(ask, app, caplog, allowed):
    app.allowed_providers = allowed
    with caplog.at_level(logging.DEBUG):
        status = await ask("openai:m@https://ana:sesame@h/v1")
    assert "openai:m@https://h/v1" in json.dumps(status)
    assert "/jupyt5/api/status" in caplog.text
    assert "sesame" not in json.dumps(status) + caplog.text


async def test_a_password_of_a_stranger_stays_out_of_the_log(jp_fetch, caplog):
    params = {"provider": "openai:m@https://ana:sesame@h/v1"}
    with pytest.raises(HTTPClientError, match="403"):
        await jp_fetch(
            "jupyt5", "api", "status", params=params, headers={"Authorization": "token no"}
        )
    assert "/jupyt5/api/status" in caplog.text
    assert "sesame" not in caplog.text
