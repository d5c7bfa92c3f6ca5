"""A provider whose model runs in a process of its own."""

import itertools
import logging
import queue
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from jupyt5.errors import Jupyt5Error, ProviderError
from jupyt5.providers import Chunk, FillRequest, Preview, Sampling
from jupyt5.server.process.frames import Answer, Ask, Cancel, Look, Order, Result

__all__ = ["ProcessProvider"]

logger = logging.getLogger(__name__)

_POLL_S = 0.02  # how often a cancel is looked for while the model says nothing
_END_S = 2.0  # a process may take to end after its last word
_Results = queue.SimpleQueue[Result]


class ProcessProvider:
    """Loads a provider in a new process. Once that has died, so has this; see ``has_died``.

    Args:
        uri: Of a provider that needs nothing of the server's settings.
        ending: Set when the server ends, which must not wait for a load.

    Raises:
        Jupyt5Error: If it cannot be loaded there.
    """

    def __init__(self, uri: str, *, ending: threading.Event | None = None) -> None:
        self.uri = uri
        self._process = _Process(uri)
        weakref.finalize(self, self._process.kill)
        self._process.wait_until_loaded(ending or threading.Event())

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def has_died(self) -> bool:
        """Whether the process has: it answers no more, see ``Provider``."""
        return self._process.has_died

    def generate(
        self,
        request: FillRequest,
        n: int,
        sampling: Sampling,
        seed: int,
        cancel: threading.Event,
    ) -> Iterator[Chunk]:
        """Stream hypotheses; see ``Provider.generate``."""
        process = self._process
        number = process.take_number()
        ask = Ask(number=number, request=request, n=n, sampling=sampling, seed=seed)
        with process.order(ask) as results:
            while not cancel.is_set():
                try:
                    result = results.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if isinstance(result, Jupyt5Error):
                    raise result
                if not isinstance(result, Chunk):
                    return
                yield result

    def preview(self, request: FillRequest, sampling: Sampling) -> Preview:
        """Return what the model would be given; see ``Provider.preview``."""
        process = self._process
        look = Look(number=process.take_number(), request=request, sampling=sampling)
        with process.order(look) as results:
            result = results.get()
        if isinstance(result, Preview):
            return result
        raise result if isinstance(result, Jupyt5Error) else ProviderError("Nothing was said.")


class _Process:
    """The process, and a thread that hands out what it says."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-P", "-m", "jupyt5.server.process.worker"]
            self._popen = subprocess.Popen(
                [*command, str(theirs.fileno()), uri],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._connection: Connection[Order, Answer] = Connection(ours.detach())
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._loaded: _Results = queue.SimpleQueue()
        self._results: dict[int, _Results] = {0: self._loaded}
        self._death: ProviderError | None = None
        threading.Thread(target=self._listen, name="jupyt5-model", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_died(self) -> bool:
        return self._death is not None

    def kill(self) -> None:
        """End the process; nothing in it is worth saving."""
        self._popen.kill()

    def wait_until_loaded(self, ending: threading.Event) -> None:
        """Wait for the model.

        Raises:
            Jupyt5Error: If it cannot be loaded, the process dies of it, or the server ends.
        """
        while not ending.is_set():
            try:
                result = self._loaded.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(result, Jupyt5Error):
                raise result
            return
        self.kill()
        message = f"{self._uri} was not loaded: the server ends. Ask again when it is back."
        raise ProviderError(message)

    def take_number(self) -> int:
        return next(self._numbers)

    @contextmanager
    def order(self, order: Ask | Look) -> Generator[_Results]:
        """Send an order; yields where its results come. Left early, it is cancelled."""
        results: _Results = queue.SimpleQueue()
        with self._lock:
            if self._death:
                raise self._death
            self._results[order.number] = results
        self._send(order)
        try:
            yield results
        finally:
            with self._lock:
                is_open = self._results.pop(order.number, None) is not None
            if is_open:
                self._send(Cancel(order.number))

    def _send(self, order: Order) -> None:
        with self._lock, suppress(OSError):  # dead: the listener says so to whoever waits
            self._connection.send(order)

    def _listen(self) -> None:
        try:
            while True:
                answer = self._connection.recv()
                is_last = not isinstance(answer.result, Chunk | Preview)
                with self._lock:
                    take = self._results.pop if is_last else self._results.get
                    results = take(answer.number, None)
                if results is not None:
                    results.put(answer.result)
        except (EOFError, OSError):
            pass  # its end, as a rule
        except Exception:
            logger.exception("What the process of %s said was not understood.", self._uri)
            self.kill()
        finally:
            self._die(self._wait_for_end())

    def _wait_for_end(self) -> int:
        """Return the exit code of a process that has said its last."""
        try:
            return self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()

    def _die(self, code: int) -> None:
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        with suppress(ValueError):  # a real-time signal has no name
            reason = signal.Signals(-code).name
        reason += ", often for want of memory" if code == -signal.SIGKILL else ""
        death = ProviderError(
            f"The process that runs {self._uri} has died ({reason}). Ask again: it is started anew."
        )
        with self._lock:
            self._death = death
            waiting, self._results = self._results, {}
            self._connection.close()
        for results in waiting.values():
            results.put(death)
