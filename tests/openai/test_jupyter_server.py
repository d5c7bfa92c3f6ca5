"""openai: in the Jupyter server: an administrator's settings, keys, cancelling."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from .conftest import KEY
from .servers import Answer, Exchange, Server, answer_with, delta, refuse, serving

CELLS = [
    {"id": "a", "kind": "markdown", "source": "Add."},
    {"id": "b", "kind": "code", "source": ""},
]


@pytest.fixture
def jp_server_config(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("TEAM_KEY", KEY)
    return {"ServerApp": {"jpserver_extensions": {"jupyt5.server": True}}}


@pytest.fixture
def app(jp_serverapp: Any) -> Any:
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyt5.server"]
    app.openai_key_env = "TEAM_KEY"
    return app


@pytest.fixture
def fill(jp_fetch: Any, app: Any) -> Any:
    async def send(server: Server, provider: str = "", **fields: object) -> list[dict[str, Any]]:
        app.provider = f"openai:m@{server.base_url}"
        app.openai_base_url = app.openai_base_url or server.base_url
        body = {"request_id": "r1", "cells": CELLS, "target_idx": 1, "provider": provider, **fields}
        response = await jp_fetch(
            "jupyt5", "api", "fill", method="POST", body=json.dumps(body), raise_error=False
        )
        return [json.loads(line) for line in response.body.splitlines()]

    return send


async def test_the_administrators_server_is_asked_with_its_key(fill: Any):
    with serving(answer_with("x", " = 1")) as server:
        lines = await fill(server)
    assert [line["text"] for line in lines if line["type"] == "candidate"] == ["x = 1"]
    assert [line["text"] for line in lines if line["type"] == "delta"] == ["x", "x = 1"]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_server_that_a_request_names_does_not_get_the_key(fill: Any):
    with serving(answer_with("mine")) as server, serving(answer_with("theirs")) as other:
        lines = await fill(server, f"openai:m@{other.base_url}")
    assert lines[-2]["text"] == "theirs"
    assert "authorization" not in other.seen[0].headers
    assert server.seen == []


async def test_a_server_that_is_not_allowed_is_not_asked(fill: Any, app: Any):
    app.allowed_providers = ["jupyt5:nano"]
    with serving(answer_with("mine")) as server, serving(answer_with("theirs")) as other:
        lines = await fill(server, f"openai:m@{other.base_url}")
    assert lines[-1]["code"] == "provider_denied"
    assert other.seen == []


async def test_the_key_is_in_no_reply_and_no_log_line(
    fill: Any, jp_fetch: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    with serving(refuse("401 Unauthorized", f"Incorrect key: {KEY}")) as server:
        lines = await fill(server)
        assert (lines[-1]["type"], lines[-1]["code"]) == ("error", "provider_failed")
        assert "refused the key" in lines[-1]["message"]
        assert "TEAM_KEY" in lines[-1]["message"]
        shown = json.dumps(lines)
        for path in ("providers", "status"):
            shown += (await jp_fetch("jupyt5", "api", path)).body.decode()
    captured = capfd.readouterr()
    assert KEY not in shown + caplog.text + captured.out + captured.err


async def ask_status(jp_fetch: Any, **params: str) -> dict[str, Any]:
    return json.loads((await jp_fetch("jupyt5", "api", "status", params=params)).body)


async def test_a_server_that_goes_down_is_offline_until_it_answers(
    fill: Any, app: Any, jp_fetch: Any
):
    app.openai_retries = 0
    with serving(answer_with("x")) as server:
        assert (await fill(server))[-1]["type"] == "done"
        assert (await ask_status(jp_fetch))["state"] == "ready"
    lines = await fill(server)
    status = await ask_status(jp_fetch)
    assert (status["state"], status["reason"]) == ("offline", lines[-1]["message"])
    assert f"No server answers at {server.base_url}" in status["reason"]
    with serving(answer_with("x"), port=server.port) as server:
        assert (await fill(server))[-1]["type"] == "done"
    status = await ask_status(jp_fetch)
    assert (status["state"], status["reason"]) == ("ready", "")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (refuse("401 Unauthorized", f"bad {KEY}"), "offline"),
        (refuse("404 Not Found"), "offline"),
        (refuse("503 Gone"), "offline"),
        (refuse("400 Bad Request", "too long"), "ready"),
        (refuse("429 Too Many"), "ready"),
        (refuse("500 Oops", "no memory"), "ready"),
    ],
)
async def test_what_is_offline(answer: Answer, state: str, fill: Any, app: Any, jp_fetch: Any):
    app.openai_retries = 0
    with serving(answer) as server:
        await fill(server)
        status = await ask_status(jp_fetch)
    assert status["state"] == state
    assert bool(status["reason"]) == (state == "offline")
    assert KEY not in status["reason"]


async def test_a_password_in_an_address_is_shown_nowhere(
    fill: Any, app: Any, jp_fetch: Any, caplog: pytest.LogCaptureFixture
):
    """Such an address is refused; it stands in the settings all the same."""
    caplog.set_level(logging.DEBUG)
    with serving(answer_with("x")) as server:
        bad = server.base_url.replace("//", "//ana:sesame@")
        lines = await fill(server, f"openai:m@{bad}")
        assert lines[-1]["code"] == "bad_request"
        app.provider = f"openai:m@{bad}?key=sesame"
        app.allowed_providers = [f"openai:n@{bad}"]
        shown = json.dumps(lines)
        for path in ("providers", "status"):
            shown += (await jp_fetch("jupyt5", "api", path)).body.decode()
        body = json.dumps({"request_id": "r", "cells": CELLS, "target_idx": 1, "provider": "x:"})
        for path in ("fill", "context"):
            response = await jp_fetch(
                "jupyt5", "api", path, method="POST", body=body, raise_error=False
            )
            shown += response.body.decode()
    assert "is not allowed on this server" in shown
    assert server.seen == []
    assert "sesame" not in shown + caplog.text


async def test_the_address_is_in_the_provenance_and_the_key_is_not(fill: Any):
    with serving(answer_with("x")) as server:
        lines = await fill(server, provenance=True)
    origin = lines[-1]["provenance"]
    assert (origin["provider"], origin["model_sha256"]) == (f"openai:m@{server.base_url}", None)
    assert KEY not in json.dumps(lines)


async def test_a_key_of_the_configuration_wins(fill: Any, app: Any):
    app.openai_api_key = "sk-other"
    with serving(answer_with("x")) as server:
        await fill(server)
    assert server.seen[0].headers["authorization"] == "Bearer sk-other"


async def test_retries_are_the_administrators(fill: Any, app: Any):
    app.openai_retries = 1
    with serving(refuse("500 Oops", "no memory")) as server:
        lines = await fill(server)
    assert len(server.seen) == 2
    assert "1 further try (500): no memory" in lines[-1]["message"]


async def test_cancel_closes_the_connection_to_the_model(fill: Any, jp_fetch: Any):
    asked, left = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        exchange.event(delta("x"))
        asked.set()
        exchange.sock.settimeout(5)
        assert exchange.sock.recv(1) == b""
        left.set()

    with serving(answer) as server:
        reply = asyncio.ensure_future(fill(server))
        assert await asyncio.to_thread(asked.wait, 5)
        await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
        assert await asyncio.to_thread(left.wait, 1)
        assert (await reply)[-1]["code"] == "cancelled"
