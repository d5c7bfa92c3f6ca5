"""Shared by all tests; pytest takes plugins from this top-level file only."""

from __future__ import annotations

# Fixtures that start a Jupyter server in the test's own process and talk to it (`jp_fetch`).
pytest_plugins = ["pytest_jupyter.jupyter_server"]
