"""One repository at a time."""

import os
import tarfile
import threading
import time
from pathlib import Path

import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.fetch.client import FetchLimits, Skipped, classify, fetch_repository
from jupyt5_corpus.fetch.targets import Target, read_targets
from jupyt5_corpus.sources import git_objects, records
from jupyt5_corpus.sources.git import GitError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n"


@pytest.fixture
def fetch(tmp_path):
    """Fetch an address; the archive's members come with what was fetched."""
    (tmp_path / "work").mkdir()

    def run(url, *, stop=None, **limits):
        (tmp_path / "list.txt").write_text(url)
        (target,) = read_targets(tmp_path / "list.txt")
        assert isinstance(target, Target)
        piece = tmp_path / "work" / "1.tar"
        try:
            fetched = fetch_repository(
                target, piece, FetchLimits(**limits), stop or threading.Event()
            )
        finally:
            assert [path.name for path in piece.parent.iterdir()] in ([], ["1.tar"])
        with tarfile.open(piece, errors="surrogateescape") as archive:
            members = {each.name: archive.extractfile(each) for each in archive}
            return fetched, {name: file and file.read() for name, file in members.items()}

    return run


def num_git_processes(word):
    """Processes of git whose command line or environment has a word."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        count += word.encode() in text and b"git" in text and int(path.name) != os.getpid()
    return count


def test_only_notebooks_and_licences_of_the_newest_commit_are_fetched(repositories, fetch):
    files = {
        "1.ipynb": b"{}",
        "sub dir/2.ipynb": b'{"a": 1}',
        "copy.ipynb": b"{}",
        "LICENSE.md": b"MIT",
        "sub dir/LICENSE": b"not at the root",
        "weights.bin": os.urandom(3 << 20),
    }
    url = repositories.make("ann/book", {"old.ipynb": os.urandom(3 << 20)})
    commit = repositories.commit("ann/book", files)
    fetched, members = fetch(url, max_repo_bytes=1 << 20)
    assert members == {
        "ann/book/1.ipynb": b"{}",
        "ann/book/LICENSE.md": b"MIT",
        "ann/book/copy.ipynb": b"{}",
        "ann/book/sub dir/2.ipynb": b'{"a": 1}',
    }
    assert (fetched.commit, fetched.num_notebooks, fetched.skipped) == (commit, 3, ())
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert "2020" < fetched.retrieved <= now


def test_a_server_that_cannot_leave_contents_out(repositories, fetch):
    url = repositories.make("ann/book", {"1.ipynb": b"{}", "data.bin": b"1"})
    repositories.git("ann/book", "config", "uploadpack.allowFilter", "false")
    _, members = fetch(url)
    assert members == {"ann/book/1.ipynb": b"{}"}


def test_over_http(repositories, bad_server, fetch):
    repositories.make("ann/book", {"1.ipynb": b"{}", "data.bin": b"1"})
    _, members = fetch(f"{bad_server.url}/ok/ann/book.git")
    assert members == {"ok.ann/book/1.ipynb": b"{}"}


def test_a_repository_without_notebooks(repositories, fetch):
    fetched, members = fetch(repositories.make("ann/code", {"a.py": b"1"}))
    assert (members, fetched.num_notebooks) == ({}, 0)


def test_links_submodules_lfs_and_large_notebooks_stay_behind(repositories, fetch, monkeypatch):
    monkeypatch.setattr(records, "MAX_NOTEBOOK_BYTES", 1000)
    url = repositories.make("ann/book")
    link = repositories.git("ann/book", "hash-object", "-w", "--stdin", stdin=b"/etc/passwd")
    entries = (f"120000,{link},link.ipynb", f"160000,{'1' * 40},module.ipynb")
    files = {
        "1.ipynb": b"{}",
        "large.ipynb": b"x" * 1001,
        "lfs.ipynb": LFS,
        ".gitmodules": b'[submodule "m"]\n\tpath = module.ipynb\n\turl = ext::sh -c "touch /x"\n',
        ".gitattributes": b"*.ipynb filter=lfs\n",
    }
    repositories.commit("ann/book", files, entries)
    fetched, members = fetch(url)
    assert members == {"ann/book/1.ipynb": b"{}"}
    assert {each.path: each.reason for each in fetched.skipped} == {
        "large.ipynb": "too_large",
        "lfs.ipynb": "lfs_pointer",
        "link.ipynb": "not_a_file",
        "module.ipynb": "not_a_file",
    }


def test_names_that_lead_elsewhere_or_are_not_utf8(repositories, fetch):
    url = repositories.make("ann/book", {"1.ipynb": b"{}"})
    oid = repositories.git("ann/book", "rev-parse", "HEAD:1.ipynb")
    inner = repositories.make_tree("ann/book", ("100644", "1.ipynb", oid))
    entries = [("40000", name, inner) for name in ("..", ".git", "\udcff")]
    repositories.commit_tree("ann/book", repositories.make_tree("ann/book", *entries))
    fetched, members = fetch(url)
    assert members == {"ann/book/.git/1.ipynb": b"{}", "ann/book/\udcff/1.ipynb": b"{}"}
    skipped = Skipped(path="../1.ipynb", reason="unsafe_path", detail=fetched.skipped[0].detail)
    assert fetched.skipped == (skipped,)


def test_billions_of_files_made_of_few_objects(repositories, fetch, monkeypatch):
    monkeypatch.setattr(git_objects, "MAX_ENTRIES", 10_000)
    url = repositories.make("ann/bomb", {"1.ipynb": b"{}"})
    tree = repositories.git("ann/bomb", "rev-parse", "HEAD^{tree}")
    for _ in range(9):
        entries = [("40000", str(number), tree) for number in range(10)]
        tree = repositories.make_tree("ann/bomb", *entries)
    repositories.commit_tree("ann/bomb", tree)
    with pytest.raises(GitError, match="too_many_files"):
        fetch(url)


@pytest.mark.parametrize(
    "files",
    [
        {"1.ipynb": os.urandom(3 << 20)},
        # 60 MB of zeros, 60 kB to transfer.
        {f"{number}.ipynb": b"\0" * (10 << 20) for number in range(6)},
    ],
    ids=["transferred", "unpacked"],
)
def test_a_repository_over_its_limit(repositories, fetch, files):
    url = repositories.make("ann/book", files)
    with pytest.raises(GitError, match="too_large"):
        fetch(url, max_repo_bytes=1 << 20)


def test_what_is_not_there(repositories, bad_server, fetch):
    empty = repositories.make("ann/empty")
    cases = {
        f"{repositories.url}/ann/none.git": "not_found",
        empty: "empty_repository",
        f"{bad_server.url}/404/ann/book": "not_found",
        f"{bad_server.url}/401/ann/book": "no_access",
        f"{bad_server.url}/403/ann/book": "no_access",
        f"{bad_server.url}/451/ann/book": "not_available",
        f"{bad_server.url}/429/ann/book": "rate_limited",
        f"{bad_server.url}/500/ann/book": "connection",
        f"{bad_server.url}/drop/ann/book": "connection",
        "http://127.0.0.1:9/ann/book": "connection",
        "http://no-such-host.invalid/ann/book": "connection",
        "git://127.0.0.1:9/ann/book": "connection",
    }
    found = {}
    for url in cases:
        with pytest.raises(GitError) as caught:
            fetch(url)
        found[url] = caught.value.reason
    assert found == cases


@pytest.mark.parametrize("behaviour", ["stall", "endless"])
def test_a_server_that_never_ends_is_left_in_time(bad_server, fetch, behaviour):
    url = f"{bad_server.url}/{behaviour}/ann/book"
    start_s = time.monotonic()
    with pytest.raises(GitError, match="timed_out: not done after 1 s"):
        fetch(url, timeout_s=1)
    assert time.monotonic() - start_s < 5
    assert num_git_processes(url) == 0


def test_a_stalled_fetch_ends_when_all_is_to_stop(bad_server, fetch):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    url = f"{bad_server.url}/stall/ann/book"
    with pytest.raises(GitError, match="stopped"):
        fetch(url, stop=stop)
    assert num_git_processes(url) == 0


def test_nothing_of_the_users_own_settings_counts(repositories, fetch, monkeypatch, tmp_path):
    """Nor is the user's name or home told to anyone."""
    settings = tmp_path / "home" / ".gitconfig"
    settings.parent.mkdir()
    settings.write_text(
        f'[url "file://{tmp_path}/elsewhere"]\n\tinsteadOf = {repositories.url}\n'
        f"[core]\n\tgitProxy = touch {tmp_path}/was-here\n[init]\n\ttemplateDir = {tmp_path}\n"
    )
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
    monkeypatch.setenv("HOME", str(settings.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    _, members = fetch(repositories.make("ann/book", {"1.ipynb": b"{}"}))
    assert members == {"ann/book/1.ipynb": b"{}"}
    assert not (tmp_path / "was-here").exists()


def test_a_full_disk_is_no_fault_of_the_repository():
    target = Target(url="https://x.org/a/b", host="x.org", owner="a", name="b")
    error = GitError("git_failed", "fatal: write error: No space left on device")
    with pytest.raises(OSError, match="No space left"):
        classify(error, target)


def test_what_git_says_is_stripped_of_passwords():
    target = Target(url="https://u:s3cret@x.org/a/b", host="x.org", owner="a", name="b")
    error = GitError("git_failed", "fatal: unable to access 'https://u:s3cret@x.org/a/b/': no")
    assert classify(error, target).detail == "fatal: unable to access 'https://x.org/a/b/': no"


def test_reasons_are_not_read_from_the_address(bad_server):
    target = Target(url="https://x.org/not found/404", host="x.org", owner="a", name="b")
    error = GitError("git_failed", "fatal: bad thing at 'https://x.org/not found/404'")
    assert classify(error, target).reason == "git_failed"


def test_without_git(fetch, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CorpusError, match="Install git"):
        fetch("git://127.0.0.1:9/ann/book")
