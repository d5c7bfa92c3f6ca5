"""Temporary folders: kept while their process lives, removed by the next one when it is gone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyt5.execution import scratch

HOLD = """
import os, time
from jupyt5.execution.scratch import make_folder
paths = make_folder("view"), make_folder("home")
if os.environ.get("FORKS") and os.fork() == 0:
    time.sleep(20)
    os._exit(0)
print(*paths, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def use_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be another process, which has made no folder yet."""
    monkeypatch.setattr(scratch, "_held", {})
    monkeypatch.setattr(scratch, "_swept", set())


def make_old(place: Path) -> None:
    for path in place.iterdir():
        os.utime(path, (time.time() - 3600, time.time() - 3600), follow_symlinks=False)


def hold() -> tuple["subprocess.Popen[str]", list[Path]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, [Path(name) for name in process.stdout.readline().split()]


def make_again(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder as another process would."""
    forget(monkeypatch)
    return scratch.make_folder("view")


def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, left = hold()
    with process:
        locked = left[0] / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0)
        make_old(tmp_path)
        own = make_again(monkeypatch)
        assert all(path.is_dir() for path in left)  # their process lives
        process.kill()
    make_old(tmp_path)
    other = make_again(monkeypatch)
    assert not any(path.exists() for path in left)
    assert own.is_dir()
    assert len(list(tmp_path.glob("jupyt5-lock-*"))) == 2
    scratch.remove_folder(other)
    assert not other.exists()
    assert len(list(tmp_path.glob("jupyt5-lock-*"))) == 1


def test_a_fork_that_lives_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORKS", "yes")
    process, left = hold()
    with process:
        process.kill()
    make_old(tmp_path)
    make_again(monkeypatch)
    assert all(path.is_dir() for path in left)


def test_nothing_else_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, left = hold()
    with process:
        process.kill()
    token = left[0].name.split("-")[3]
    victim = tmp_path / "victim"
    kept = [tmp_path / "jupyt5-my-notes", tmp_path / "jupyt5-map-abcdefgh", victim]
    kept.append(tmp_path / f"jupyt5-view-{'0' * 8}-{token}-abcdefgh")  # another machine's
    for path in kept:
        path.mkdir()
        (path / "file").touch()
    link = tmp_path / f"jupyt5-view-{scratch._MACHINE}-{token}-linked"
    link.symlink_to(victim)
    # A lock that is a link, or has just been made, is nobody's to take.
    (tmp_path / f"jupyt5-lock-{scratch._MACHINE}-{'a' * 16}").symlink_to(victim / "file")
    make_old(tmp_path)
    young = tmp_path / f"jupyt5-lock-{scratch._MACHINE}-{'b' * 16}"
    young.touch()
    scratch.remove_folder(make_again(monkeypatch))
    assert all((path / "file").exists() for path in kept)
    assert young.exists()
    assert link.is_symlink()
    assert not any(path.exists() for path in left)


def test_other_users_locks_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, left = hold()
    with process:
        process.kill()
    make_old(tmp_path)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    make_again(monkeypatch)
    assert all(path.is_dir() for path in left)


def test_who_has_no_folder_holds_no_lock(tmp_path: Path) -> None:
    num_open = len(os.listdir("/proc/self/fd"))
    paths = [scratch.make_folder("run") for _ in range(3)]
    for path in paths:
        assert len(list(tmp_path.glob("jupyt5-lock-*"))) == 1
        assert len(os.listdir("/proc/self/fd")) == num_open + 1
        scratch.remove_folder(path)
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == num_open


def test_a_fork_does_not_release_its_parents_lock(tmp_path: Path) -> None:
    path = scratch.make_folder("run")
    pid = os.fork()
    if pid == 0:
        scratch.remove_folder(scratch.make_folder("run"))
        scratch.remove_folder(path)
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(tmp_path.glob("jupyt5-lock-*"))) == 1
    scratch.remove_folder(scratch.make_folder("run"))
    assert not list(tmp_path.iterdir())


def test_without_locks_folders_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "fcntl", None)
    path = make_again(monkeypatch)
    assert path.is_dir()
    assert list(tmp_path.iterdir()) == [path]
