"""`jupyt5 serve`: the protocol, who may ask, the queue, going away."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from jupyt5.errors import ProviderError, UsageError
from jupyt5.server.engine import FillEngine
from jupyt5.server.openai import ServeConfig, serve
from jupyt5.server.openai import app as app_module
from jupyt5.server.openai.bodies import Bounds

FAKE = "fake:text=x+=+1%0Ay+=+2"
SLOW = "fake:slow=50&text=" + "+".join(f"w{number}" for number in range(100))
ASK = {"model": FAKE, "prompt": "# the numbers\n"}


@asynccontextmanager
async def served(*models: str, **fields: object) -> AsyncIterator[httpx.AsyncClient]:
    config = ServeConfig(bounds=Bounds(models=models or (FAKE,)), port=0, **fields)  # type: ignore[arg-type]
    base_url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(serve(config, base_url.set_result))
    await asyncio.wait({server, base_url}, return_when=asyncio.FIRST_COMPLETED)
    if server.done():
        server.result()
    headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
    async with httpx.AsyncClient(base_url=await base_url, headers=headers) as client:
        yield client
    server.cancel()
    await asyncio.wait({server})


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[FillEngine]:
    """The engines of the servers that a test starts."""
    made: list[FillEngine] = []

    class Kept(FillEngine):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(app_module, "FillEngine", Kept)
    return made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def events_of(response: httpx.Response) -> list[dict[str, object]]:
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_models():
    async with served(FAKE, "fake:") as client:
        listed = (await client.get("/models")).json()
        assert [model["id"] for model in listed["data"]] == [FAKE, "fake:"]
        assert (await client.get("/models/fake:")).json()["id"] == "fake:"
        assert (await client.get("/models/other")).status_code == 404


async def test_a_completion_whole_and_streamed():
    async with served() as client:
        whole = (await client.post("/completions", json=ASK)).json()
        assert whole["object"] == "text_completion"
        assert whole["choices"][0]["text"] == "x = 1\ny = 2"
        assert whole["choices"][0]["finish_reason"] == "stop"
        response = await client.post("/completions", json={**ASK, "stream": True})
        assert response.headers["content-type"].startswith("text/event-stream")
        choices = [event["choices"][0] for event in events_of(response)]  # type: ignore[index]
        assert "".join(choice["text"] for choice in choices) == "x = 1\ny = 2"
        assert len(choices) > 3
        assert [choice["finish_reason"] for choice in choices][-2:] == [None, "stop"]


async def test_a_chat_whole_and_streamed():
    ask = {"model": FAKE, "messages": [{"role": "user", "content": "Count."}]}
    expected = "```python\nx = 1\ny = 2\n```"
    async with served() as client:
        whole = (await client.post("/chat/completions", json=ask)).json()
        assert whole["choices"][0]["message"] == {"role": "assistant", "content": expected}
        response = await client.post("/chat/completions", json={**ask, "stream": True})
        deltas = [event["choices"][0]["delta"] for event in events_of(response)]  # type: ignore[index]
        assert deltas[0]["role"] == "assistant"
        assert "".join(delta.get("content", "") for delta in deltas) == expected
        begun = [*ask["messages"], {"role": "assistant", "content": "# numbers\n"}]
        whole = (await client.post("/chat/completions", json={**ask, "messages": begun})).json()
        assert whole["choices"][0]["message"]["content"] == "x = 1\ny = 2"


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("stop", "text"), [("\n", "x = 1"), (["z", "1\ny"], "x = "), ("q", "all")])
async def test_a_stop_ends_the_answer_and_is_not_part_of_it(streams: bool, stop: object, text: str):
    text = "x = 1\ny = 2" if text == "all" else text
    async with served() as client:
        ask = {**ASK, "stop": stop, "stream": streams}
        response = await client.post("/completions", json=ask)
        if streams:
            choices = [event["choices"][0] for event in events_of(response)]  # type: ignore[index]
            assert "".join(choice["text"] for choice in choices) == text
        else:
            assert response.json()["choices"][0]["text"] == text


async def test_several_choices_and_a_token_limit():
    async with served() as client:
        ask = {**ASK, "n": 3, "max_tokens": 2}
        choices = (await client.post("/completions", json=ask)).json()["choices"]
        assert [choice["index"] for choice in choices] == [0, 1, 2]
        assert {choice["text"] for choice in choices} == {"x ="}


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("completions", "{", 400, "not JSON"),
        ("completions", {**ASK, "model": "gpt"}, 404, "no model 'gpt'"),
        ("completions", {"prompt": [1, 2]}, 400, "no token ids"),
        ("completions", {"prompt": ""}, 400, "nothing around it"),
        ("completions", {**ASK, "n": 99}, 400, "n must be"),
        ("completions", {**ASK, "temperature": "hot"}, 400, "temperature must be"),
        ("completions", {**ASK, "top_p": 2}, 400, "top_p = 2"),
        ("completions", {**ASK, "stop": [1]}, 400, "stop must be"),
        ("completions", {**ASK, "echo": True}, 400, "echo"),
        ("completions", {**ASK, "suffix": 3}, 400, "suffix must be text"),
        ("chat/completions", {"messages": []}, 400, "messages must be"),
        ("chat/completions", {"messages": ["hi"]}, 400, "messages\\[0\\]"),
        ("chat/completions", {"messages": [{"role": "user", "content": 3}]}, 400, "content"),
        ("completions", {**ASK, "model": "fake:fail", "stream": True}, 502, "asked to fail"),
        ("completions", {**ASK, "prompt": "x" * 1_048_577}, 413, "are allowed"),
        ("embeddings", ASK, 404, "Pages: /v1/models"),
    ],
)
async def test_wrong_requests_have_one_clear_answer(
    path: str, body: object, status: int, says: str
):
    async with served(FAKE, "fake:fail") as client:
        content = body if isinstance(body, str) else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        response = await client.post(f"/{path}", content=content, headers=headers)
        assert response.status_code == status
        with pytest.raises(AssertionError, match=says):
            raise AssertionError(response.json()["error"]["message"])


async def test_wrong_methods_are_answered_in_json():
    async with served() as client:
        response = await client.get("/completions")
        assert response.status_code == 405
        assert "Method Not Allowed" in response.json()["error"]["message"]


async def test_without_the_token_nothing_is_answered():
    async with served(token="geheim") as client:
        assert (await client.get("/models")).status_code == 200
        for headers in ({"Authorization": ""}, {"Authorization": "Bearer geheime"}):
            for method, path in (("GET", "/models"), ("POST", "/completions")):
                response = await client.request(method, path, headers=headers)
                assert response.status_code == 401
                assert "geheim" not in response.text


async def test_pages_of_other_sites_are_refused():
    async with served() as client:
        response = await client.get("/models", headers={"Host": "evil.example:8765"})
        assert response.status_code == 403
        plain = {"Content-Type": "text/plain"}
        response = await client.post("/completions", content=json.dumps(ASK), headers=plain)
        assert response.status_code == 415
        assert not any("access-control" in name for name in response.headers)


def test_a_server_for_the_network_wants_a_token():
    with pytest.raises(UsageError, match="Give a token"):
        ServeConfig(bounds=Bounds(models=(FAKE,)), host="0.0.0.0")
    ServeConfig(bounds=Bounds(models=(FAKE,)), host="0.0.0.0", token="x")


async def test_a_port_that_is_taken_and_a_model_that_is_missing():
    async with served() as client:
        port = client.base_url.port
        with pytest.raises(UsageError, match=f"Port {port} of 127.0.0.1 is in use"):
            await serve(ServeConfig(bounds=Bounds(models=(FAKE,)), port=port or 0), print)
    with pytest.raises(ProviderError, match="no model jupyt5:none"):
        await serve(ServeConfig(bounds=Bounds(models=("jupyt5:none",)), port=0), print)


@pytest.mark.parametrize("streams", [False, True])
async def test_going_away_reaches_the_generator(engines: list[FillEngine], streams: bool):
    async with served(SLOW) as client:
        ask = {"prompt": "# words\n", "stream": streams}
        request = asyncio.ensure_future(client.post("/completions", json=ask))
        provider: Any = await engines[0].shelf.get(SLOW)
        await until(lambda: provider.num_steps > 0)
        request.cancel()
        await until(lambda: engines[0].num_running == 0)
        await asyncio.sleep(0.1)  # a step takes half of that
        num_steps = provider.num_steps
        await asyncio.sleep(0.25)
        assert provider.num_steps == num_steps


async def test_a_full_queue_is_told_and_recovers(engines: list[FillEngine]):
    async with served(SLOW, max_parallel=1, max_waiting=1) as client:
        ask = {"prompt": "# words\n", "max_tokens": 10}
        running = [asyncio.ensure_future(client.post("/completions", json=ask)) for _ in range(2)]
        await until(lambda: engines[0].num_running == 2)
        refused = await client.post("/completions", json=ask)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "2 requests are under way" in refused.json()["error"]["message"]
        assert [(await each).status_code for each in running] == [200, 200]
        assert (await client.post("/completions", json=ask)).status_code == 200


async def test_too_slow_an_answer_is_ended():
    async with served(SLOW, timeout_s=0.3) as client:
        response = await client.post("/completions", json={"prompt": "# words\n"})
        assert response.status_code == 504
        response = await client.post("/completions", json={"prompt": "# words\n", "stream": True})
        assert '"code": "timeout"' in response.text
        assert "[DONE]" not in response.text


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_serves_until_it_is_told_to_end(end: signal.Signals, code: int):
    command = [sys.executable, "-c", "import sys; from jupyt5.cli import main; sys.exit(main())"]
    with subprocess.Popen(
        [*command, "serve", "--port", "0", "--provider", FAKE], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        answer = httpx.post(f"{base_url}/completions", json=ASK).json()
        assert answer["choices"][0]["text"].startswith("x = 1")
        started = time.monotonic()
        process.send_signal(end)
        assert process.wait(10) == code
        assert time.monotonic() - started < 3
