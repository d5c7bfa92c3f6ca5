"""%fill and %%fill in an IPython session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyt5.errors import ExecutionError
from jupyt5.execution.trials import find_walls
from jupyt5.magics import FillMagics
from jupyt5.providers import fake

FAKE = "fake:text=y+=+x+%2B+1"
ECHO = "fake:echo"


class Session:
    """A shell whose next input is kept instead of shown."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.next_input: tuple[str, bool] | None = None
        shell.set_next_input = lambda text, replace=False: setattr(  # type: ignore[method-assign]
            self, "next_input", (text, replace)
        )

    def run(self, code: str) -> Any:
        self.next_input = None
        return self.shell.run_cell(code, store_history=True)


@pytest.fixture
def session(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell(config=config)
    shell.run_line_magic("load_ext", "jupyt5")
    shell.run_line_magic("config", f"FillMagics.provider = {FAKE!r}")
    yield Session(shell)
    shell.reset(new_session=False)


@pytest.fixture
def walls() -> None:
    """Skip where this machine cannot wall a candidate in."""
    try:
        find_walls(None)
    except ExecutionError as exc:
        pytest.skip(str(exc))


def test_the_answer_becomes_the_next_input_and_is_not_run(session: Session):
    session.run("x = 1")
    session.run("%fill one more than x")
    assert session.next_input == ("y = x + 1", True)
    assert "y" not in session.shell.user_ns


def test_a_cell_is_gone_on_with(session: Session):
    session.run("%%fill\n# one more than x\n")
    assert session.next_input == ("# one more than x\ny = x + 1", True)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every request that reaches the model."""
    requests: list[Any] = []
    original = fake.FakeProvider.generate

    def generate(self: Any, request: Any, *args: Any) -> Any:
        requests.append(request)
        return original(self, request, *args)

    monkeypatch.setattr(fake.FakeProvider, "generate", generate)
    return requests


def test_the_model_sees_what_was_run_and_what_is_asked(session: Session, seen: list[Any]):
    session.run("x = 1")
    session.run("%fill don't ask\nz = 3")
    session.run("%%fill --context 2\n# go on\n")
    kinds = [[(cell.kind, cell.source) for cell in request.cells] for request in seen]
    assert kinds[0][-2:] == [("markdown", "don't ask"), ("code", "")]
    assert kinds[0][0] == ("code", "x = 1")
    assert kinds[1] == [("code", "x = 1"), ("code", "z = 3"), ("code", "# go on\n")]
    assert (seen[1].target_idx, seen[1].prefix, seen[1].num_context_cells) == (2, "# go on\n", 2)


def test_what_stands_below_a_mark_is_the_next_cell(session: Session, seen: list[Any]):
    session.run("x = 1\n%load_ext jupyt5")
    session.run("%%fill\n# one more than x\n\n# %% tests\nassert y == 2\n")
    (request,) = seen
    assert [cell.source for cell in request.cells] == [
        "x = 1\n",
        "# one more than x",
        "assert y == 2\n",
    ]
    assert (request.target_idx, request.num_following_cells) == (1, 1)
    assert session.next_input == (
        "# one more than x\ny = x + 1\n# %% tests\nassert y == 2\n",
        True,
    )


@pytest.mark.kernel
@pytest.mark.usefixtures("walls")
def test_tried_in_a_sandbox_the_passing_one_is_taken(
    session: Session, capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: Any
):
    monkeypatch.chdir(tmp_path)
    uri = "fake:text=y+=+x&text=y+=+x+%2B+1;+open(%27made%27,+%27w%27)&text=y+=+1/0&logprob=-0.1"
    session.run("x = 1")
    session.run("x = 1 / 0")  # what failed here does not fail there
    session.run(f"%%fill -n 3 --try --provider {uri}\n# %%\nassert y == 2")
    shown = capsys.readouterr().out
    assert "# --- 1 of 3  (-0.10 nats/token)  wrong" in shown
    assert "# --- 2 of 3  (-0.20 nats/token)  passed\n" in shown
    assert "# --- 3 of 3  (-0.30 nats/token)  error" in shown
    assert session.next_input == ("y = x + 1; open('made', 'w')\n# %%\nassert y == 2\n", True)
    assert "y" not in session.shell.user_ns
    assert list(tmp_path.glob("made")) == []


@pytest.mark.kernel
@pytest.mark.usefixtures("walls")
def test_where_none_passes_the_likeliest_is_taken(
    session: Session, capsys: pytest.CaptureFixture[str]
):
    session.run("%%fill --try --provider fake:text=y+=+3\n# %%\nassert y == 2")
    assert "# None of the 1 passes the tests." in capsys.readouterr().out
    assert session.next_input == ("y = 3\n# %%\nassert y == 2\n", True)


@pytest.mark.kernel
@pytest.mark.usefixtures("walls")
def test_an_input_that_fails_only_there_is_named(
    session: Session, capsys: pytest.CaptureFixture[str]
):
    session.run("import os")
    session.shell.user_ns["secret"] = 1  # not from an input: it is not there again
    session.run("x = secret")
    session.run("%%fill --try\n# %%\nassert y == 2")
    assert "# Nothing was judged: Context cell 1 raised NameError" in capsys.readouterr().out


def test_without_a_sandbox_nothing_is_tried(
    session: Session, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def refuse(*args: object, **options: object) -> Any:
        raise ExecutionError("No sandbox here.")

    monkeypatch.setattr("jupyt5.magics.try_fresh", refuse)
    session.run("%%fill --try\n# %%\nassert y == 2")
    assert "Not tried: No sandbox here." in capsys.readouterr().out
    assert session.next_input == ("y = x + 1\n# %%\nassert y == 2\n", True)


def test_what_raised_is_not_run_again_with_any_ipython(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Any] = []

    def look(trial: Any, *args: object, **options: object) -> Any:
        seen.append(trial)
        return []

    monkeypatch.setattr("jupyt5.magics.try_fresh", look)
    session.run("x = 1")
    session.run("x = 1 / 0")
    session.run("if True:\n    x = 2\n    %fill don't")
    session.run("x =")
    history = session.shell.history_manager
    monkeypatch.setattr(history, "exceptions", {}, raising=False)  # as in IPython 8
    session.run("%%fill --try\n# %%\nassert y == 2")
    (trial,) = seen
    assert [source for _, source in trial.cells[:-2]] == ["x = 1", "if True:\n    x = 2\n"]


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("s = '''\n%fill me in\n'''\n%fill x\n", "s = '''\n%fill me in\n'''\n"),
        ("%fill it's (\nz = 3\n%load_ext jupyt5\n", "z = 3\n"),
        ("!echo it's\n  %fill x\ny = 1", "!echo it's\ny = 1"),
        ("%filler\n%time 1", "%filler\n%time 1"),
        ("x = 7 \\\n%fill", "x = 7 \\\n%fill"),
    ],
)
def test_only_calls_of_its_own_are_left_out_of_an_input(
    session: Session, monkeypatch: pytest.MonkeyPatch, code: str, kept: str
):
    seen: list[Any] = []
    monkeypatch.setattr(
        "jupyt5.magics.stream_drafts", lambda _, request, **__: seen.append(request) or []
    )
    history = session.shell.history_manager
    assert history is not None
    history.store_inputs(session.shell.execution_count, code, code)
    session.run("%%fill\n# go on\n")
    assert [cell.source for cell in seen[0].cells[:-1]] == [kept]


def test_several_are_shown(session: Session, capsys: pytest.CaptureFixture[str]):
    session.run("%fill -n 2 --show add")
    shown = capsys.readouterr().out
    assert shown.count("y = x + 1") == 2
    assert "# --- 2 of 2  (0.00 nats/token)" in shown
    assert session.next_input is None


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("%fill", "nothing around it"),
        ("%fill --provider nonsense x", "not a provider URI"),
        ("%fill --provider fake:fail x", "asked to fail"),
        ("%fill --provider fake:text= x", "nothing to say"),
        ("%fill -n many x", "-n many is no whole number"),
        ("%fill --max-tokens 0 x", "--max-tokens 0"),
        ("%fill --colour x", "colour"),
        ("%fill --try x", "below a line `# %%`"),
        ("%%fill --try\nx = 1\n# %%\n", "below a line `# %%`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    session: Session, capsys: pytest.CaptureFixture[str], code: str, says: str
):
    result = session.run(code)
    assert not result.success
    captured = capsys.readouterr()
    said = (captured.out + captured.err).strip()
    assert says in said
    assert "Traceback" not in said
    assert session.next_input is None


def test_an_interrupt_stops_the_model(session: Session, monkeypatch: pytest.MonkeyPatch):
    kept: list[Any] = []

    def generate(self: Any, request: Any, n: int, sampling: Any, seed: int, cancel: Any) -> Any:
        kept.append(cancel)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(fake.FakeProvider, "generate", generate)
    session.run("%fill x")
    assert kept[0].is_set()
    assert session.next_input is None


def test_a_model_is_loaded_once(session: Session, monkeypatch: pytest.MonkeyPatch):
    session.run("%fill a")
    monkeypatch.setattr("jupyt5.magics.load_provider", lambda _: pytest.fail("loaded again"))
    session.run("%fill b")
    assert session.next_input == ("y = x + 1", True)


def test_options_are_documented():
    text = FillMagics.fill.__doc__ or ""
    for option in ("-n", "--provider", "--context", "--max-tokens", "--seed", "--show", "--try"):
        assert option in text


@pytest.mark.kernel
def test_a_kernel_hands_the_answer_to_its_front_end():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute_interactive("%load_ext jupyt5", timeout=60)
        code = f"%%fill --provider {FAKE}\n# go on\n"
        reply = client.execute_interactive(code, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    (payload,) = reply["content"]["payload"]
    assert payload["source"] == "set_next_input"
    assert payload["text"] == "# go on\ny = x + 1"
    assert payload["replace"] is True
