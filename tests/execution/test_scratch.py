"""Temporary folders: locked while their process lives, removed by the next one when it is gone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyt5.execution import scratch

HOLD = """
import sys, time
from jupyt5.execution.scratch import make_folder
print(make_folder("view"), make_folder("home"), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def use_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def make_old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() - 3600, time.time() - 3600))


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        left = [Path(name) for name in other.stdout.readline().split()]
        foreign, young = tmp_path / "somebodys", tmp_path / "jupyt5-view-new"
        linked = tmp_path / "jupyt5-view-link"
        for path in (foreign, young):
            path.mkdir()
        linked.symlink_to(foreign)
        locked = left[0] / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0)
        make_old(*left, foreign)

        own = [scratch.make_folder("view")]
        assert all(path.is_dir() for path in left)  # their process lives
        other.kill()
    make_old(own[0])
    monkeypatch.setattr(scratch, "_swept", set())
    own.append(scratch.make_folder("view"))
    assert not any(path.exists() for path in left)
    assert all(path.is_dir() for path in (*own, foreign, young, linked))
    for path in own:
        scratch.remove_folder(path)
        assert not path.exists()


def test_a_process_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(scratch, "_sweep", looked.append)
    for _ in range(3):
        scratch.remove_folder(scratch.make_folder("run"))
    assert len(looked) == 1
