"""A Jupyter server with the extension, and a way to hold a fill request."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jupyt5.server.app import JuPyT5App

CELLS = [
    {"id": "a", "kind": "code", "source": "def add(a, b): return a + b"},
    {"id": "b", "kind": "markdown", "source": "Add three numbers; call it `add3`."},
    {"id": "c", "kind": "code", "source": ""},
    {"id": "d", "kind": "code", "source": "assert add3(1, 2, 3) == 6"},
]


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {
        "ServerApp": {"jpserver_extensions": {"jupyt5.server": True}},
        "JuPyT5App": {"provider": "fake:text=x+=+1"},
    }


@pytest.fixture
def app(jp_serverapp: Any) -> JuPyT5App:
    """The extension as the server under test runs it."""
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyt5.server"]
    return app


@pytest.fixture
def body() -> Callable[..., str]:
    """Make the body of a fill request; fields given override, None removes."""

    def make(**fields: object) -> str:
        record = {
            "request_id": "r1",
            "notebook_path": "a.ipynb",
            "cells": CELLS,
            "target_idx": 2,
            "language": "python",
            "n": 1,
            **fields,
        }
        return json.dumps({name: value for name, value in record.items() if value is not None})

    return make


def read_lines(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines()]


@pytest.fixture
def fill(jp_fetch: Any, body: Callable[..., str]) -> Any:
    """Send a fill request and return the lines of its reply."""

    async def send(**fields: object) -> list[dict[str, Any]]:
        response = await jp_fetch(
            "jupyt5", "api", "fill", method="POST", body=body(**fields), raise_error=False
        )
        return read_lines(response.body)

    return send


@pytest.fixture
def metric(jp_fetch: Any) -> Any:
    """Read one sample of the server's /metrics; 0 if it is not there."""

    async def read(name: str) -> float:
        text = (await jp_fetch("metrics")).body.decode()
        rows = (row.rpartition(" ") for row in text.splitlines() if not row.startswith("#"))
        return next((float(value) for found, _, value in rows if found == name), 0.0)

    return read
