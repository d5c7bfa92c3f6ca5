"""Whole lists: what comes out, what fails, and what happens after a stop."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from jupyt5.errors import UsageError
from jupyt5_corpus.compression import open_packed
from jupyt5_corpus.fetch import run
from jupyt5_corpus.fetch.client import FetchLimits
from jupyt5_corpus.fetch.run import FetchOptions, fetch_list
from jupyt5_corpus.metadata import read_repositories
from jupyt5_corpus.sources import LicenceFile, find_units, iter_files

FAST = FetchOptions(delay_s=0.0, num_retries=0)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(run, "_FIRST_BACKOFF_S", 0.01)
    monkeypatch.setattr(run, "_MAX_BACKOFF_S", 0.02)
    monkeypatch.setattr(run, "_PAUSE_S", 0.5)


@pytest.fixture
def fetch(tmp_path):
    def go(urls, *, out="out", options=FAST):
        (tmp_path / "list.txt").write_text("\n".join(urls) + "\n")
        return fetch_list(tmp_path / "list.txt", tmp_path / out, options)

    return go


def lines_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def shards_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tar.zst"))}


def make_many(repositories, count):
    return [
        repositories.make(f"ann/r{number:02d}", {f"{number}.ipynb": b"{}", "LICENSE": b"MIT"})
        for number in range(count)
    ]


def test_the_folder_is_a_source_of_build(repositories, fetch, tmp_path):
    url = repositories.make("ann/book", {"1.ipynb": b"{}", "LICENSE": b"MIT", "a.py": b"1"})
    entry = json.dumps({"url": url, "fork_of": "zoe/book", "licence": "MIT"})
    counts = fetch([entry, repositories.make("ben/none", {"a.py": b"1"})])
    assert counts == {"repositories": 2, "notebooks": 1, "skipped": 0, "failed": {}}
    (unit,) = find_units([tmp_path / "out"])
    notebook, licence = iter_files(unit)
    assert licence == LicenceFile(repo="ann/book", name="LICENSE", text="MIT")
    assert (notebook.name, getattr(notebook, "data", None)) == ("ann/book/1.ipynb", b"{}")
    known = read_repositories(unit.metadata_folder)["ann/book"]
    assert known.commit == repositories.git("ann/book", "rev-parse", "HEAD")
    assert (known.fork_of, known.licence) == ("zoe/book", "MIT")
    assert str(known.retrieved).endswith("Z")
    first, second = lines_of(tmp_path / "out" / "repos.jsonl")
    assert (first["url"], first["n_notebooks"], first["shard"]) == (url, 1, "00000.tar.zst")
    assert (second["owner"], second["repo"], second["n_notebooks"]) == ("ben", "none", 0)


def test_failures_have_reasons_and_the_run_goes_on(repositories, bad_server, fetch, tmp_path):
    urls = [
        repositories.make("ann/first", {"1.ipynb": b"{}"}),
        f"{bad_server.url}/404/ann/gone",
        f"{bad_server.url}/drop/ann/dropped",
        f"{bad_server.url}/stall/ann/stalled",
        "ext::sh -c date",
        repositories.make("ann/empty"),
        repositories.make("ann/first"),
        repositories.make("ann/last", {"2.ipynb": b"{}"}),
    ]
    repositories.commit("ann/first", {"1.ipynb": b"{}"})
    options = FetchOptions(delay_s=0.0, num_retries=1, limits=FetchLimits(timeout_s=1.5))
    start_s = time.monotonic()
    counts = fetch(urls, options=options)
    assert time.monotonic() - start_s < 20
    reasons = ["not_found", "connection", "timed_out", "bad_url", "empty_repository"]
    reasons += ["listed_twice"]
    assert counts["repositories"] == 2
    assert counts["failed"] == dict(sorted(Counter(reasons).items()))
    failed = lines_of(tmp_path / "out" / "failed.jsonl")
    assert [each["url"] for each in failed] == urls[1:7]
    assert [each["reason"] for each in failed] == reasons
    assert [each["num_attempts"] for each in failed] == [1, 2, 2, 0, 1, 0]


def test_a_passing_failure_is_tried_again(repositories, bad_server, fetch):
    repositories.make("ann/book", {"1.ipynb": b"{}"})
    url = f"{bad_server.url}/flaky/ann/book.git"
    assert fetch([url])["failed"] == {"connection": 1}
    bad_server.num_requests.clear()
    options = FetchOptions(delay_s=0.0, num_retries=3)
    assert fetch([url], out="again", options=options)["repositories"] == 1


def test_the_list_of_failures_is_a_list(repositories, bad_server, fetch, tmp_path):
    repositories.make("ann/book", {"1.ipynb": b"{}"})
    fetch([f"{bad_server.url}/flaky/ann/book.git", f"{bad_server.url}/404/a/b"])
    counts = fetch_list(tmp_path / "out" / "failed.jsonl", tmp_path / "more", FAST)
    assert counts["failed"] == {"connection": 1, "not_found": 1}
    counts = fetch_list(tmp_path / "out" / "failed.jsonl", tmp_path / "most", FAST)
    assert (counts["repositories"], counts["failed"]) == (1, {"not_found": 1})


def test_a_host_that_says_it_is_too_much_gets_a_pause(bad_server, fetch):
    fetch([f"{bad_server.url}/429/a/b"], options=FetchOptions(delay_s=0.0, num_retries=1))
    first_s, second_s = bad_server.starts_s
    assert second_s - first_s > 0.45


def test_a_host_is_not_asked_by_more_than_its_number(repositories, bad_server, fetch):
    urls = [f"{bad_server.url}/slow/ann/r{number:02d}.git" for number in range(6)]
    make_many(repositories, 6)
    options = FetchOptions(num_workers=6, per_host=2, delay_s=0.0)
    counts = fetch([*urls, *(f"{repositories.url}/ben/none{n}" for n in range(3))], options=options)
    assert counts["repositories"] == 6
    assert bad_server.max_open == 2


def test_shards_do_not_depend_on_the_number_of_workers(repositories, fetch, tmp_path):
    urls = [*make_many(repositories, 7), "nonsense"]
    for out, num_workers in (("one", 1), ("four", 4)):
        options = FetchOptions(num_workers=num_workers, delay_s=0.0, repos_per_shard=3)
        fetch(urls, out=out, options=options)
    assert len(shards_of(tmp_path / "one")) == 3
    assert shards_of(tmp_path / "one") == shards_of(tmp_path / "four")
    owners = [each["repo"] for each in lines_of(tmp_path / "four" / "repos.jsonl")]
    assert owners == sorted(owners)


def test_a_second_run_has_nothing_to_do(repositories, fetch, tmp_path):
    urls = make_many(repositories, 3)
    first = fetch(urls)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.zst")}
    repositories.url = "gone"
    assert fetch(urls) == first
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.zst")}


SCRIPT = """
import sys
from pathlib import Path
from jupyt5_corpus.fetch.run import FetchOptions, fetch_list
options = FetchOptions(num_workers=2, delay_s=0.05, repos_per_shard=4)
fetch_list(Path(sys.argv[1]), Path(sys.argv[2]), options)
"""


@pytest.mark.slow
def test_killed_at_any_point_and_started_again(repositories, bad_server, fetch, tmp_path):
    urls = [*make_many(repositories, 14), f"{bad_server.url}/404/a/b"]
    fetch(urls, out="whole", options=FetchOptions(delay_s=0.0, repos_per_shard=4))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "list.txt"), str(tmp_path / "out")]
    num_found: list[int] = []
    for wait_s in (1.2, 1.5, 1.9, 2.4, 3.0):
        process = subprocess.Popen(command)
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = [*(tmp_path / "out").glob("*.zst"), *(tmp_path / "out").glob("work/*/*.json")]
        num_found.append(len(done))
    subprocess.run(command, check=True)
    assert any(number > 0 for number in num_found)
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "whole")
    for name in ("repos.jsonl", "failed.jsonl", "skipped.jsonl"):
        tables = [lines_of(tmp_path / out / name) for out in ("out", "whole")]
        for each in tables[0] + tables[1]:
            each.pop("retrieved", None)
        assert tables[0] == tables[1]
    assert not list((tmp_path / "out").rglob("clone-*"))


def test_an_interrupt_ends_it_at_once_and_leaves_no_git_behind(bad_server, tmp_path):
    (tmp_path / "list.txt").write_text(f"{bad_server.url}/stall/a/b\n")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "list.txt"), str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not bad_server.num_requests["stall"]:
        time.sleep(0.05)
    start_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert time.monotonic() - start_s < 5
    assert b"KeyboardInterrupt" in said
    assert bad_server.num_requests["stall"] == 1
    assert not list((tmp_path / "out").rglob("clone-*"))


def test_a_full_disk_ends_the_run_with_one_error(repositories, fetch, monkeypatch, tmp_path):
    urls = make_many(repositories, 5)
    fetch_repository = run.fetch_repository

    def refuse(target, *arguments):
        if target.name == "r03":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fetch_repository(target, *arguments)

    options = FetchOptions(delay_s=0.0, repos_per_shard=2, num_workers=1)
    monkeypatch.setattr(run, "fetch_repository", refuse)
    with pytest.raises(OSError, match="No space left"):
        fetch(urls, options=options)
    monkeypatch.undo()
    assert fetch(urls, options=options)["repositories"] == 5
    assert len(shards_of(tmp_path / "out")) == 3


def test_passwords_are_neither_written_nor_said(bad_server, repositories, fetch, tmp_path, caplog):
    repositories.make("ann/book", {"1.ipynb": b"{}"})
    caplog.set_level(logging.DEBUG)
    urls = [
        f"http://user:s3cret@{bad_server.url.removeprefix('http://')}/{name}"
        for name in ("ok/ann/book.git", "401/a/b", "404/a/c", "drop/a/d")
    ]
    assert fetch([*urls, "ssh://user:s3cret@x.org/a/b"])["repositories"] == 1
    written = b"".join(
        path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    assert b"s3cret" not in written
    assert "s3cret" not in caplog.text
    with open_packed(tmp_path / "out" / "00000.tar.zst") as stream:
        assert b"s3cret" not in stream.read()


def test_a_folder_of_something_else_is_refused(repositories, fetch, tmp_path):
    urls = make_many(repositories, 2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="holds something else"):
        fetch(urls, out="full")
    fetch(urls)
    with pytest.raises(UsageError, match="another list"):
        fetch(urls[:1])
    (tmp_path / "list.txt").write_text("\n".join(urls) + "\n")
    with pytest.raises(UsageError, match="another list"):
        fetch(urls, options=FetchOptions(repos_per_shard=1))


def test_two_processes_do_not_fill_one_folder(fetch, tmp_path, bad_server):
    urls = [f"{bad_server.url}/stall/a/b"]
    (tmp_path / "list.txt").write_text(urls[0] + "\n")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "list.txt"), str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while not bad_server.num_requests["stall"]:
            time.sleep(0.05)
        with pytest.raises(UsageError, match="Another process"):
            fetch(urls, options=FetchOptions(repos_per_shard=4))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def test_build_takes_what_was_fetched(repositories, fetch, tmp_path, make, build, corpus):
    files = {"LICENSE": b"no licence", "1.ipynb": make.notebook("print('a notebook of its own')")}
    url = repositories.make("ann/book", files)
    fetch([url, f"{repositories.url}/none"])
    build(tmp_path / "out")
    (row,) = corpus.rows(tmp_path / "corpus")
    (listed,) = lines_of(tmp_path / "out" / "repos.jsonl")
    assert (row["repo"], row["path"]) == ("ann/book", "1.ipynb")
    assert row["commit"] == repositories.git("ann/book", "rev-parse", "HEAD")
    assert row["retrieved"] == listed["retrieved"]
    assert row["blob_sha"] == repositories.git("ann/book", "rev-parse", "HEAD:1.ipynb")
