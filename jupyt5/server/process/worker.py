"""The process of one model: ``python -P -m jupyt5.server.process.worker SOCKET URI``.

It ends when the socket is closed, so never later than the server.
"""

import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from jupyt5.errors import Jupyt5Error, ProviderError
from jupyt5.providers import Provider, load_provider
from jupyt5.server.process.frames import Answer, Ask, Cancel, Look, Order, Result

__all__ = ["main"]

logger = logging.getLogger(__name__)

_OOM_SCORE = "500"  # of 1000: where memory runs out, this process goes first, not the server


class _Worker:
    """Takes orders and carries each out in a thread."""

    def __init__(self, connection: "Connection[Answer, Order]", provider: Provider) -> None:
        self._connection = connection
        self._provider = provider
        self._sending = threading.Lock()
        self._cancels: dict[int, threading.Event] = {}

    def serve(self) -> None:
        """Take orders until the socket is closed."""
        self.send(0, None)
        with suppress(EOFError, OSError):
            while True:
                order = self._connection.recv()
                if isinstance(order, Cancel):
                    if cancel := self._cancels.get(order.number):
                        cancel.set()
                    continue
                self._cancels[order.number] = threading.Event()
                threading.Thread(target=self._carry_out, args=(order,), daemon=True).start()

    def send(self, number: int, result: Result) -> None:
        with self._sending, suppress(OSError):  # nobody listens any more: serve ends, too
            self._connection.send(Answer(number, result))

    def _carry_out(self, order: Ask | Look) -> None:
        try:
            if isinstance(order, Look):
                self.send(order.number, self._provider.preview(order.request, order.sampling))
            else:
                self._generate(order)
            self.send(order.number, None)
        except Jupyt5Error as exc:
            self.send(order.number, exc)
        except Exception as exc:
            logger.exception("A model failed.")
            message = f"The model failed ({exc}). The server's log has the details."
            self.send(order.number, ProviderError(message))
        finally:
            del self._cancels[order.number]

    def _generate(self, order: Ask) -> None:
        cancel = self._cancels[order.number]
        for chunk in self._provider.generate(
            order.request, order.n, order.sampling, order.seed, cancel
        ):
            self.send(order.number, chunk)


def main(argv: list[str]) -> None:
    """Load the provider and serve it."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which asks first
    with suppress(OSError):  # Linux has it
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    connection: Connection[Answer, Order] = Connection(int(argv[0]))
    try:
        provider = load_provider(argv[1])
    except Jupyt5Error as exc:
        connection.send(Answer(0, exc))
        return
    except Exception as exc:
        logger.exception("%s did not load.", argv[1])
        message = f"{argv[1]} did not load: {exc}. The server's log has the details."
        connection.send(Answer(0, ProviderError(message)))
        return
    _Worker(connection, provider).serve()
    os._exit(0)  # not waiting for what is being generated


if __name__ == "__main__":
    main(sys.argv[1:])
