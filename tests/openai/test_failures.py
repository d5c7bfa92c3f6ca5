"""openai: every way in which a server fails has one clear message."""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Callable

import pytest

from jupyt5.errors import ProviderError

from .conftest import KEY, Ask, Make, text_of
from .servers import Answer, Exchange, answer_with, delta, refuse, serving

PAGE = "<!DOCTYPE html><html><body>Sign in to continue</body></html>"


def stream(*events: object, end: bool = True, content_type: str = "text/event-stream") -> Answer:
    def answer(exchange: Exchange) -> None:
        exchange.open_stream(content_type)
        for event in events:
            exchange.event(event)
        if end:
            exchange.close_stream()
        else:
            exchange.sock.shutdown(socket.SHUT_RDWR)

    return answer


def page(status: str = "200 OK") -> Answer:
    return lambda exchange: exchange.reply(status, PAGE, "text/html")


CASES: dict[str, tuple[Answer, int, str]] = {
    # what the server does, requests it gets, what the message says
    "401": (
        refuse("401 Unauthorized", f"bad key {KEY}"),
        1,
        r"refused the key \(401\): bad key \[",
    ),
    "403": (refuse("403 Forbidden"), 1, "refused the key"),
    "404": (refuse("404 Not Found", "model m does not exist"), 1, "no model m .*ends in /v1"),
    "404 page": (page("404 Not Found"), 1, "answered with a web page.*ends in /v1"),
    "400": (refuse("400 Bad Request", "context too long"), 1, "refused the request.*context too"),
    "422 list": (
        lambda exchange: exchange.reply("422 X", '{"detail": [{"msg": "field"}]}'),
        1,
        r"\(422\): .*field",
    ),
    "429": (refuse("429 Too Many"), 4, "too many requests, also after 3 further tries"),
    "429 for long": (refuse("429 Too Many", Retry_After="900"), 1, "asks to wait 900 s"),
    "500": (
        refuse("500 Oops", "CUDA out of memory."),
        4,
        r"after 3 .*\(500\): CUDA out of memory\. ",
    ),
    "503 page": (page("503 Busy"), 4, "it answered with a web page"),
    "501": (refuse("501 Never"), 1, r"failed \(501\)"),
    "redirect": (
        refuse("301 Moved", Location="https://elsewhere/v1/chat/completions"),
        1,
        "redirects .* to https://elsewhere",
    ),
    "a page": (page(), 1, "answered with a web page, not with"),
    "another type": (
        lambda exchange: exchange.reply("200 OK", "hello", "text/plain"),
        1,
        "answered with text/plain",
    ),
    "no type": (
        lambda exchange: exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
        1,
        "answered with no content type",
    ),
    "JSON of something else": (
        lambda exchange: exchange.reply("200 OK", '{"ok": true}'),
        1,
        "something else than OpenAI's protocol",
    ),
    "broken JSON": (
        lambda exchange: exchange.reply("200 OK", '{"choices": ['),
        1,
        "something else than OpenAI's protocol",
    ),
    "half a stream, cut": (stream(delta("a"), end=False), 1, "broke off in the middle"),
    "half a stream, ended": (stream(delta("a")), 1, "broke off in the middle"),
    "nothing at all": (stream(), 1, "took the request and answered nothing"),
    "no JSON in the stream": (stream(delta("a"), "{oops"), 1, "OpenAI's protocol has: {oops"),
    "error in the stream": (
        stream(delta("a"), {"error": {"message": "engine died"}}),
        1,
        "failed while answering: engine died",
    ),
    "closed at once": (lambda exchange: exchange.sock.shutdown(socket.SHUT_RDWR), 4, "broke off"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_failure_has_one_clear_message(name: str, make: Make, ask: Ask):
    answer, num_requests, message = CASES[name]
    with serving(answer) as server:
        with pytest.raises(ProviderError, match=message) as caught:
            ask(make(server.base_url))
        assert len(server.seen) == num_requests
    assert KEY not in "".join(traceback.format_exception(caught.value))
    text = str(caught.value)
    assert server.base_url in text
    assert KEY not in text
    assert "\n" not in text
    assert len(text) < 600
    assert ".." not in text


def test_without_a_key_the_message_says_how_to_set_it(make: Make, ask: Ask):
    with (
        serving(refuse("401 Unauthorized")) as server,
        pytest.raises(ProviderError, match=r"none was sent.*OPENAI_API_KEY.*OPENAI_BASE_URL"),
    ):
        ask(make(server.base_url, key=""))


def test_nobody_there(make: Make, ask: Ask):
    with serving(refuse("500 X")) as server:
        base_url = server.base_url
    with pytest.raises(ProviderError, match="No server answers"):
        ask(make(base_url, num_retries=1))
    with pytest.raises(ProviderError, match="nobody"):
        ask(make("http://nobody.invalid/v1", num_retries=0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"read_timeout_s": 0.2}, "was silent for 0.2 s"),
        ({"total_timeout_s": 0.2}, "did not end its answer in 0.2 s"),
    ],
)
def test_time_limits(fields: dict[str, float], message: str, make: Make, ask: Ask):
    with (
        serving(lambda _: time.sleep(0.6)) as server,
        pytest.raises(ProviderError, match=message),
    ):
        ask(make(server.base_url, **fields))


def test_a_proxy_that_refuses(make: Make, ask: Ask, monkeypatch: pytest.MonkeyPatch):
    with serving(refuse("407 Proxy Authentication Required")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(ProviderError, match=r"proxy on the way .* refused.*NO_PROXY"):
            ask(make("https://models.example.org/v1"))


def test_a_proxy_that_is_none(make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "gopher://x")
    with pytest.raises(ProviderError, match="proxy settings"):
        make("https://models.example.org/v1")


@pytest.mark.parametrize("first", [refuse("429 X", Retry_After="0"), refuse("503 X")])
def test_a_server_that_recovers_is_asked_again(
    first: Callable[[Exchange], None], make: Make, ask: Ask
):
    with serving(first, first, answer_with("a")) as server:
        assert text_of(ask(make(server.base_url))) == "a"
    assert len(server.seen) == 3


def test_retry_after_is_kept_to(make: Make, ask: Ask):
    with serving(refuse("429 X", Retry_After="1"), answer_with("a")) as server:
        started = time.monotonic()
        assert text_of(ask(make(server.base_url))) == "a"
        assert time.monotonic() - started >= 1


def test_an_end_mark_is_an_end(make: Make, ask: Ask):
    with serving(stream(delta("a"), "[DONE]")) as server:
        chunks = ask(make(server.base_url))
    assert text_of(chunks) == "a"
    assert chunks[-1].finished


def test_an_answer_without_end_is_cut(make: Make, ask: Ask, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jupyt5.providers.openai.transport._MAX_ANSWER_CHARS", 1000)
    with (
        serving(answer_with(*["x" * 100] * 50)) as server,
        pytest.raises(ProviderError, match="far more text"),
    ):
        ask(make(server.base_url))


@pytest.mark.parametrize("start", ["data: ", ": ", 'data: {"a": 1}\r'])
def test_a_line_without_end_is_cut(start: str, make: Make, ask: Ask):
    """A broken or hostile server: nothing of it must pile up in memory."""

    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        exchange.chunk(start)
        for _ in range(200):
            exchange.chunk("x" * 100_000)

    with (
        serving(answer) as server,
        pytest.raises(ProviderError, match="sent a line of more than 1024 KiB"),
    ):
        ask(make(server.base_url))
    assert server.gone.wait(5)  # the connection was closed, long before the 20 MB were sent


def test_an_event_of_lines_without_end_is_cut(make: Make, ask: Ask):
    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        for _ in range(200):
            exchange.chunk("data: " + "x" * 100_000 + "\n")

    with serving(answer) as server, pytest.raises(ProviderError, match="far more text"):
        ask(make(server.base_url))
    assert server.gone.wait(5)


def test_a_line_just_below_the_limit_is_read(make: Make, ask: Ask):
    with serving(stream(delta("x" * 1_000_000), "[DONE]")) as server:
        assert len(text_of(ask(make(server.base_url)))) == 1_000_000


def test_a_whole_answer_without_end_is_cut(make: Make, ask: Ask, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jupyt5.providers.openai.transport._MAX_ANSWER_CHARS", 1000)
    with (
        serving(lambda exchange: exchange.reply("200 OK", '{"a": "' + "x" * 5000)) as server,
        pytest.raises(ProviderError, match="far more text"),
    ):
        ask(make(server.base_url))
