"""Malformed and unwanted requests: one error line each, with the id where there is one."""

import json

import pytest

BASH = [{"kind": "markdown", "source": "List."}, {"kind": "code", "source": "%%bash\nls"}]
CODE = {"kind": "code", "source": "x"}


async def send(jp_fetch, text):
    response = await jp_fetch("jupyt5", "api", "fill", method="POST", body=text, raise_error=False)
    (line,) = response.body.splitlines()
    return response, json.loads(line)


@pytest.mark.parametrize(
    ("text", "request_id"),
    [
        ("", None),
        ("not json", None),
        ("[1]", None),
        ('{"request_id": "r9", "cells": ', "r9"),
        ('{"request_id": 7}', None),
        ('{"cells": []}', None),
        ("[" * 100_000, None),
    ],
)
async def test_malformed(jp_fetch, text, request_id):
    response, line = await send(jp_fetch, text)
    assert response.code == 400
    assert response.headers["Content-Type"].startswith("application/x-ndjson")
    assert line["type"] == "error"
    assert line["code"] == "bad_request"
    assert line["request_id"] == request_id


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"cells": []}, "bad_request", "cells"),
        ({"cells": [{"kind": "code"}]}, "bad_request", "cells[0]"),
        ({"cells": [{"kind": ["code"], "source": ""}]}, "bad_request", "cells[0]"),
        ({"target_idx": 4}, "bad_request", "target_idx"),
        ({"target_idx": True}, "bad_request", "target_idx"),
        ({"target_idx": None}, "bad_request", "target_idx"),
        ({"n": 0}, "bad_request", "n must"),
        ({"n": 11}, "bad_request", "1 to 10"),
        ({"n": "2"}, "bad_request", "n must"),
        ({"max_tokens": 5000}, "bad_request", "max_tokens"),
        ({"num_context_cells": -1}, "bad_request", "num_context_cells"),
        ({"prefix": 3}, "bad_request", "prefix"),
        ({"request_id": "a/b"}, "bad_request", "request_id"),
        ({"try": {"grading_idx": 2}}, "bad_request", "below the target"),
        ({"language": "R"}, "language", "R"),
        ({"language": "julia"}, "language", "julia"),
        ({"cells": BASH, "target_idx": 1}, "cell_magic", "%%bash"),
        ({"cells": [CODE, {"kind": "raw", "source": ""}], "target_idx": 1}, "target_kind", "raw"),
    ],
)
async def test_refused(jp_fetch, body, fields, code, word):
    response, line = await send(jp_fetch, body(**fields))
    assert response.code == 400
    assert line["code"] == code
    assert word in line["message"]


@pytest.mark.parametrize(
    ("fields", "code", "word"),
    [
        ({"cells": [{"kind": "code", "source": ""}], "target_idx": 0}, "no_context", "Markdown"),
        ({"provider": "nonsense"}, "bad_request", "nonsense"),
        ({"provider": "fake:fail"}, "provider_failed", "fail"),
        ({"provider": "jupyt5:/no/such/folder"}, "provider_failed", "/no/such/folder"),
    ],
)
async def test_fails_after_the_reply_has_begun(fill, fields, code, word):
    *_, last = await fill(**fields)
    assert (last["type"], last["code"]) == ("error", code)
    assert word in last["message"]


async def test_too_large(jp_fetch, body, app):
    app.request_limit_bytes = 2048
    text = body(request_id="big", prefix="x" * 4096)
    response, line = await send(jp_fetch, text)
    assert response.code == 413
    assert (line["request_id"], line["code"]) == ("big", "too_large")
    assert "request_limit_bytes" in line["message"]


async def test_the_handler_goes_on(jp_fetch, fill):
    await send(jp_fetch, "not json")
    assert (await fill())[-1]["type"] == "done"


async def test_allowed_providers(fill, app):
    app.allowed_providers = ["fake:text=y"]
    assert (await fill(provider="fake:text=y"))[-1]["type"] == "done"
    assert (await fill(provider="fake:text=x+=+1"))[-1]["type"] == "done"  # the default
    (line,) = await fill(provider="fake:text=z")
    assert line["code"] == "provider_denied"
    assert "fake:text=y" in line["message"]


async def test_unexpected_error_stays_in_the_log(fill, monkeypatch, caplog):
    def explode(*args):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("jupyt5.providers.fake.FakeProvider.generate", explode)
    *_, last = await fill()
    assert last["code"] == "internal"
    assert "secret detail" not in last["message"]
    assert "secret detail" in caplog.text
