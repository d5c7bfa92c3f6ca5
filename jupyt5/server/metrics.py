"""Prometheus metrics of the fill service, served by Jupyter Server's own ``/metrics``."""

import time
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

__all__ = ["JobWatch", "Outcome", "count_refused"]

Outcome = Literal["done", "cancelled", "timeout", "failed", "refused"]

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80, 120)

_requests = Counter("jupyt5_fill_requests", "Fill requests that ended, by outcome.", ["outcome"])
_running = Gauge("jupyt5_fill_in_flight", "Fill requests that wait, load or generate now.")
_waiting = Gauge("jupyt5_fill_waiting", "Fill requests that wait for their turn now.")
_queue = Histogram(
    "jupyt5_fill_queue_seconds", "Wait for a turn, once the provider is loaded.", buckets=_BUCKETS_S
)
_first_text = Histogram(
    "jupyt5_fill_first_text_seconds",
    "From the request to the first text of any hypothesis.",
    buckets=_BUCKETS_S,
)
_total = Histogram(
    "jupyt5_fill_seconds",
    "From the request to the end of a reply that ran through.",
    buckets=_BUCKETS_S,
)


def count_refused() -> None:
    """Count a request that found no room to wait."""
    _requests.labels("refused").inc()


class JobWatch:
    """Times one request, from now on."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._queued_s: float | None = None
        self._has_text = False
        _running.inc()

    def queue(self) -> None:
        """The provider is there, the turn is not."""
        self._queued_s = time.monotonic()
        _waiting.inc()

    def leave_queue(self, *, has_turn: bool) -> None:
        """The wait for a turn is over; nothing if it never began."""
        if self._queued_s is None:
            return
        _waiting.dec()
        if has_turn:
            _queue.observe(time.monotonic() - self._queued_s)
        self._queued_s = None

    def see_text(self) -> None:
        """A hypothesis has text; only the first time counts."""
        if not self._has_text:
            self._has_text = True
            _first_text.observe(time.monotonic() - self._start_s)

    def end(self, outcome: Outcome) -> None:
        """The request is over."""
        self.leave_queue(has_turn=False)
        _running.dec()
        _requests.labels(outcome).inc()
        if outcome == "done":
            _total.observe(time.monotonic() - self._start_s)
