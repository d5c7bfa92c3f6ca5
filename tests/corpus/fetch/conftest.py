"""Servers on the loopback: git's own daemon with good repositories, and an HTTP server that may
stall, drop, refuse, or pass on to git after some failures."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
FIXED = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}


class Repositories:
    """Bare repositories below one folder, and their address."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"git://127.0.0.1:{port}"

    def git(self, name: str, *arguments: str, stdin: bytes = b"") -> str:
        command = [*GIT, f"--git-dir={self.folder / name}.git", *arguments]
        environment = os.environ | FIXED
        done = subprocess.run(
            command, input=stdin, capture_output=True, check=True, env=environment
        )
        return done.stdout.decode().strip()

    def make(self, name: str, files: Mapping[str, bytes] | None = None) -> str:
        """Make a repository with one commit of ``files``, none for None; return its address."""
        path = self.folder / f"{name}.git"
        subprocess.run([*GIT, "init", "-q", "--bare", "--template=", str(path)], check=True)
        self.git(name, "config", "uploadpack.allowFilter", "true")
        if files is not None:
            self.commit(name, files)
        return f"{self.url}/{name}.git"

    def commit(self, name: str, files: Mapping[str, bytes], entries: tuple[str, ...] = ()) -> str:
        """Commit files and raw ``<mode>,<oid>,<path>`` entries."""
        index = {"GIT_INDEX_FILE": str(self.folder / "index")}
        (self.folder / "index").unlink(missing_ok=True)
        for path, data in files.items():
            oid = self.git(name, "hash-object", "-w", "--stdin", stdin=data)
            entries = (*entries, f"100644,{oid},{path}")
        for entry in entries:
            command = [*GIT, f"--git-dir={self.folder / name}.git", "update-index", "--add"]
            subprocess.run([*command, "--cacheinfo", entry], check=True, env=os.environ | index)
        done = subprocess.run(
            [*GIT, f"--git-dir={self.folder / name}.git", "write-tree"],
            check=True,
            capture_output=True,
            env=os.environ | index,
        )
        return self.commit_tree(name, done.stdout.decode().strip())

    def commit_tree(self, name: str, tree: str) -> str:
        commit = self.git(name, "commit-tree", "-m", "x", tree)
        self.git(name, "update-ref", "HEAD", commit)
        return commit

    def make_tree(self, name: str, *entries: tuple[str, str, str]) -> str:
        """Store a tree of raw entries ``(mode, name, oid)``, however forbidden the names are."""
        data = b"".join(
            f"{mode} {entry}\0".encode("utf-8", "surrogateescape") + bytes.fromhex(oid)
            for mode, entry, oid in entries
        )
        arguments = ("hash-object", "-t", "tree", "-w", "--stdin", "--literally")
        return self.git(name, *arguments, stdin=data)


class BadServer(ThreadingHTTPServer):
    """``/<behaviour>/...``: 404, 401, 429, 500, drop, stall, or ``ok`` and ``flaky`` for git."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.num_requests: Counter[str] = Counter()
        self.num_failures = 2
        self.num_open = 0
        self.max_open = 0
        self.starts_s: list[float] = []
        self.lock = threading.Lock()
        self.released = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address  # clients are killed on purpose


class _Handler(BaseHTTPRequestHandler):
    server: BadServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        _, behaviour, *rest = self.path.split("/")
        with self.server.lock:
            self.server.num_requests[behaviour] += 1
            self.server.num_open += 1
            self.server.max_open = max(self.server.max_open, self.server.num_open)
            if self.command == "GET":
                self.server.starts_s.append(time.monotonic())
        try:
            self._behave(behaviour, "/".join(rest))
        finally:
            with self.server.lock:
                self.server.num_open -= 1

    do_POST = do_GET

    def _behave(self, behaviour: str, path: str) -> None:
        if behaviour.isdigit():
            self.send_error(int(behaviour))
        elif behaviour == "stall":
            self.server.released.wait(60)
        elif behaviour == "endless":
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.end_headers()
            while not self.server.released.wait(0.02):
                self.wfile.write(b"001e# service=git-upload-pack\n")
        elif behaviour == "flaky" and self.server.num_requests["flaky"] <= self.server.num_failures:
            self.connection.shutdown(socket.SHUT_RDWR)
        elif behaviour in {"ok", "flaky", "slow"}:
            time.sleep(0.1 if behaviour == "slow" else 0)
            self._pass_on(path)
        else:
            self.connection.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, path: str) -> None:
        path, _, query = path.partition("?")
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while number := int(self.rfile.readline(), 16):
                body += self.rfile.read(number + 2)[:-2]
            self.rfile.readline()
        environment = os.environ | {
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": f"/{path}",
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, env=environment, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200")[:3]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def repositories(tmp_path: Path):
    """Git's daemon serving a folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}")
    daemon = subprocess.Popen(
        ["git", "daemon", *options, f"--base-path={folder}", str(folder)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Repositories(folder, port)
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


@pytest.fixture
def bad_server(repositories: Repositories):
    """The HTTP server; its ``ok`` and ``flaky`` addresses lead to the same repositories."""
    server = BadServer(repositories.folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
