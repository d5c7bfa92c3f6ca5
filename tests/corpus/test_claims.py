"""One build of an output at a time, and only of sources that can be read once."""

import os
import signal
import subprocess
import sys

import pytest

from jupyt5.errors import UsageError
from jupyt5_corpus import layout as layout_module
from jupyt5_corpus import stages as stages_module
from jupyt5_corpus.build import submit_build
from jupyt5_corpus.engines import SlurmEngine
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.reading import read_unit
from jupyt5_corpus.recipe import load_recipe

SLURM = SlurmEngine(sbatch={"partition": "cpu", "time": "1:00"}, is_dry_run=True)


def test_a_second_build_of_the_same_output_refuses_and_changes_nothing(
    shards, build, corpus, tmp_path, monkeypatch
):
    build(shards, out=tmp_path / "alone")
    refused = []

    def read_and_start_another(layout, unit_idx):
        before = corpus.files(tmp_path)
        with pytest.raises(UsageError, match=r"Another process builds in .*corpus\.partial\."):
            build(shards)
        with pytest.raises(UsageError, match="Another process builds"):
            submit_build([shards], tmp_path / "corpus", recipe=load_recipe("paper"), engine=SLURM)
        assert corpus.files(tmp_path) == before
        refused.append(unit_idx)
        return read_unit(layout, unit_idx)

    monkeypatch.setattr(stages_module, "read_unit", read_and_start_another)
    build(shards)
    assert refused == [0, 1]
    assert corpus.files(tmp_path / "corpus") == corpus.files(tmp_path / "alone")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["alone", "corpus", "shards"]


HOLD = """
import sys, time
from pathlib import Path
from jupyt5_corpus.layout import Layout
with Layout(Path(sys.argv[1])).claimed():
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_loses_its_claim(shards, build, tmp_path):
    folder = tmp_path / "corpus.partial"
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(UsageError, match="Another process builds"):
            build(shards)
        os.kill(holder.pid, signal.SIGKILL)
    assert (tmp_path / "corpus.partial.lock").exists()
    assert build(shards)["notebooks_kept"] == 4
    assert not (tmp_path / "corpus.partial.lock").exists()


def test_the_claim_is_on_the_file_that_is_there(tmp_path, monkeypatch):
    path = tmp_path / "corpus.partial.lock"
    asked = []

    def lock_late(stream, operation):
        asked.append(operation)
        if len(asked) == 1:
            path.unlink()  # as the build before does when it ends
        flock(stream, operation)

    flock = layout_module.fcntl.flock
    monkeypatch.setattr(layout_module.fcntl, "flock", lock_late)
    with Layout(tmp_path / "corpus.partial").claimed():
        assert len(asked) == 2
        with pytest.raises(UsageError), Layout(tmp_path / "corpus.partial").claimed():
            pass
    assert not path.exists()


def test_a_file_system_without_locks_gets_a_warning(shards, build, monkeypatch, caplog):
    def refuse(_stream, _operation):
        raise OSError(layout_module.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(layout_module.fcntl, "flock", refuse)
    assert build(shards)["notebooks_kept"] == 4
    assert "has no locks" in caplog.text


def test_an_output_inside_of_a_source_is_refused(shards, build):
    before = sorted(shards.iterdir())
    for out in (shards, shards / "corpus", shards / "deep" / "corpus"):
        with pytest.raises(UsageError, match="lies in the source"):
            build(shards, out=out)
    assert sorted(shards.iterdir()) == before


def test_a_source_that_is_given_twice_is_refused(shards, build, tmp_path):
    (tmp_path / "link").symlink_to(shards)
    for again in (shards, tmp_path / "link", shards / "01.tar.zst"):
        with pytest.raises(UsageError, match="among the sources 2 times"):
            build(shards, again)
    assert not (tmp_path / "corpus.partial").exists()
