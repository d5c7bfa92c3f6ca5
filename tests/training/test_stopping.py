"""Signals become requests, and requests exit codes."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from jupyt5_training.stopping import (
    EXIT_REQUEUE,
    RequeueRequest,
    StopKind,
    StopRequest,
    requeue_exit_code,
    stop_run,
)

Handler = Callable[[int, FrameType | None], object] | int | None


def handlers() -> list[Handler]:
    return [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([], StopKind.NONE),
        ([signal.SIGUSR1], StopKind.REQUEUE),
        ([signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM], StopKind.REQUEUE),
        ([signal.SIGINT], StopKind.INTERRUPT),
        ([signal.SIGTERM, signal.SIGINT], StopKind.INTERRUPT),
        ([signal.SIGINT, signal.SIGTERM], StopKind.INTERRUPT),
    ],
)
def test_signals_are_noted(numbers: list[int], kind: StopKind) -> None:
    before = handlers()
    with StopRequest() as stop:
        for number in numbers:
            os.kill(os.getpid(), number)
        assert stop.kind is kind
        assert stop.requested is bool(numbers)
    assert handlers() == before


def test_the_second_interrupt_is_obeyed_at_once() -> None:
    before = handlers()
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert handlers() == before


def test_in_another_thread_signals_are_left_alone() -> None:
    before = handlers()
    seen: list[list[Handler]] = []

    def enter() -> None:
        with StopRequest():
            seen.append(handlers())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]


def test_only_the_first_signal_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with StopRequest():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
    assert [record.getMessage() for record in caplog.records] == [
        "finishing this step, then saving"
    ]


def test_stopping_raises_what_the_command_line_turns_into_a_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        stop_run(StopKind.INTERRUPT, step=3)
    with pytest.raises(RequeueRequest, match="after step 3"):
        stop_run(StopKind.REQUEUE, step=3)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert requeue_exit_code() == EXIT_REQUEUE == 75
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert requeue_exit_code() == 0
