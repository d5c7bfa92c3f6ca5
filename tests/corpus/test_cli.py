import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from jupyt5_corpus.cli import main

PAPER = ["--recipe", "paper"]
COMMAND = [sys.executable, "-m", "jupyt5_corpus.cli"]


def test_build_prints_a_summary_and_json_on_stdout_only(shards, tmp_path, capsys):
    out = tmp_path / "corpus"
    assert main(["build", str(shards), "--out", str(out), "--workers", "1", *PAPER]) == 0
    summary = capsys.readouterr().out
    assert "7  notebooks in" in summary
    assert "2  removed: exact_duplicate" in summary
    assert main(["build", str(shards), "--out", str(out), "--json", *PAPER]) == 0
    assert json.loads(capsys.readouterr().out)["notebooks_kept"] == 4


def test_check_says_yes_or_no_by_its_exit_code(shards, tmp_path, capsys):
    out = tmp_path / "corpus"
    main(["build", str(shards), "--out", str(out), "--workers", "1", *PAPER])
    assert main(["check", str(out)]) == 0
    (out / "data" / "part-00000.parquet").unlink()
    capsys.readouterr()
    assert main(["check", str(out), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert "part-00000.parquet is missing" in answer["problems"][0]


def test_make_holdout_writes_a_list_that_build_takes(shards, tmp_path, capsys):
    manifest = tmp_path / "manifest.jsonl"
    fact = {"repo": "cat/notes", "cell_sha256": "1" * 64, "grading_sha256": "2" * 64}
    manifest.write_text(json.dumps(fact) + "\n")
    list_path, out = tmp_path / "held.jsonl", tmp_path / "corpus"
    options = ["--out", str(list_path), "--source", "MINE"]
    assert main(["make-holdout", str(manifest), *options]) == 0
    assert "3 entries" in capsys.readouterr().out
    arguments = ["build", str(shards), "--out", str(out), "--holdout", str(list_path), "--json"]
    assert main([*arguments, "--workers", "1", *PAPER]) == 0
    assert json.loads(capsys.readouterr().out)["removed"]["holdout_repo"] == 1


def test_build_leaves_out_what_an_opt_out_list_names(shards, tmp_path, capsys):
    out, list_path = tmp_path / "corpus", tmp_path / "out.jsonl"
    list_path.write_text(json.dumps({"repo": "Cat/Notes", "note": "request 7"}) + "\n")
    arguments = ["build", str(shards), "--out", str(out), "--opt-out", str(list_path), "--json"]
    assert main([*arguments, *PAPER, "--workers", "1"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["removed"]["opted_out_repo"] == 1
    assert manifest["recipe"]["steps"][:3] == ["parse", "opt_out", "holdout"]
    assert manifest["recipe"]["opt_out"]["list"] == "out.jsonl"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["build", "none", "--out", "x", *PAPER], 2, "none does not exist"),
        (["build", "empty", "--out", "x", *PAPER], 1, "holds no"),
        (["build", "shards", "--out", "full", *PAPER], 2, "holds no corpus"),
        (["build", "shards", "--out", "x", "--holdout", "none"], 2, "cannot be read"),
        (["build", "shards", "--out", "x", "--opt-out", "none"], 2, "cannot be read"),
        (["build", "shards", "--out", "x", "--recipe", "best"], 2, "no recipe 'best'"),
        (["build", "shards", "--out", "x", "--engine", "slurm"], 2, "--sbatch partition=VALUE"),
        (["build", "shards", "--out", "full/file/x", *PAPER], 1, "Not a directory"),
        (["build", "shards", "--out", "x", "--dry-run"], 2, "--dry-run is of use with"),
        (["build", "shards", "--out", "x", "--sbatch", "a=b"], 2, "--sbatch is of use with"),
        (["build", "shards", "--out", "x", "--engine", "ray", "--dry-run"], 2, "--engine slurm"),
        (["build", "shards", "--out", "shards/x", *PAPER], 2, "lies in the source"),
        (["build", "shards", "shards/", "--out", "x", *PAPER], 2, "Give each source once"),
        (["check", "empty"], 1, "holds no corpus"),
        (["make-holdout", "none", "--out", "x"], 1, "No such file"),
    ],
)
def test_bad_input_is_one_message_and_nothing_written(
    shards, tmp_path, monkeypatch, capsys, arguments, exit_code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    assert main(arguments) == exit_code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full", "shards"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["build"],
        ["build", "x", "--out", "y", "--workers", "0"],
        ["build", "x", "--out", "y", "--tasks", "0"],
        ["build", "x", "--out", "y", "--sbatch", "partition"],
    ],
)
def test_wrong_usage_exits_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: jupyt5-corpus" in capsys.readouterr().err


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["build", "--help"])
    assert caught.value.code == 0
    assert "jupyt5-corpus build shards/ --out corpus/" in capsys.readouterr().out


def test_a_recipe_without_holdout_needs_no_list(shards, tmp_path):
    recipe_path = tmp_path / "short.yaml"
    recipe_path.write_text("name: short\nsteps: [parse, exact_duplicates]\n")
    arguments = ["--out", str(tmp_path / "corpus"), "--workers", "1", "--recipe", str(recipe_path)]
    assert main(["build", str(shards), *arguments]) == 0
    assert main(["check", str(tmp_path / "corpus")]) == 0


@pytest.mark.parametrize("is_there", [True, False])
def test_the_summary_counts_only_what_a_step_looked_for(shards, tmp_path, capsys, is_there):
    recipe_path = tmp_path / "mine.yaml"
    steps = "parse, exact_duplicates" + is_there * ", secrets, markdown_focused"
    recipe_path.write_text(f"name: mine\nsteps: [{steps}]\n")
    arguments = ["--out", str(tmp_path / "corpus"), "--workers", "1", "--recipe", str(recipe_path)]
    assert main(["build", str(shards), *arguments]) == 0
    summary = capsys.readouterr().out
    for line in ("1  of them Markdown focused", "0  secrets and personal data replaced"):
        assert (line in summary) is is_there


@pytest.mark.parametrize("room_bytes", [600, 4_000])
def test_a_full_disk_is_one_message_and_no_corpus(shards, tmp_path, room_bytes):
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room_bytes}, {room_bytes}));"
        "from jupyt5_corpus.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["build", str(shards), "--out", str(tmp_path / "corpus"), "--workers", "1", *PAPER]
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error: ") == 1
    assert "File too large" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards"]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_any_point_and_started_again_gives_the_same_bytes(
    shared_corpus, tmp_path, corpus, sent
):
    """Stop the build of two real shards again and again, a little later each time."""
    sources = [str(shared_corpus / "00.tar.zst"), str(shared_corpus / "06.tar.zst")]
    out = tmp_path / "corpus"
    arguments = [*COMMAND, "build", *sources, *PAPER, "--workers", "2", "--out"]
    subprocess.run([*arguments, str(tmp_path / "whole")], check=True, capture_output=True)
    state_path = tmp_path / "corpus.partial" / "work" / "build.json"
    for delay_s in (0.0, 0.3, 0.8, 1.2, 1.6):
        process = subprocess.Popen(
            [*arguments, str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        while not state_path.is_file() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(delay_s)
        # Ctrl-C reaches every process of the group; a kill is meant for one. None may be left.
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
        _, errors = process.communicate(timeout=60)
        if sent == signal.SIGINT:
            assert "Traceback" not in errors
            assert process.returncode in {0, 130}
        assert not out.exists() or (out / "manifest.json").is_file()
    subprocess.run([*arguments, str(out)], check=True, capture_output=True)
    assert corpus.files(out) == corpus.files(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["corpus", "whole"]
