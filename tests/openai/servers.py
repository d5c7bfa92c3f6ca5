"""A loopback HTTP server that answers whatever bytes a test wants, and remembers what it saw."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request, and the socket to answer on."""

    path: str
    headers: dict[str, str]
    body: Any
    sock: socket.socket

    def send(self, text: str | bytes) -> None:
        self.sock.sendall(text.encode() if isinstance(text, str) else text)

    def reply(
        self, status: str, body: str, content_type: str = "application/json", **headers: str
    ) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines.append(f"Content-Length: {len(body.encode())}")
        self.send("\r\n".join(lines) + "\r\n\r\n" + body)

    def open_stream(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        self.send(
            f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, value: object) -> None:
        self.chunk(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n")

    def close_stream(self) -> None:
        self.chunk("")


@dataclass
class Server:
    """``answers`` are used in turn, the last one again and again."""

    answers: list[Answer]
    port: int = 0  # 0: any free one
    seen: list[Exchange] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        self._socks: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def num_connections(self) -> int:
        return len(self._socks)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self._socks:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self._socks.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as reader:
            while (exchange := self._read(sock, reader)) is not None:
                answer = self.answers[min(len(self.seen), len(self.answers) - 1)]
                self.seen.append(exchange)
                try:
                    answer(exchange)
                except OSError:
                    self.gone.set()
                    return

    def _read(self, sock: socket.socket, reader: Any) -> Exchange | None:
        try:
            first = reader.readline().decode()
            if not first.strip():
                return None
            headers: dict[str, str] = {}
            while line := reader.readline().decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = reader.read(int(headers.get("content-length", "0")))
        except OSError:
            return None
        return Exchange(first.split()[1], headers, json.loads(body) if body else None, sock)


@contextmanager
def serving(*answers: Answer, port: int = 0) -> Iterator[Server]:
    server = Server(list(answers), port)
    try:
        yield server
    finally:
        server.close()


def delta(text: str, **choice: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **choice}]}


def answer_with(*pieces: str, pause_s: float = 0.0) -> Answer:
    """A whole, well-formed chat answer."""

    def answer(exchange: Exchange) -> None:
        exchange.open_stream()
        exchange.event({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
        for piece in pieces:
            time.sleep(pause_s)
            exchange.event(delta(piece))
        exchange.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        exchange.event({"choices": [], "usage": {"completion_tokens": len(pieces)}})
        exchange.event("[DONE]")
        exchange.close_stream()

    return answer


def refuse(status: str, message: str = "no", **headers: str) -> Answer:
    body = json.dumps({"error": {"message": message, "type": "x", "code": None}})
    return lambda exchange: exchange.reply(status, body, **headers)
