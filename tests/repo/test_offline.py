"""`jupyt5 lab` reaches for nothing outside this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOKEN = "offline-test"
START_S = 60
# Python imports this module at its start, in the server and in all that the server starts.
SITE = """
import json, os, sys

def note(event, args):
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    with open(os.environ["JUPYT5_TEST_HOSTS"], "a") as file:
        file.write(json.dumps(str(host)) + "\\n")

note("socket.getaddrinfo", ["hook installed"])
sys.addaudithook(note)
"""
LOCAL = {
    "hook installed",
    "localhost",
    "127.0.0.1",
    "::1",
    "",
    "None",
    "0.0.0.0",
    socket.gethostname(),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    site, hosts_path = tmp_path / "site", tmp_path / "hosts.jsonl"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = "import sys; from jupyt5.cli import main; sys.exit(main())"
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        f"--IdentityProvider.token={TOKEN}",
    ]
    paths = [str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "JUPYT5_TEST_HOSTS": str(hosts_path),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }
    with (tmp_path / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "lab", *options],
            cwd=tmp_path,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://127.0.0.1:{port}", hosts_path
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def get(url: str) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"token {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            if get(f"{url}/api/status")[0] == 200:
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def test_lab_asks_no_other_host(server: tuple[str, Path]):
    url, hosts_path = server
    wait_until_ready(url)
    assert get(f"{url}/lab")[0] == 200
    # What the page asks for at its start: the news, the newest version, the list of extensions.
    for path in (
        "lab/api/news",
        "lab/api/update",
        "lab/api/extensions?query=jupyter",
        "lab/api/settings",
    ):
        assert get(f"{url}/{path}")[0] < 500, path
    status, text = get(f"{url}/jupyt5/api/status")
    assert status == 200, text
    hosts = {json.loads(line) for line in hosts_path.read_text().splitlines()}
    assert "hook installed" in hosts
    assert hosts - LOCAL == set()
