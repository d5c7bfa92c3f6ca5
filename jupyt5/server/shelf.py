"""Providers kept loaded: each URI is loaded once, in a thread, when it is first needed."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from jupyt5.errors import Jupyt5Error, ProviderError
from jupyt5.providers import Provider, hide_secrets
from jupyt5.providers.places import Stamp, find_stamp, hash_weights

__all__ = ["ProviderShelf", "ProviderState"]

logger = logging.getLogger(__name__)

LoadState = Literal["absent", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Where a provider stands; ``reason`` is set when its load failed."""

    uri: str
    state: LoadState
    reason: str = ""


@dataclass(slots=True)
class _Slot:
    load: asyncio.Task[Provider]
    stamp: Stamp | None  # of the weights, taken before they were loaded
    failed_at: float | None = None
    trouble: str = ""  # why its server could not be used the last time
    sha256: asyncio.Task[str | None] | None = field(default=None, repr=False)


class ProviderShelf:
    """Loads providers on demand and keeps the last few.

    Used from the event loop only. A failed load is remembered for ``retry_s``, so that what
    comes next fails at once instead of waiting again. Weights that were replaced on disk are loaded
    again, and so is a provider that has died.

    Args:
        load: Makes a provider from its URI; runs in a thread.
        max_loaded: Providers kept in memory; the one unused for longest goes first.
        retry_s: Seconds until a provider whose load failed is tried again.
    """

    def __init__(
        self, load: Callable[[str], Provider], *, max_loaded: int = 2, retry_s: float = 60.0
    ) -> None:
        self._load = load
        self._max_loaded = max_loaded
        self._retry_s = retry_s
        self._slots: dict[str, _Slot] = {}
        # Apart from the threads that generate: a slow load holds no answer up.
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jupyt5-load")

    def state(self, uri: str) -> ProviderState:
        """Tell where a provider stands, without loading it."""
        slot = self._slots.get(uri)
        if slot is None:
            return ProviderState(uri, "absent")
        if not slot.load.done():
            return ProviderState(uri, "loading")
        error = None if slot.load.cancelled() else slot.load.exception()
        if error is None:
            return ProviderState(uri, "absent" if _has_died(slot) else "ready")
        return ProviderState(uri, "failed", str(error))

    def states(self) -> list[ProviderState]:
        """Tell where every provider asked for so far stands."""
        return [self.state(uri) for uri in self._slots]

    def find_trouble(self, uri: str) -> str:
        """Return why a provider's server could not be used the last time; "" if it could."""
        slot = self._slots.get(uri)
        return slot.trouble if slot else ""

    def note_trouble(self, uri: str, reason: str) -> None:
        """Remember why a provider's server could not be used; "" that it could."""
        if slot := self._slots.get(uri):
            slot.trouble = reason

    async def get(self, uri: str) -> Provider:
        """Return a provider, loading it if need be; callers at the same time share one load.

        Raises:
            Jupyt5Error: If it cannot be loaded.
        """
        return await self._wait(self._take_slot(uri))

    async def get_hashed(self, uri: str) -> tuple[Provider, "asyncio.Task[str | None]"]:
        """Return a provider as ``get`` does, and the SHA-256 of its own weights, under way.

        The hash is taken once, in a thread; None where the weights are in no one file, or were
        replaced before it was taken. It is shared: do not cancel it.

        Raises:
            Jupyt5Error: If it cannot be loaded.
        """
        slot = self._take_slot(uri)
        provider = await self._wait(slot)
        if slot.sha256 is None:
            work = asyncio.to_thread(hash_weights, uri, slot.stamp)
            slot.sha256 = asyncio.ensure_future(work)
        return provider, slot.sha256

    def close(self) -> None:
        """Forget all providers; a load under way is left to end by itself."""
        self._slots.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take_slot(self, uri: str) -> _Slot:
        """Return the slot of a provider, with a new load where one is due."""
        stamp = find_stamp(uri)  # a look at the file's times, quicker than a turn of the loop
        slot = self._slots.pop(uri, None)
        if slot is None or self._may_retry(slot) or self._is_outdated(slot, stamp):
            slot = _Slot(asyncio.ensure_future(self._load_in_thread(uri)), stamp)
        self._slots[uri] = slot  # last in the dict: used most recently
        self._drop_oldest()
        return slot

    async def _wait(self, slot: _Slot) -> Provider:
        try:
            # Shielded: whoever gives up waiting must not end the load for the others.
            return await asyncio.shield(slot.load)
        except Jupyt5Error:
            slot.failed_at = slot.failed_at or time.monotonic()
            raise

    async def _load_in_thread(self, uri: str) -> Provider:
        loop = asyncio.get_running_loop()
        start = time.monotonic()
        shown = hide_secrets(uri)
        try:
            provider = await loop.run_in_executor(self._threads, self._load, uri)
        except Jupyt5Error as exc:
            logger.warning("Provider %s did not load: %s", shown, exc)
            raise
        except Exception as exc:
            logger.exception("Provider %s did not load.", shown)
            message = f"The provider {shown} did not load: {exc}. The server's log has the details."
            raise ProviderError(message) from exc
        logger.info("Provider %s loaded in %.1f s.", shown, time.monotonic() - start)
        return provider

    def _may_retry(self, slot: _Slot) -> bool:
        return slot.failed_at is not None and time.monotonic() - slot.failed_at > self._retry_s

    def _is_outdated(self, slot: _Slot, stamp: Stamp | None) -> bool:
        if _has_died(slot):
            return True
        # Weights that are gone for a moment are being replaced; what is loaded goes on.
        return slot.load.done() and stamp is not None and stamp != slot.stamp

    def _drop_oldest(self) -> None:
        idle = [uri for uri, slot in self._slots.items() if slot.load.done()]
        for uri in idle[: max(0, len(self._slots) - self._max_loaded)]:
            del self._slots[uri]


def _has_died(slot: _Slot) -> bool:
    load = slot.load
    if not load.done() or load.cancelled() or load.exception() is not None:
        return False
    return bool(getattr(load.result(), "has_died", False))
