"""Clones and bare repositories, also those that want to run something or never end."""

import os
import subprocess
from typing import Any

import pytest

from jupyt5_corpus.metadata import Repository
from jupyt5_corpus.sources import LicenceFile, find_units, git_objects, iter_files
from jupyt5_corpus.sources import records as records_module

GIT = [
    "git",
    "-c",
    "user.name=T",
    "-c",
    "user.email=t@example.org",
    "-c",
    "init.defaultBranch=main",
]


def git(folder, *arguments, stdin=b""):
    done = subprocess.run(
        [*GIT, "-C", folder, *arguments], input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def files_of(path) -> list[Any]:
    return [file for unit in find_units([path]) for file in iter_files(unit)]


def names_of(path):
    files = files_of(path)
    return [
        (file.name, "" if isinstance(file, LicenceFile) else (file.problem or ("",))[0])
        for file in files
    ]


@pytest.fixture
def work(tmp_path):
    """A repository with two notebooks, a licence and something else."""
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "1.ipynb").write_bytes(b"{}")
    (folder / "sub" / "2.ipynb").write_bytes(b'{"a": 1}')
    (folder / "LICENSE").write_bytes(b"MIT")
    (folder / "sub" / "LICENSE").write_bytes(b"not at the root")
    (folder / "data.csv").write_bytes(b"1")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def make_bare(work, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    git(work.parent, "clone", "-q", "--bare", "--no-hardlinks", str(work), str(path))
    git(path, "config", "--unset", "remote.origin.url")
    return path


def test_a_bare_repository_gives_its_newest_commit(tmp_path, work):
    bare = make_bare(work, tmp_path / "bares" / "ann" / "book.git")
    commit = git(work, "rev-parse", "HEAD")
    licence = LicenceFile(repo="ann/book", name="LICENSE", text="MIT")
    first, found, second = files_of(tmp_path / "bares")
    assert found == licence
    assert [(file.name, file.data) for file in (first, second)] == [
        ("ann/book.git/1.ipynb", b"{}"),
        ("ann/book.git/sub/2.ipynb", b'{"a": 1}'),
    ]
    assert (second.location.repo, second.location.path) == ("ann/book", "sub/2.ipynb")
    assert first.repository == Repository(commit=commit)
    alone = files_of(bare)
    assert [file.name for file in alone] == ["1.ipynb", "LICENSE", "sub/2.ipynb"]
    assert alone[0].location.repo == "book"


@pytest.mark.parametrize(
    "url",
    [
        "https://user:token@example.org/ben/notes.git",
        "git@example.org:ben/notes.git",
        "https://example.org/ben/notes/",
    ],
)
def test_clones_are_called_like_what_they_were_cloned_from(tmp_path, work, url):
    bare = make_bare(work, tmp_path / "all" / "somewhere.git")
    git(bare, "config", "remote.origin.url", url)
    git(work, "remote", "add", "origin", url)
    work.rename(tmp_path / "all" / "tree")
    files = files_of(tmp_path / "all")
    assert len(files) == 6
    assert {getattr(file, "repo", "") or file.location.repo for file in files} == {"ben/notes"}
    commit = git(tmp_path / "all" / "tree", "rev-parse", "HEAD")
    found = {file.repository for file in files if not isinstance(file, LicenceFile)}
    assert found == {Repository(commit=commit)}
    paths = sorted(file.location.path for file in files if not isinstance(file, LicenceFile))
    assert paths == ["1.ipynb", "1.ipynb", "sub/2.ipynb", "sub/2.ipynb"]


def test_a_git_file_that_points_elsewhere_is_not_followed(tmp_path, work):
    (tmp_path / "all" / "ann" / "book").mkdir(parents=True)
    (tmp_path / "all" / "ann" / "book" / "1.ipynb").write_bytes(b"{}")
    (tmp_path / "all" / "ann" / "book" / ".git").write_text(f"gitdir: {work / '.git'}\n")
    (file,) = files_of(tmp_path / "all")
    assert (file.location.repo, file.repository) == ("ann/book", None)


def test_odd_entries_of_a_tree_have_a_reason(tmp_path, work, monkeypatch):
    monkeypatch.setattr(records_module, "MAX_NOTEBOOK_BYTES", 60)
    (work / "link.ipynb").symlink_to("/etc/passwd")
    (work / "large.ipynb").write_bytes(b"x" * 61)
    (work / "lfs.ipynb").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid")
    with open(os.fsencode(work) + b"/\xff.ipynb", "wb") as stream:
        stream.write(b"{}")
    git(work, "add", ".")
    commit = git(work, "rev-parse", "HEAD")
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{commit},module.ipynb")
    git(work, "commit", "-qm", "odd")
    bare = make_bare(work, tmp_path / "bare.git")
    assert dict(names_of(bare)) == {
        "1.ipynb": "",
        "LICENSE": "",
        "large.ipynb": "too_large",
        "lfs.ipynb": "lfs_pointer",
        "link.ipynb": "not_a_file",
        "module.ipynb": "not_a_file",
        "sub/2.ipynb": "",
        "\ufffd.ipynb": "",
    }


def make_tree(bare, *entries):
    """Store a tree of raw entries ``(mode, name, oid)``, however forbidden the names are."""
    data = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(oid)) for mode, name, oid in entries)
    return git(bare, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=data)


def commit_tree(bare, tree):
    commit = git(bare, "commit-tree", "-m", "x", tree)
    git(bare, "update-ref", "HEAD", commit)


def test_names_that_lead_out_of_the_repository(tmp_path, work):
    bare = make_bare(work, tmp_path / "bare.git")
    oid = git(bare, "rev-parse", "HEAD:1.ipynb")
    inner = make_tree(bare, (b"100644", b"up.ipynb", oid))
    commit_tree(bare, make_tree(bare, (b"40000", b"..", inner), (b"40000", b"here", inner)))
    assert names_of(bare) == [("../up.ipynb", "unsafe_path"), ("here/up.ipynb", "")]


def test_a_tree_of_billions_of_files_made_of_few_objects(tmp_path, work, monkeypatch):
    monkeypatch.setattr(git_objects, "MAX_ENTRIES", 10_000)
    bare = make_bare(work, tmp_path / "bare.git")
    oid = git(bare, "rev-parse", "HEAD:1.ipynb")
    tree = make_tree(bare, *((b"100644", b"%d.ipynb" % n, oid) for n in range(10)))
    for _ in range(9):
        tree = make_tree(bare, *((b"40000", b"%d" % n, tree) for n in range(10)))
    commit_tree(bare, tree)
    assert names_of(bare) == [("bare", "too_many_files")]


def test_a_repository_cannot_run_anything(tmp_path, work):
    """Its settings name programs for every occasion, and where to fetch missing files."""
    bare = make_bare(work, tmp_path / "all" / "bare.git")
    touch = f"touch {tmp_path / 'was-here'}"
    settings = {
        "core.fsmonitor": touch,
        "core.sshCommand": touch,
        "core.pager": touch,
        "core.editor": touch,
        "core.hooksPath": str(tmp_path / "hooks"),
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{touch}",
        "remote.origin.uploadpack": touch,
        "protocol.ext.allow": "always",
        "credential.helper": f"!{touch}",
        "alias.ls-tree": f"!{touch}",
        "alias.cat-file": f"!{touch}",
    }
    for name, value in settings.items():
        git(bare, "config", name, value)
    oid = git(bare, "rev-parse", "HEAD:1.ipynb")
    (bare / "objects" / oid[:2] / oid[2:]).unlink()
    found = names_of(tmp_path / "all")
    assert found == [
        ("bare.git/1.ipynb", "missing_blob"),
        ("LICENSE", ""),
        ("bare.git/sub/2.ipynb", ""),
    ]
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("damage", ["head", "commit", "tree", "garbage"])
def test_an_unreadable_repository_has_a_reason_and_the_next_is_read(tmp_path, work, damage):
    bare = make_bare(work, tmp_path / "all" / "a" / "bad.git")
    make_bare(work, tmp_path / "all" / "b" / "good.git")
    if damage == "head":
        (bare / "HEAD").write_text("ref: refs/heads/nowhere\n")
    else:
        name = "HEAD" if damage == "commit" else "HEAD^{tree}"
        oid = git(bare, "rev-parse", name)
        path = bare / "objects" / oid[:2] / oid[2:]
        path.chmod(0o644)
        path.write_bytes(b"garbage") if damage == "garbage" else path.unlink()
    bad, *good = files_of(tmp_path / "all")
    assert (bad.location.repo, bad.problem[0]) == ("a/bad", "unreadable_clone")
    assert str(tmp_path) not in bad.problem[1]
    assert len(good) == 3


def test_a_damaged_blob_has_a_reason(tmp_path, work):
    bare = make_bare(work, tmp_path / "bare.git")
    oid = git(bare, "rev-parse", "HEAD:sub/2.ipynb")
    path = bare / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")
    assert names_of(bare) == [
        ("1.ipynb", ""),
        ("LICENSE", ""),
        ("sub/2.ipynb", "missing_blob"),
    ]


def test_fingerprints_of_repositories(tmp_path, work):
    make_bare(work, tmp_path / "all" / "bare.git")
    (unit,) = find_units([tmp_path / "all"])
    first = unit.fingerprint()
    assert first == unit.fingerprint()
    (work / "1.ipynb").write_bytes(b"other")
    git(work, "commit", "-qam", "second")
    git(tmp_path / "all" / "bare.git", "fetch", "-q", str(work), "+main:main")
    assert unit.fingerprint() != first
