"""Pickles that would run code, and files that are no checkpoints: one clear error, nothing run."""

import argparse
import os
import pickle
from pathlib import Path

import pytest
import torch

from jupyt5.cli import main
from jupyt5.errors import CheckpointError
from jupyt5.model.imports.reading import load_pickle

from .fairseq_model import Sizes, Written, write_fairseq


class Runs:
    """Would make a folder when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


class Evaluates:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, (f"__import__('os').mkdir({str(self.path)!r})",)


class Harmless:
    """A class of our own: not run, and refused all the same."""


def test_plain_pickles_would_run_it(tmp_path: Path) -> None:
    """The attack works where nothing stands in its way, so the tests below mean something."""
    pickle.loads(pickle.dumps(Runs(tmp_path / "made")))  # noqa: S301 (the point of the test)
    assert (tmp_path / "made").is_dir()


@pytest.mark.parametrize("attack", [Runs, Evaluates])
@pytest.mark.parametrize("place", ["args", "namespace", "model", "state", "alone", "raw"])
def test_hostile_pickle_is_refused(
    attack: type[Runs], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = write_fairseq(tmp_path / "parent", Sizes())
    trap = attack(tmp_path / "made")
    path = written.folder / "model.pt"
    contents: dict[str, object] = {
        "args": {"args": trap, "model": written.state},
        "namespace": {"args": argparse.Namespace(arch=trap), "model": written.state},
        "model": {"args": None, "model": trap},
        "state": {"args": None, "model": {**written.state, "encoder.version": trap}},
        "alone": trap,
    }
    if place == "raw":
        path.write_bytes(pickle.dumps(trap, protocol=2))
    else:
        torch.save(contents[place], path)
    assert main(["import-fairseq", *written.arguments, "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"error: {path} is refused: it asks for ")
    assert "Nothing in it was run" in error
    assert {entry.name for entry in tmp_path.iterdir()} == {"parent"}


def test_only_namespace_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"args": argparse.Namespace(arch="bart")}, path)
    assert load_pickle(path) == {"args": argparse.Namespace(arch="bart")}
    torch.save({"args": Harmless()}, path)
    with pytest.raises(CheckpointError, match="Harmless"):
        load_pickle(path)


def test_what_others_allowed_is_not_allowed_here(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(Harmless(), path)
    before = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([Harmless]):
        assert isinstance(torch.load(path, weights_only=True), Harmless)
        with pytest.raises(CheckpointError, match="Harmless"):
            load_pickle(path)
        assert set(torch.serialization.get_safe_globals()) == {*before, Harmless}


def test_environment_cannot_switch_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save(Runs(tmp_path / "made"), tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="is refused"):
        load_pickle(tmp_path / "x.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "list", "values", "protocol"])
def test_damaged_files(
    damage: str, written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.pt"
    whole = (written.folder / "model.pt").read_bytes()
    if damage in {"list", "values"}:
        torch.save([1, 2] if damage == "list" else {"model": {"a": 1}}, path)
    else:
        contents = {
            "empty": b"",
            "text": b"hello\n",
            "cut": whole[: len(whole) // 2],
            "protocol": pickle.dumps(Runs(tmp_path / "made"), protocol=4),
        }
        path.write_bytes(contents[damage])
    arguments = [str(path), *written.arguments[1:], "--out", str(tmp_path / "out")]
    assert main(["import-fairseq", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}")
    assert error.count("\n") == 1
    assert {entry.name for entry in tmp_path.iterdir()} == {"model.pt"}


def test_missing_file(written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(tmp_path / "none.pt"), *written.arguments[1:]]
    assert main(["import-fairseq", *arguments, "--out", str(tmp_path / "out")]) == 1
    assert "none.pt" in capsys.readouterr().err
