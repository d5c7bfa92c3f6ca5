"""Cancelling: by request, by closing the connection, by time. It must reach the generator."""

import asyncio

import pytest

# Each of the hundred steps takes 50 ms: uncancelled, an answer takes five seconds.
STEP_S = 0.05
SLOW = "fake:slow=50&text=" + "+".join(f"w{number}" for number in range(100))


async def provider_of(app):
    """Return the loaded provider, once it has made a step."""
    for _ in range(200):
        if app.engine.shelf.state(SLOW).state == "ready":
            provider = await app.engine.shelf.get(SLOW)
            if provider.num_steps:
                return provider
        await asyncio.sleep(0.01)
    raise TimeoutError


async def assert_stops(app, provider):
    """The counter stands still within one step, and the job is forgotten."""
    await asyncio.sleep(STEP_S)
    steps = provider.num_steps
    await asyncio.sleep(5 * STEP_S)
    assert provider.num_steps == steps < 100
    assert app.engine.num_running == 0


async def test_delete_reaches_the_generator(fill, jp_fetch, app):
    reply = asyncio.ensure_future(fill(provider=SLOW))
    provider = await provider_of(app)
    response = await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
    assert response.code == 200
    lines = await asyncio.wait_for(reply, 1)
    assert (lines[-1]["type"], lines[-1]["code"]) == ("error", "cancelled")
    assert not any(line["type"] == "candidate" for line in lines)
    await assert_stops(app, provider)


async def test_delete_of_nothing(jp_fetch):
    response = await jp_fetch("jupyt5", "api", "fill", "unknown", method="DELETE")
    assert response.body == b'{"cancelled": false}'


async def test_closed_connection_reaches_the_generator(
    http_server, jp_base_url, jp_http_port, jp_auth_header, body, app
):
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    payload = body(provider=SLOW).encode()
    head = [
        f"POST {jp_base_url}jupyt5/api/fill HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(payload)}",
        *(f"{name}: {value}" for name, value in jp_auth_header.items()),
    ]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + payload)
    assert b"200 OK" in await asyncio.wait_for(reader.readline(), 5)
    provider = await provider_of(app)
    writer.close()
    await assert_stops(app, provider)


async def test_time_limit(fill, app):
    app.timeout_s = 0.3
    lines = await fill(provider=SLOW)
    assert lines[-1]["code"] == "timeout"
    await assert_stops(app, await app.engine.shelf.get(SLOW))


async def test_cancel_while_waiting_for_a_thread(fill, jp_fetch, app):
    app.max_parallel_fills = 1
    first = asyncio.ensure_future(fill(provider=SLOW))
    provider = await provider_of(app)
    second = asyncio.ensure_future(fill(request_id="r2", provider=SLOW))
    while app.engine.num_running < 2:
        await asyncio.sleep(0.01)
    await jp_fetch("jupyt5", "api", "fill", "r2", method="DELETE")
    assert (await asyncio.wait_for(second, 1))[-1]["code"] == "cancelled"
    await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
    await first
    await assert_stops(app, provider)


async def test_second_request_of_the_same_id(fill, jp_fetch, app):
    first = asyncio.ensure_future(fill(provider=SLOW))
    await provider_of(app)
    (line,) = await fill()
    assert line["code"] == "duplicate_id"
    await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
    await first


async def test_replies_carry_their_own_ids(fill):
    slow = asyncio.ensure_future(fill(request_id="slow", provider="fake:slow=100&text=late"))
    await asyncio.sleep(0.02)
    fast = await fill(request_id="fast")
    assert not slow.done()
    assert {line["request_id"] for line in fast} == {"fast"}
    lines = await slow
    assert {line["request_id"] for line in lines} == {"slow"}
    assert lines[-2]["text"] == "late"


@pytest.mark.parametrize("jp_argv", [[]])
async def test_server_stops_with_a_request_under_way(fill, app):
    reply = asyncio.ensure_future(fill(provider=SLOW))
    await provider_of(app)
    await app.stop_extension()
    assert (await asyncio.wait_for(reply, 1))[-1]["code"] == "cancelled"
