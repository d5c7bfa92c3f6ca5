"""The command line of ``list`` and ``fetch``."""

import argparse
import gzip
import json
import subprocess
import sys

import pytest

from jupyt5_corpus.fetch import run
from jupyt5_corpus.fetch.cli import add_commands


@pytest.fixture
def command():
    """Run a command; its exit code is returned."""
    parser = argparse.ArgumentParser(prog="jupyt5-corpus")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true")
    add_commands(parser.add_subparsers(required=True), common)

    def run(*arguments):
        options = parser.parse_args([str(argument) for argument in arguments])
        return options.command(options)

    return run


def test_list_then_fetch(command, tmp_path, capsys, repositories):
    described = {"full_name": "ann/book", "language": "Jupyter Notebook"}
    described |= {"created_at": "2019-01-01T00:00:00Z"}
    (tmp_path / "hour.json.gz").write_bytes(gzip.compress(json.dumps(described).encode()))
    out = tmp_path / "list.jsonl"
    assert command("list", tmp_path / "hour.json.gz", "--before", "2020-01-01", "--out", out) == 0
    assert "1  listed" in capsys.readouterr().out
    entry = json.loads(out.read_text())
    assert entry["url"] == "https://github.com/ann/book.git"
    entry["url"] = repositories.make("ann/book", {"1.ipynb": b"{}"})
    out.write_text(f"{json.dumps(entry)}\nnonsense\n")
    assert command("fetch", out, "--out", tmp_path / "shards", "--delay-s", "0", "--json") == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts == {"repositories": 1, "notebooks": 1, "skipped": 0, "failed": {"bad_url": 1}}
    assert command("fetch", out, "--out", tmp_path / "shards") == 0
    assert "1  failed: bad_url" in capsys.readouterr().out


def test_nothing_fetched_is_a_failure(command, tmp_path, caplog):
    (tmp_path / "list.txt").write_text("nonsense\n")
    assert command("fetch", tmp_path / "list.txt", "--out", tmp_path / "shards") == 1
    assert f"{tmp_path}/shards/failed.jsonl says why" in caplog.text
    (tmp_path / "list.txt").write_text("# nothing\n")
    assert command("fetch", tmp_path / "list.txt", "--out", tmp_path / "none") == 0


def test_after_a_stop_it_says_how_to_go_on(command, tmp_path, caplog, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "fetch_list", stop)
    with pytest.raises(KeyboardInterrupt):
        command("fetch", "list.txt", "--out", tmp_path / "shards")
    assert f"{tmp_path}/shards/work the parts of the others. The same command" in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "a.json", "--out", "b", "--before", "soon"),
        ("list", "a.json", "--out", "b"),
        ("fetch", "list", "--out", "b", "--workers", "0"),
        ("fetch", "list", "--out", "b", "--delay-s", "-1"),
        ("fetch", "list", "--out", "b", "--timeout-s", "inf"),
        ("fetch", "list", "--out", "b", "--retries", "-1"),
    ],
)
def test_wrong_options_are_refused(command, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        command(*arguments)
    assert caught.value.code == 2
    assert "error: argument" in capsys.readouterr().err or "--before" not in arguments


def test_the_command_line_loads_nothing_heavy():
    script = "import sys; import jupyt5_corpus.fetch.cli; print('pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
