"""A real JupyterHub on loopback, two people on it, and the model server that they share."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from jupyt5.server.offline import LAB_OFFLINE_ARGS, offline_environment

ROOT = Path(__file__).parents[2]
PASSWORD = "only on loopback"
USERS = ("ana", "ben")
START_S = 120
CONFIG = """
import os, sys
c = get_config()
c.JupyterHub.bind_url = {url!r}
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.db_url = "sqlite:///" + os.path.join({folder!r}, "hub.sqlite")
c.JupyterHub.cookie_secret_file = os.path.join({folder!r}, "cookie_secret")
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = {password!r}
c.Authenticator.allow_all = True
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.pid_file = os.path.join({folder!r}, "proxy.pid")
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = os.path.join({folder!r}, "{{username}}")
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = {args!r}
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = {start_s}
c.Spawner.http_timeout = {start_s}
c.Spawner.environment = {environment!r} | {{
    # Each person has a key of their own, which only their server knows.
    "OPENAI_API_KEY": lambda spawner: "key-of-" + spawner.user.name,
}}
"""


class _Models(BaseHTTPRequestHandler):
    """Streams an answer that tells whose key the request had, slowly enough to overlap."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner = self.headers.get("Authorization", "").removeprefix("Bearer key-of-")
        asked = Asked(owner, json.dumps(body), time.monotonic())
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in ("owner", " = ", f"'{owner}'"):
            choice = {"index": 0, "delta": {"content": piece}, "text": piece}
            self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
            time.sleep(0.2)
        self.wfile.write(b"data: [DONE]\n\n")
        asked.ended_s = time.monotonic()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@dataclass
class Asked:
    """One request that the model server has seen."""

    owner: str
    body: str
    began_s: float
    ended_s: float = math.inf


@dataclass
class Hub:
    """A running hub."""

    url: str
    folder: Path
    asked: list[Asked]
    has_node_proxy: bool

    def log(self) -> str:
        return (self.folder / "hub.log").read_text()


@dataclass
class Person:
    """Somebody logged in by cookie, with their own server."""

    name: str
    client: httpx.Client

    @property
    def base_url(self) -> str:
        return f"/user/{self.name}/"

    @property
    def xsrf(self) -> str:
        found = {
            cookie.path: cookie.value
            for cookie in self.client.cookies.jar
            if cookie.name == "_xsrf"
        }
        return found[self.base_url] or ""

    def post(self, path: str, body: object) -> httpx.Response:
        headers = {"X-XSRFToken": self.xsrf}
        return self.client.post(self.base_url + path, json=body, headers=headers)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """JupyterHub with the dummy authenticator; servers are processes of this user."""
    pytest.importorskip("jupyterhub", reason="needs jupyterhub, which is in the extra dev")
    proxy = find_proxy()
    folder = tmp_path_factory.mktemp("hub")
    models = ThreadingHTTPServer(("127.0.0.1", 0), _Models)
    models.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=models.serve_forever, daemon=True).start()
    port, hub_port, proxy_port = free_ports(3)
    is_node = "node" in Path(proxy).read_text().partition("\n")[0]
    url = f"http://127.0.0.1:{port}"
    hub = Hub(url, folder, models.asked, is_node)  # type: ignore[attr-defined]
    for name in USERS:
        (folder / name).mkdir()
    config = CONFIG.format(
        url=hub.url,
        hub_port=hub_port,
        proxy_port=proxy_port,
        folder=str(folder),
        password=PASSWORD,
        proxy=proxy,
        start_s=START_S,
        args=server_args(f"http://127.0.0.1:{models.server_port}/v1", folder),
        environment=server_environment(folder),
    )
    (folder / "config.py").write_text(config)
    command = [sys.executable, "-m", "jupyterhub", "-f", str(folder / "config.py")]
    with (folder / "hub.log").open("wb") as sink:
        process = subprocess.Popen(command, cwd=folder, stdout=sink, stderr=sink)
    try:
        wait_for(hub, process)
        yield hub
    finally:
        process.terminate()  # ends the servers and the proxy too
        process.wait(60)
        models.shutdown()
        models.server_close()


def find_proxy() -> str:
    """Return the hub's proxy: npm's, where $JUPYT5_TEST_PROXY names it, or its Python port."""
    beside = str(Path(sys.executable).parent)
    named = os.environ.get("JUPYT5_TEST_PROXY")
    proxy = named or shutil.which("configurable-http-proxy", path=beside)
    if proxy is None:
        pytest.skip("No configurable-http-proxy in this environment; it is in the extra dev.")
    return proxy


def server_args(models_url: str, folder: Path) -> list[str]:
    return [
        "--allow-root",
        *LAB_OFFLINE_ARGS,
        f"--JuPyT5App.provider=openai:m@{models_url}",
        f"--JuPyT5App.openai_base_url={models_url}",
        f"--LabApp.extra_labextensions_path={folder / 'labextensions'}",
        "--LabApp.expose_app_in_browser=True",
    ]


def server_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which our extension is found without being installed."""
    (folder / "labextensions").mkdir()
    (folder / "labextensions" / "jupyt5-labextension").symlink_to(ROOT / "jupyt5" / "labextension")
    (folder / "etc").mkdir()
    (folder / "etc" / "jupyter_server_config.d").symlink_to(ROOT / "jupyt5" / "server" / "config")
    environment = offline_environment({"JUPYTER_CONFIG_PATH": str(folder / "etc")})
    return environment | {"PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}


def wait_for(hub: Hub, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(hub.url + "/hub/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    pytest.fail("JupyterHub did not start:\n" + hub.log()[-3000:])


def log_in(hub: Hub, name: str) -> Person:
    """Log in on the hub's own page; the server is started by that."""
    client = httpx.Client(base_url=hub.url, follow_redirects=True, timeout=60, trust_env=False)
    client.get("/hub/login")
    xsrf = {cookie.name: cookie.value for cookie in client.cookies.jar}["_xsrf"]
    form = {"username": name, "password": PASSWORD, "_xsrf": xsrf}
    response = client.post("/hub/login?next=/hub/spawn", data=form)
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if response.status_code == 200 and response.url.path == f"/user/{name}/lab":
            return Person(name, client)
        time.sleep(0.5)
        response = client.get(f"/user/{name}/lab")  # the hub's pages until the server is there
    pytest.fail(f"{name}'s server did not start: {response.text[:300]}\n{hub.log()[-3000:]}")


@pytest.fixture(scope="session")
def people(hub: Hub) -> Iterator[list[Person]]:
    everybody = [log_in(hub, name) for name in USERS]
    yield everybody
    for person in everybody:
        person.client.close()


@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    """Replace pytest-jupyter's loop: the servers here are processes of their own."""


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Replace pytest-jupyter's clean-up likewise."""
