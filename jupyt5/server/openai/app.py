"""The server itself: load the models, listen, answer until told to stop."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address

from tornado.httpserver import HTTPServer

from jupyt5.errors import UsageError
from jupyt5.providers import load_provider
from jupyt5.server.engine import FillEngine
from jupyt5.server.openai.bodies import Bounds
from jupyt5.server.openai.handlers import Service, make_application
from jupyt5.server.shelf import ProviderShelf

__all__ = ["ServeConfig", "serve"]

_MAX_READ_BYTES = 16_777_216  # above the handlers' own limit, which answers in words


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """How to serve.

    Attributes:
        bounds: What requests are checked against; its models are loaded at the start.
        host: Address or name to listen on.
        port: 0 takes any free one.
        token: Wanted from every caller; "" wants none, which is for loopback addresses only.
        max_parallel: Requests that generate at the same time.
        max_waiting: Further requests that may wait for their turn.
        timeout_s: Longest a request may take, in seconds, waiting included.
    """

    bounds: Bounds
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = field(default="", repr=False)
    max_parallel: int = 1
    max_waiting: int = 16
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        """Check what must not be left to chance.

        Raises:
            UsageError: If anybody on the network could use the server without a token.
        """
        if not self.is_loopback and not self.token:
            message = (
                f"{self.host} can be reached from other machines, and without a token everybody "
                "there could use this server. Give a token, or leave --host away."
            )
            raise UsageError(message)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


async def serve(config: ServeConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or cancellation.

    Args:
        config: How.
        announce: Is told the base URL once requests are taken.

    Raises:
        UsageError: If the address or port cannot be had.
        ProviderError: If a model cannot be loaded.
    """
    shelf = ProviderShelf(load_provider, max_loaded=len(config.bounds.models))
    engine = FillEngine(
        shelf,
        max_parallel=config.max_parallel,
        max_waiting=config.max_waiting,
        timeout_s=config.timeout_s,
    )
    service = Service(
        engine=engine,
        bounds=config.bounds,
        token=config.token,
        is_loopback=config.is_loopback,
    )
    server = HTTPServer(make_application(service), max_body_size=_MAX_READ_BYTES)
    listener = _bind(config)  # before the models: a port that is taken is told at once
    try:
        for uri in config.bounds.models:
            await shelf.get(uri)
        listener.setblocking(False)
        server.add_socket(listener)
        host = f"[{config.host}]" if ":" in config.host else config.host
        announce(f"http://{host}:{listener.getsockname()[1]}/v1")
        await _wait_for_end()
    finally:
        server.stop()
        listener.close()
        engine.close()
        await server.close_all_connections()


def _bind(config: ServeConfig) -> socket.socket:
    # Not tornado's bind_sockets: it leaves a socket open where it fails.
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=128)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            message = f"Port {config.port} of {config.host} is in use. Give another --port."
        else:
            message = f"{config.host}:{config.port} cannot be listened on: {exc.strerror or exc}."
        raise UsageError(message) from exc


async def _wait_for_end() -> None:
    end = asyncio.Event()
    if os.name == "posix":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
