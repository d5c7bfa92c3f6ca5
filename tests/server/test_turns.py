"""Fair turns: rotation among users, bounds, 429, and nothing left behind."""

import asyncio
import json
import threading
import time

import pytest

from jupyt5.server.messages import parse_fill
from jupyt5.server.turns import FairTurns

SLOW = "fake:slow=50&text=" + "+".join(f"w{number}" for number in range(100))


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def join(turns, order, user):
    await turns.take(user)
    order.append(user)


async def test_turns_go_round_among_users():
    turns, order = FairTurns(1), []
    await turns.take("a")
    tasks = [asyncio.ensure_future(join(turns, order, user)) for user in "aaabbc"]
    await settle()
    assert turns.num_waiting == 6
    turns.end("a")
    await settle()
    while len(order) < 6:
        turns.end(order[-1])
        await settle()
    await asyncio.gather(*tasks)
    # `a` was here first with three: the others wait for one of them, not for all.
    assert order == ["a", "b", "c", "a", "b", "a"]


async def test_a_user_who_holds_a_slot_comes_after_one_who_holds_none():
    turns, order = FairTurns(2), []
    await turns.take("a")
    await turns.take("b")
    tasks = [asyncio.ensure_future(join(turns, order, user)) for user in "ac"]
    await settle()
    turns.end("b")
    await settle()
    assert order == ["c"]
    turns.end("c")
    await asyncio.gather(*tasks)
    assert order == ["c", "a"]


async def test_whoever_gives_up_frees_the_place():
    turns = FairTurns(1)
    await turns.take("a")
    waiting = asyncio.ensure_future(turns.take("b"))
    late = asyncio.ensure_future(turns.take("c"))
    await settle()
    waiting.cancel()
    await settle()
    assert turns.num_waiting == 1
    turns.end("a")
    late.cancel()  # in the very moment in which it is its turn
    await settle()
    assert turns.is_free
    assert turns.num_waiting == 0


class TestBound:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["JuPyT5App"] |= {
            "max_parallel_fills": 1,
            "max_waiting_fills": 2,
            "max_waiting_fills_per_user": 1,
        }
        return jp_server_config

    async def test_429_then_recovery(self, fill, jp_fetch, app, body, metric):
        refused_before = await metric('jupyt5_fill_requests_total{outcome="refused"}')
        held = [asyncio.ensure_future(fill(request_id=f"r{n}", provider=SLOW)) for n in range(3)]
        while app.engine.num_waiting < 2:
            await asyncio.sleep(0.01)
        assert await metric("jupyt5_fill_waiting") == 2
        response = await jp_fetch(
            "jupyt5", "api", "fill", method="POST", body=body(), raise_error=False
        )
        assert response.code == 429
        assert 1 <= int(response.headers["Retry-After"]) <= 60
        line = json.loads(response.body)
        assert (line["type"], line["code"], line["request_id"]) == ("error", "busy", "r1")
        assert await metric('jupyt5_fill_requests_total{outcome="refused"}') == refused_before + 1
        for n in range(3):
            await jp_fetch("jupyt5", "api", "fill", f"r{n}", method="DELETE")
        # Whichever came first was answered, the others waited.
        num_waited = 0
        for lines in await asyncio.gather(*held):
            num_waited += any(each.get("state") == "waiting" for each in lines)
        assert num_waited == 2
        assert (await fill(request_id="after"))[-1]["type"] == "done"

    async def test_one_user_cannot_take_all_the_room(self, app):
        job = type("Job", (), {"user": "greedy"})
        running = type("Running", (), {"job": job})
        app.engine._running.update(a=running, b=running)
        try:
            with pytest.raises(Exception, match="2 of your requests are under way"):
                app.engine.admit("greedy")
            app.engine.admit("modest")
        finally:
            app.engine._running.clear()


async def test_a_thousand_abandoned_requests_leave_nothing(app, body, metric):
    engine, cancelled = app.engine, 'jupyt5_fill_requests_total{outcome="cancelled"}'
    before = await metric(cancelled)
    for first in range(0, 1000, 50):  # with the room that the settings give
        jobs = [
            parse_fill(body(request_id=f"r{first + n}", provider=SLOW).encode(), app.limits)
            for n in range(50)
        ]
        streams = [engine.stream(job) for job in jobs]
        for stream in streams:
            await anext(stream)
        for stream in streams:
            await stream.aclose()
    end = time.monotonic() + 5
    while not engine._turns.is_free and time.monotonic() < end:
        await asyncio.sleep(0.01)
    assert engine._turns.is_free
    assert (engine.num_running, engine.num_waiting) == (0, 0)
    assert await metric(cancelled) == before + 1000
    assert await metric("jupyt5_fill_in_flight") == await metric("jupyt5_fill_waiting") == 0
    fills = [each for each in threading.enumerate() if each.name.startswith("jupyt5-fill")]
    assert len(fills) <= app.max_parallel_fills


class TestOff:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["JuPyT5App"]["enabled"] = False
        return jp_server_config

    async def test_the_administrators_switch(self, fill, jp_fetch):
        (line,) = await fill()
        assert line["code"] == "disabled"
        status = json.loads((await jp_fetch("jupyt5", "api", "status")).body)
        assert status["enabled"] is False
