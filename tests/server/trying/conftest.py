"""A Jupyter server with a trusted notebook, a live kernel, and a reader who has a name."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from jupyter_server.auth import IdentityProvider, User

from jupyt5.errors import ExecutionError
from jupyt5.execution.trials import find_walls
from jupyt5.server.app import JuPyT5App
from jupyt5.server.kernels import execute_silently

NOTEBOOK = "course/ex.ipynb"
TEST = "assert add(2, 3) == 5"


class NamedUsers(IdentityProvider):
    """Tells readers apart by a header, once the token has let them in."""

    async def _get_user(self, handler):
        user = await super()._get_user(handler)
        return user and User(handler.request.headers.get("X-User", "ana"))


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyt5.server": True},
            "identity_provider_class": NamedUsers,
        },
        "JuPyT5App": {"provider": "fake:text=pass", "try_timeout_s": 5.0, "max_candidates": 50},
    }


@pytest.fixture
def app(jp_serverapp: Any) -> JuPyT5App:
    (app,) = jp_serverapp.extension_manager.extension_apps["jupyt5.server"]
    return app


@pytest.fixture
def walls() -> None:
    """Skip where this machine has no sandbox."""
    if sys.platform != "linux":
        pytest.skip("The sandbox needs Linux.")
    try:
        find_walls(None)
    except ExecutionError as exc:
        pytest.skip(str(exc))


@pytest.fixture
def notebook(jp_fetch: Any, jp_root_dir: Any, app: JuPyT5App) -> Callable[..., Awaitable[None]]:
    """Save the notebook as a page does, which makes it trusted."""

    async def save(path: str = NOTEBOOK) -> None:
        (jp_root_dir / path).parent.mkdir(exist_ok=True)
        cells = [{"cell_type": "code", "source": "1", "metadata": {}, "id": "a", "outputs": []}]
        content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        content["cells"][0]["execution_count"] = None
        body = json.dumps({"type": "notebook", "content": content})
        await jp_fetch("api", "contents", *path.split("/"), method="PUT", body=body)

    return save


@pytest.fixture
def allow(jp_fetch: Any) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Send a consent."""

    async def send(
        allowed: bool = True, *, path: str = NOTEBOOK, user: str = "ana"
    ) -> dict[str, Any]:
        body = json.dumps({"notebook_path": path, "allowed": allowed})
        reply = await jp_fetch(
            "jupyt5", "api", "consent", method="POST", body=body, headers={"X-User": user}
        )
        return json.loads(reply.body)

    return send


class LiveKernel:
    """The notebook's kernel, driven as a page drives it."""

    def __init__(self, kernels: Any, kernel_id: str) -> None:
        self.id = kernel_id
        self.manager = kernels.get_kernel(kernel_id)
        self.pid = self.manager.provisioner.pid
        self.client = self.manager.client()

    async def start(self) -> None:
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=60)

    async def run(self, code: str) -> dict[str, Any]:
        """Execute as the reader's own cell; return the reply's content."""
        sent = self.client.execute(code)
        while True:
            reply = await self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == sent:
                return reply["content"]

    async def ask(self, expression: str) -> str:
        """Evaluate in silence."""
        reply = await execute_silently(
            self.manager, "None", wait_s=60, expressions={"x": expression}
        )
        found = reply.expressions["x"]
        assert found["status"] == "ok", found
        return found["data"]["text/plain"]

    async def wait_idle(self) -> None:
        while self.manager.execution_state == "busy":
            await asyncio.sleep(0.02)


@pytest.fixture
def kernel(
    jp_serverapp: Any, jp_root_dir: Any, jp_asyncio_loop: Any, walls: None
) -> Iterator[LiveKernel]:
    (jp_root_dir / "course").mkdir(exist_ok=True)
    wait = jp_asyncio_loop.run_until_complete
    kernels = jp_serverapp.kernel_manager
    found = LiveKernel(kernels, wait(kernels.start_kernel(path="course")))
    wait(found.start())
    yield found
    found.client.stop_channels()
    wait(kernels.shutdown_kernel(found.id, now=True))


@pytest.fixture
def fill(jp_fetch: Any) -> Callable[..., Awaitable[list[dict[str, Any]]]]:
    """Have one text tried; return the lines of the reply."""

    async def send(
        *texts: str, kernel: LiveKernel | None = None, test: str = TEST, **fields: Any
    ) -> list[dict[str, Any]]:
        above = fields.pop("above", "x = 1")
        headers = {"X-User": fields.pop("user", "ana")}
        record = {
            "request_id": "r1",
            "notebook_path": NOTEBOOK,
            "cells": [
                {"id": "a", "kind": "code", "source": above},
                {"id": "b", "kind": "code", "source": ""},
                {"id": "c", "kind": "code", "source": test},
            ],
            "target_idx": 1,
            "language": "python",
            "n": len(texts),
            "provider": "fake:" + "&".join("text=" + quote(text) for text in texts),
            "kernel_id": kernel.id if kernel else None,
            "try": {"grading_idx": 2},
            "max_tokens": 1000,
            **fields,
        }
        reply = await jp_fetch(
            "jupyt5", "api", "fill", method="POST", body=json.dumps(record), headers=headers,
            raise_error=False, request_timeout=120,
        )  # fmt: skip
        return [json.loads(line) for line in reply.body.splitlines()]

    return send
