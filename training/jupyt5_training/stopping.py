"""Stopping on request: the step is finished, a checkpoint written, and the exit code says why.

Ctrl-C means that a person has had enough (exit code 130). SIGTERM and SIGUSR1 are what schedulers
send before they take a machine away: the run wants to be queued again (exit code 75).
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from enum import IntEnum
from types import FrameType
from typing import Any, NoReturn

__all__ = [
    "EXIT_REQUEUE",
    "RequeueRequest",
    "StopKind",
    "StopRequest",
    "requeue_exit_code",
    "stop_run",
]

logger = logging.getLogger(__name__)

# EX_TEMPFAIL of sysexits.h: nothing is wrong, try again later.
EXIT_REQUEUE = 75

_Handler = Callable[[int, FrameType | None], Any] | int | None


class StopKind(IntEnum):
    """Why a run is to stop; ranks agree on the greatest."""

    NONE = 0
    REQUEUE = 1
    INTERRUPT = 2


class RequeueRequest(Exception):  # noqa: N818  nothing went wrong
    """Raised when the run stopped for the scheduler and is to be started again."""


class StopRequest:
    """Notes signals while it is entered; nothing is interrupted.

    A second Ctrl-C acts as usual, at once. Schedulers repeat themselves (SIGUSR1, then SIGTERM),
    so their further signals change nothing.

    Attributes:
        kind: What was asked for so far.
    """

    def __init__(self) -> None:
        self.kind = StopKind.NONE
        self._previous: dict[int, _Handler] = {}

    @property
    def requested(self) -> bool:
        """Whether this process was asked to stop."""
        return self.kind is not StopKind.NONE

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is not threading.main_thread():
            return self  # as under Ray, which handles the signals itself
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        first = not self.requested
        if number == signal.SIGINT:
            self.kind = StopKind.INTERRUPT
            signal.signal(signal.SIGINT, signal.default_int_handler)
        else:
            self.kind = max(self.kind, StopKind.REQUEUE)
        if first:
            hint = "; once more to stop at once" if number == signal.SIGINT else ""
            logger.info("finishing this step, then saving%s", hint)


def stop_run(kind: StopKind, *, step: int) -> NoReturn:
    """Leave the loop, once the checkpoint of ``step`` is written.

    Args:
        kind: The greatest kind of all ranks; not ``NONE``.
        step: The last step done.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        RequeueRequest: After a scheduler's signal.
    """
    logger.info("stopped after step %d, which is saved", step)
    if kind is StopKind.INTERRUPT:
        raise KeyboardInterrupt
    message = f"stopped after step {step} to be queued again"
    raise RequeueRequest(message)


def requeue_exit_code() -> int:
    """Return the exit code of a rank that stopped for the scheduler.

    torchrun takes any code but 0 for a crash and starts all ranks again, in the few seconds that
    are left; the job script, which was sent the signal, knows better.
    """
    return 0 if "TORCHELASTIC_RUN_ID" in os.environ else EXIT_REQUEUE
