"""Progress and interrupts, as all command lines show them."""

import io
import sys

import pytest

from jupyt5 import console


class Terminal(io.StringIO):
    """A stderr that says that it is one."""

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_a_bar_is_there_before_the_first_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with console.watch_progress("problems validated", "problem") as watch:
        watch(0, 16)
        assert "0/16" in terminal.getvalue()
        watch(16, 16)
    assert "16/16" in terminal.getvalue()
    with console.watch_progress("samples graded", "sample") as watch:
        watch(5, 8)  # of a run that goes on
        watch(8, 8)
    assert "8/8" in terminal.getvalue()


def test_a_short_task_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    assert list(console.progress([1, 2], desc="prompts written", delay_s=60)) == [1, 2]
    assert terminal.getvalue() == ""
    assert list(console.progress([1, 2], desc="prompts written")) == [1, 2]
    assert "prompts written" in terminal.getvalue()


def test_a_log_says_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now_s)
    caplog.set_level("INFO")
    with console.watch_progress("problems validated", "problem") as watch:
        for done in range(5):
            watch(done, 40)
            now_s += 20
    assert caplog.messages == ["problems validated: 2 of 40", "problems validated: 4 of 40"]
    caplog.clear()
    for _ in console.progress(iter("ab"), desc="files read"):
        now_s += 40
    assert caplog.messages == ["files read: 1 of ?", "files read: 2 of ?"]


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (KeyboardInterrupt(), "Interrupted.\n"),
        (KeyboardInterrupt("run keeps all."), "Interrupted. run keeps all.\n"),
    ],
)
def test_an_interrupt_says_what_is_kept(
    exc: KeyboardInterrupt, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def body() -> int:
        raise exc

    assert console.run(body) == console.EXIT_INTERRUPTED
    assert capsys.readouterr().err == said
