"""Shared by all tests; pytest takes plugins from this top-level file only."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Fixtures that start a Jupyter server in the test's own process and talk to it (`jp_fetch`).
pytest_plugins = ["pytest_jupyter.jupyter_server"]

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium, shared by all tests: playwright starts once in a process."""
    from playwright.sync_api import sync_playwright

    path = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    if path is None:
        pytest.fail("No Chromium was found on PATH. Install the Debian package chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()
