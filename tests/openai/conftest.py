"""A request to ask, and a way to ask it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from jupyt5.notebook import Cell
from jupyt5.providers import Chunk, FillRequest, Sampling
from jupyt5.providers.openai import OpenAIProvider, OpenAISettings, load_openai_provider
from jupyt5.providers.openai import transport as transport_module

REQUEST = FillRequest(
    cells=(
        Cell(None, "code", "import math"),
        Cell(None, "markdown", "Compute the area."),
        Cell(None, "code", ""),
        Cell(None, "code", "assert area > 3"),
    ),
    target_idx=2,
    prefix="# the area\n",
)

KEY = "sk-secret-0123456789"

Ask = Callable[..., list[Chunk]]
Make = Callable[..., OpenAIProvider]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_backoff", lambda _: 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make() -> Make:
    """Make a provider for a server, with the key of that server."""

    def build(url: str, style: str = "", **fields: object) -> OpenAIProvider:
        settings = OpenAISettings(**({"base_url": url, "key": KEY} | fields))  # type: ignore[arg-type]
        return load_openai_provider(f"m@{url}{style}", settings)

    return build


@pytest.fixture
def ask() -> Ask:
    def collect(provider: OpenAIProvider, n: int = 1, **sampling: float) -> list[Chunk]:
        drawn = Sampling(**sampling)  # type: ignore[arg-type]
        return list(provider.generate(REQUEST, n, drawn, 7, threading.Event()))

    return collect


def text_of(chunks: list[Chunk], idx: int = 0) -> str:
    return "".join(chunk.text_delta for chunk in chunks if chunk.hypothesis_idx == idx)
