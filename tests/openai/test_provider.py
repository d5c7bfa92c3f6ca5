"""openai: what is sent, what is made of the answer, cancelling, keys."""

from __future__ import annotations

import gc
import json
import logging
import threading
import time

import pytest

from jupyt5.errors import ProviderError, UsageError
from jupyt5.providers import Sampling, load_provider
from jupyt5.providers.openai import OpenAISettings
from jupyt5.providers.openai.settings import parse_address

from .conftest import KEY, REQUEST, Ask, Make, text_of
from .servers import Exchange, answer_with, delta, refuse, serving


def test_a_chat_answer_is_streamed(make: Make, ask: Ask):
    with serving(answer_with("area", " = ", "3.14")) as server:
        chunks = ask(make(server.base_url), temperature=0.2, max_tokens=9)
    assert text_of(chunks) == "area = 3.14"
    assert [chunk.finished for chunk in chunks] == [False] * 4 + [True]
    sent = server.seen[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["model"] == "m"
    assert (sent.body["temperature"], sent.body["max_tokens"], sent.body["seed"]) == (0.2, 9, 7)
    assert "top_k" not in sent.body
    told = json.dumps(sent.body["messages"])
    assert all(text in told for text in ("import math", "Compute the area", "assert area > 3"))


def test_fim_sends_prompt_and_suffix(make: Make, ask: Ask):
    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        exchange.event({"choices": [{"index": 0, "text": "x = 1", "finish_reason": "stop"}]})
        exchange.close_stream()

    with serving(answer) as server:
        assert text_of(ask(make(server.base_url, "#fim"))) == "x = 1"
        assert text_of(ask(make(server.base_url, "#completions"))) == "x = 1"
    fim, plain = (exchange.body for exchange in server.seen)
    assert server.seen[0].path == "/v1/completions"
    assert fim["prompt"].endswith("# the area\n")
    assert "assert area > 3" in fim["suffix"]
    assert "assert area > 3" not in fim["prompt"]
    assert "suffix" not in plain
    assert "assert area > 3" in plain["prompt"]
    assert len(plain["stop"]) >= 1


def test_a_server_that_does_not_stream_is_understood(make: Make, ask: Ask):
    whole = {"choices": [{"message": {"content": "y = 2"}, "finish_reason": "stop"}]}
    with serving(lambda exchange: exchange.reply("200 OK", json.dumps(whole))) as server:
        chunks = ask(make(server.base_url))
    assert text_of(chunks) == "y = 2"
    assert chunks[-1].finished


def test_log_probabilities_become_their_mean(make: Make, ask: Ask):
    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        exchange.event(delta("a", logprobs={"content": [{"token": "a", "logprob": -1.0}]}))
        last = {"content": [{"token": "b", "logprob": -2}]}
        exchange.event(delta("b", logprobs=last, finish_reason="length"))
        exchange.event("[DONE]")
        exchange.close_stream()

    with serving(answer) as server:
        assert ask(make(server.base_url))[-1].mean_logprob == -1.5


def test_hypotheses_have_seeds_of_their_own_and_share_connections(make: Make, ask: Ask):
    with serving(answer_with("a", "b")) as server:
        provider = make(server.base_url)
        chunks = ask(provider, n=6)
        assert {text_of(chunks, idx) for idx in range(6)} == {"ab"}
        assert sorted(exchange.body["seed"] for exchange in server.seen) == list(range(7, 13))
        assert len(ask(provider, n=6, temperature=0.0)) == 4  # greedy: just one
        assert server.num_connections <= 4


def test_a_refused_setting_is_left_out_from_then_on(make: Make, ask: Ask):
    refusal = refuse("400 Bad Request", "Unsupported parameter: 'max_tokens' is not supported")
    with serving(refusal, answer_with("a")) as server:
        provider = make(server.base_url)
        assert text_of(ask(provider, max_tokens=5)) == "a"
        assert text_of(ask(provider, max_tokens=5)) == "a"
    assert [exchange.body.get("max_completion_tokens") for exchange in server.seen] == [None, 5, 5]
    assert "max_tokens" not in server.seen[1].body


@pytest.mark.parametrize("silent", [False, True])
def test_cancel_closes_the_connection(make: Make, silent: bool):
    left = threading.Event()

    def answer(exchange: Exchange) -> None:
        if not silent:
            exchange.open_stream()
            exchange.event(delta("a"))
        exchange.sock.settimeout(5)
        assert exchange.sock.recv(1) == b""
        left.set()

    with serving(answer) as server:
        cancel = threading.Event()
        stream = make(server.base_url).generate(REQUEST, 1, Sampling(), 0, cancel)
        if silent:
            threading.Timer(0.2, cancel.set).start()
        else:
            assert next(stream).text_delta == "a"
            cancel.set()
        started = time.monotonic()
        assert list(stream) == []
        assert left.wait(2)
        assert time.monotonic() - started < 3


def test_cancel_ends_a_pause_between_tries(make: Make, monkeypatch: pytest.MonkeyPatch):
    with serving(refuse("429 Too Many", Retry_After="15")) as server:
        cancel = threading.Event()
        threading.Timer(0.2, cancel.set).start()
        started = time.monotonic()
        assert list(make(server.base_url).generate(REQUEST, 1, Sampling(), 0, cancel)) == []
        assert time.monotonic() - started < 3


def test_a_closed_generator_closes_the_connection(make: Make):
    with serving(answer_with(*"abc" * 100, pause_s=0.02)) as server:
        stream = make(server.base_url).generate(REQUEST, 1, Sampling(), 0, threading.Event())
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert server.gone.wait(2)


def test_a_provider_that_is_let_go_leaves_no_thread(make: Make, ask: Ask):
    before = set(threading.enumerate())
    with serving(answer_with("a")) as server:
        provider = make(server.base_url)
        ask(provider)
        (thread,) = (
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name == "jupyt5-openai"
        )
        del provider
        gc.collect()
        thread.join(timeout=5)
        assert not thread.is_alive()


def test_a_key_goes_to_its_own_server_only(make: Make, ask: Ask):
    with serving(answer_with("a")) as server:
        ask(make(server.base_url, base_url="https://api.example.org/v1"))
        ask(make(server.base_url, base_url=server.base_url.replace("/v1", "")))
    assert ["authorization" in exchange.headers for exchange in server.seen] == [False, True]


def test_the_key_is_in_no_log_line(make: Make, ask: Ask, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with serving(refuse("500 Oops", f"key {KEY}"), answer_with("a")) as server:
        provider = make(server.base_url)
        ask(provider)
    assert "500" in caplog.text
    assert KEY not in caplog.text + repr(vars(provider)) + repr(provider._settings) + provider.uri


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, ask: Ask):
    with serving(answer_with("a")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
        assert text_of(ask(load_provider("openai:qwen:7b"))) == "a"  # type: ignore[arg-type]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.seen[0].body["model"] == "qwen:7b"


def test_a_key_that_is_none_is_not_shown():
    with pytest.raises(ProviderError, match="MY_KEY") as caught:
        OpenAISettings.from_environment({"MY_KEY": "sk se\ncret"}, key_env="MY_KEY")
    assert "cret" not in str(caught.value)


def test_a_proxy_is_used_but_not_for_this_machine(
    make: Make, ask: Ask, monkeypatch: pytest.MonkeyPatch
):
    with serving(answer_with("via proxy")) as proxy, serving(answer_with("direct")) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert text_of(ask(make("http://models.example.org/v1"))) == "via proxy"
        assert text_of(ask(make(server.base_url))) == "direct"
    assert proxy.seen[0].path == "http://models.example.org/v1/chat/completions"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("m@http://h/v1/", ("m", "http://h/v1", "chat")),
        ("org/m:7b@https://h:8/v1#fim", ("org/m:7b", "https://h:8/v1", "fim")),
        ("jupyt5:nano@http://[::1]:8/v1", ("jupyt5:nano", "http://[::1]:8/v1", "chat")),
        ("a@b#completions", ("a@b", "https://api.openai.com/v1", "completions")),
    ],
)
def test_addresses(spec: str, expected: tuple[str, str, str]):
    address = parse_address(spec, OpenAISettings())
    assert (address.model, address.base_url, address.style) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "@http://h/v1",
        "m@http://h/v1#talk",
        "m@http://user:geheim@h/v1",
        "m@http://h?key=geheim",
    ],
)
def test_wrong_addresses_are_refused_without_showing_secrets(spec: str):
    with pytest.raises(UsageError, match="openai") as caught:
        load_provider(f"openai:{spec}")
    assert "geheim" not in str(caught.value)
