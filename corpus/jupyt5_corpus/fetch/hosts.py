"""Politeness: how many repositories of one host are fetched at once, and how fast they follow."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

__all__ = ["Hosts"]


@dataclass(slots=True)
class _Host:
    slots: asyncio.Semaphore
    next_start_s: float = 0.0


class Hosts:
    """Gives turns to those who want to ask a host."""

    def __init__(self, *, per_host: int, delay_s: float) -> None:
        """Make a table of hosts.

        Args:
            per_host: Turns that one host has at the same time.
            delay_s: Time between the beginnings of two turns of one host.
        """
        self._per_host = per_host
        self._delay_s = delay_s
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncGenerator[None]:
        """Wait for a turn of the host; it ends with the block."""
        state = self._state(host)
        async with state.slots:
            while (wait_s := state.next_start_s - time.monotonic()) > 0:
                await asyncio.sleep(wait_s)
            state.next_start_s = time.monotonic() + self._delay_s
            yield

    def pause(self, host: str, pause_s: float) -> None:
        """Begin no turn of the host for some time: it asked for that."""
        state = self._state(host)
        state.next_start_s = max(state.next_start_s, time.monotonic() + pause_s)

    def _state(self, host: str) -> _Host:
        return self._hosts.setdefault(host, _Host(asyncio.Semaphore(self._per_host)))
