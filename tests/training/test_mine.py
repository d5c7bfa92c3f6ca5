"""``jupyt5-train mine``: from a folder of notebooks to the assistant's own model."""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jupyt5.cli import main as jupyt5
from jupyt5.model.checkpoint import read_meta
from jupyt5.providers.places import OWN_URI, find_default_uri, own_model_folder
from jupyt5_training import mine
from jupyt5_training.cli import main
from jupyt5_training.installing import install_folder
from jupyt5_training.locks import locked
from jupyt5_training.recipes import Recipe, find_recipe
from jupyt5_training.work_folder import clear_work, read_record, write_record

from .own_folder import write_wells


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jupyter"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder))
    return folder


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    return write_wells(tmp_path / "notebooks")


def use_rate(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the recipe train at another rate, on one thread."""

    def find(name: str) -> Recipe:
        recipe = find_recipe(name)
        optimizer = replace(recipe.optimizer, peak_lr=rate, muon_lr=rate, warmup_steps=1)
        return replace(recipe, optimizer=optimizer)

    monkeypatch.setattr(mine, "find_recipe", find)


@pytest.mark.slow
def test_a_model_of_ones_own(
    notebooks: Path,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    use_rate(2e-3, monkeypatch)
    (notebooks / "cut.ipynb").write_text("{")
    assert find_default_uri() == "jupyt5:nano"
    assert main(["mine", str(notebooks), "--minutes", "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["notebooks"], found["damaged"], found["provider"]) == (12, 1, OWN_URI)
    assert found["validation_loss_after"] < found["validation_loss_before"]
    assert 1 <= found["steps"] <= 4 * 4
    folder = data_folder / "jupyt5" / "models" / "mine"
    assert found["folder"] == str(folder)
    assert os.listdir(folder.parent) == ["mine"]  # nothing left beside it
    assert not (data_folder / "jupyt5" / "mine-run").exists()
    meta = read_meta(folder)
    assert meta.parents[0]["name"] == "nano"
    assert round(meta.metrics["validation_loss"], 4) == found["validation_loss_after"]
    assert "on 10 notebooks of its user" in (folder / "README.md").read_text()

    assert find_default_uri() == OWN_URI
    assert jupyt5(["providers"]) == 0
    assert f"{OWN_URI}  " in capsys.readouterr().out
    notebook = str(notebooks / "well-0.ipynb")
    fill = ["fill", notebook, "--cell", "3", "--provider", OWN_URI, "-n", "1", "--json"]
    assert jupyt5(fill) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["provider"] == OWN_URI


@pytest.mark.slow
def test_a_worse_model_is_not_installed(
    notebooks: Path,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    use_rate(0.5, monkeypatch)
    former = own_model_folder()
    former.mkdir(parents=True)
    (former / "jupyt5.json").write_text("the former one")
    assert main(["mine", str(notebooks), "--minutes", "0.05"]) == 1
    shown = capsys.readouterr()
    assert "did not get better on 2 held-out notebooks of yours: validation loss 3." in shown.err
    assert "validation loss before: 3." in shown.out
    assert (former / "jupyt5.json").read_text() == "the former one"
    assert os.listdir(former) == ["jupyt5.json"]


@pytest.mark.slow
def test_interrupted_and_gone_on_with(notebooks: Path, tmp_path: Path, data_folder: Path):
    work = tmp_path / "work"
    command = [sys.executable, "-m", "jupyt5_training.cli", "mine", str(notebooks)]
    command += ["--minutes", "1", "--out", str(work)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 90
    while not list(work.glob("run/checkpoints/step-*")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    log = process.communicate(timeout=60)[1]
    assert process.returncode == 130, log
    assert "give the same command again to go on" in log
    assert not own_model_folder().exists()
    record = json.loads((work / "mine.json").read_text())

    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert again.returncode == 0, again.stderr
    assert f"going on in {work}" in again.stderr
    assert "resuming after step " in again.stderr
    assert f"steps: {record['steps']}" in again.stdout
    assert own_model_folder().is_dir()
    assert not work.exists()


def test_nothing_to_train_on_is_one_message(
    tmp_path: Path, data_folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["mine", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert f"{tmp_path} holds no notebook to learn from" in shown.err
    assert not data_folder.exists()


def test_without_the_bundled_model_that_is_said(
    notebooks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("jupyt5.providers.places.bundled_folders", lambda: ())
    assert main(["mine", str(notebooks)]) == 1
    assert "no bundled model jupyt5:nano in this installation" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_no_time_is_refused(minutes: str, notebooks: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["mine", str(notebooks), f"--minutes={minutes}"]) == 2
    assert "is no time" in capsys.readouterr().err


def test_somebody_elses_folder_is_left_alone(
    notebooks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    work = tmp_path / "thesis"
    work.mkdir()
    (work / "chapter.txt").write_text("x")
    assert main(["mine", str(notebooks), "--out", str(work)]) == 1
    assert f"{work} holds something else" in capsys.readouterr().err
    assert (work / "chapter.txt").read_text() == "x"


@pytest.mark.parametrize("content", ['{"gold": 1}', "[1, 2]", "{", '{"kind": "mine"}', "\xff"])
def test_a_file_called_mine_json_does_not_make_a_folder_ours(
    content: str, notebooks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    work = tmp_path / "thesis"
    work.mkdir()
    (work / "mine.json").write_bytes(content.encode("latin-1"))
    (work / "chapter.txt").write_text("x")
    assert main(["mine", str(notebooks), "--out", str(work)]) == 1
    shown = capsys.readouterr().err
    assert f"{work} holds something else" in shown
    assert "Traceback" not in shown
    assert sorted(os.listdir(work)) == ["chapter.txt", "mine.json"]


def test_the_work_folder_is_private_and_what_others_put_there_stays(tmp_path: Path):
    work = tmp_path / "work"
    write_record(work, {"steps": 3})
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    assert read_record(work)["steps"] == 3
    (work / "run").mkdir()
    (work / "notes.txt").write_text("x")
    clear_work(work)
    assert os.listdir(work) == ["notes.txt"]


def test_a_second_run_in_the_same_folder_is_refused(
    notebooks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    work = tmp_path / "work"
    write_record(work, {"steps": 3})
    (work / "run").mkdir()
    holder = (
        "import sys; from pathlib import Path; from jupyt5_training.locks import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holder, str(work)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        assert main(["mine", str(notebooks), "--out", str(work / ".." / "work")]) == 1
        shown = capsys.readouterr().err
        process.kill()  # and so loses it
    assert f"Another run of the command works in {work}" in shown
    assert (work / "run").is_dir()
    with locked(work):
        pass
    assert not list(tmp_path.glob(".*"))


def test_other_notebooks_start_anew(
    notebooks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog
):
    """What was prepared for the former ones must not be trained on."""
    caplog.set_level(logging.INFO)
    seen: list[tuple[int, bool]] = []

    def stop(recipe, data, run, *, resume, init_from):
        counts = json.loads((data / "data.json").read_text())["counts"]
        seen.append((counts["train"]["notebooks"] + counts["validation"]["notebooks"], resume))
        raise KeyboardInterrupt

    monkeypatch.setattr(mine, "run_recipe", stop)
    monkeypatch.setattr(mine, "_choose_steps", lambda config: 3)
    command = ["mine", str(notebooks), "--out", str(tmp_path / "work")]
    assert main(command) == 130
    (notebooks / "well-3.ipynb").unlink()
    assert main(command) == 130
    assert main(command) == 130
    assert seen == [(12, False), (11, False), (11, False)]
    assert "of other notebooks or another time: starting anew" in caplog.text
    assert caplog.text.count("going on in") == 1


class TestInstalling:
    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        target = tmp_path / "models" / "mine"
        install_folder(self.make(tmp_path / "first", "first"), target)
        return target

    def make(self, folder: Path, text: str) -> Path:
        folder.mkdir()
        (folder / "model.bin").write_text(text)
        return folder

    def test_the_new_one_takes_the_place(self, target: Path, tmp_path: Path):
        (target / "of-the-first").write_text("x")
        install_folder(self.make(tmp_path / "second", "second"), target)
        assert (target / "model.bin").read_text() == "second"
        assert stat.S_IMODE(target.stat().st_mode) == 0o700
        assert os.listdir(target) == ["model.bin"]
        assert os.listdir(target.parent) == ["mine"]

    def test_a_full_disk_leaves_the_former_one(
        self, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        def fail(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("jupyt5_training.installing.shutil.copytree", fail)
        with pytest.raises(OSError, match="No space"):
            install_folder(self.make(tmp_path / "second", "second"), target)
        assert (target / "model.bin").read_text() == "first"
        assert os.listdir(target.parent) == ["mine"]

    def test_what_a_killed_call_has_left_goes(self, target: Path, tmp_path: Path):
        staging = target.with_name(".mine.new.k1ll3d") / ".mine.x.tmp"
        staging.mkdir(parents=True)
        (staging / "model.bin").write_text("half")
        target.with_name(".mine.lock").touch()
        target.with_name("mine.new.notes").touch()
        install_folder(self.make(tmp_path / "second", "second"), target)
        assert sorted(os.listdir(target.parent)) == ["mine", "mine.new.notes"]

    def test_killed_between_the_two_renames(self, target: Path, tmp_path: Path):
        target.rename(target.with_name(".mine.old"))
        with pytest.raises(OSError, match="nothing-there"):
            install_folder(tmp_path / "nothing-there", target)
        assert (target / "model.bin").read_text() == "first"
