import os
import pickle
from typing import Any

import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.compression import compress
from jupyt5_corpus.sources import LicenceFile, Location, find_units, iter_files, locate, units
from jupyt5_corpus.sources import records as records_module


def files_of(path) -> list[Any]:
    return [file for unit in find_units([path]) for file in iter_files(unit)]


def names_of(path):
    return [file.name for file in files_of(path)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ann/book/a.ipynb", ("ann/book", None, "a.ipynb")),
        ("./ann/book/ sp/a b.ipynb", ("ann/book", None, " sp/a b.ipynb")),
        ("ann/book@0123456789ab/x/a.ipynb", ("ann/book", "0123456789ab", "x/a.ipynb")),
        ("ann/book@home/a.ipynb", ("ann/book@home", None, "a.ipynb")),
        ("a.ipynb", ("mine", None, "a.ipynb")),
        ("week/a.ipynb", ("mine", None, "week/a.ipynb")),
    ],
)
def test_locate(name, expected):
    repo, old_commit, path = expected
    assert locate(name, "mine") == Location(repo=repo, old_commit=old_commit, path=path)


def test_a_folder_gives_archives_first_then_notebooks_by_name(tmp_path, make):
    (tmp_path / "b.tar").write_bytes(make.tar({"o/r/in-archive.ipynb": b"1"}))
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "sub" / ".git" / "hidden.ipynb").write_bytes(b"0")
    (tmp_path / "sub" / "z.ipynb").write_bytes(b"2")
    (tmp_path / "a.ipynb").write_bytes(b"3")
    assert names_of(tmp_path) == ["o/r/in-archive.ipynb", "a.ipynb", "sub/z.ipynb"]


def test_a_large_folder_is_cut_into_units(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "_NOTEBOOKS_A_UNIT", 2)
    for number in range(5):
        (tmp_path / f"{number}.ipynb").write_bytes(b"{}")
    found = find_units([tmp_path])
    assert [len(unit.names) for unit in found] == [2, 2, 1]
    assert len({unit.fingerprint() for unit in found}) == 3
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301


def test_a_unit_names_folders_as_long_as_they_are_small(tmp_path, monkeypatch):
    """Names of a million notebooks would not fit into the main process's memory."""
    monkeypatch.setattr(units, "_NOTEBOOKS_A_UNIT", 4)
    for name in ("ann/one", "ann/two", "ben/big"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for number in range(6 if name == "ben/big" else 2):
            (folder / f"{number}.ipynb").write_bytes(b"{}")
    (tmp_path / "no-notebooks").mkdir()
    found = [unit.names for unit in find_units([tmp_path])]
    big = [f"ben/big/{number}.ipynb" for number in range(6)]
    assert found == [("ann",), tuple(big[:4]), tuple(big[4:])]
    assert len(names_of(tmp_path)) == 10


def test_small_archives_share_a_unit(tmp_path, make, monkeypatch):
    monkeypatch.setattr(units, "_ARCHIVE_BYTES_A_UNIT", 25_000)
    for number in range(3):
        data = make.tar({f"a/r{number}/1.ipynb": b"{}"})
        (tmp_path / f"{number}.tar").write_bytes(data)
    first, second = find_units([tmp_path])
    assert (first.names, first.num_bytes) == (("0.tar", "1.tar"), 20_480)
    assert (second.names, second.path.name) == ((), "2.tar")
    found = [(file.archive, file.location.repo) for file in files_of(tmp_path)]
    assert found == [("0.tar", "a/r0"), ("1.tar", "a/r1"), ("2.tar", "a/r2")]


def test_a_fingerprint_changes_with_names_and_contents_only(tmp_path):
    def fingerprint():
        (unit,) = find_units([tmp_path])
        return unit.fingerprint()

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.ipynb").write_bytes(b"one")
    first = fingerprint()
    os.utime(tmp_path / "a" / "1.ipynb", (1, 1))
    (tmp_path / "a" / "data.csv").write_bytes(b"not read")
    assert fingerprint() == first
    (tmp_path / "a" / "1.ipynb").write_bytes(b"two")
    second = fingerprint()
    (tmp_path / "a" / "1.ipynb").rename(tmp_path / "a" / "2.ipynb")
    assert len({first, second, fingerprint()}) == 3


def test_what_is_no_readable_file_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(records_module, "MAX_NOTEBOOK_BYTES", 10)
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "secret.ipynb").write_bytes(b"secret")
    (source / "folder.ipynb").mkdir()
    (source / "here.ipynb").write_bytes(b"x")
    (source / "inside.ipynb").symlink_to("here.ipynb")
    (source / "outside.ipynb").symlink_to(tmp_path / "secret.ipynb")
    (source / "outer").symlink_to(tmp_path, target_is_directory=True)
    (source / "outer.ipynb").symlink_to(tmp_path, target_is_directory=True)
    (source / "LICENSE").symlink_to("/etc/hostname")
    (source / "gone.ipynb").symlink_to(tmp_path / "nowhere")
    (source / "loop.ipynb").symlink_to(source / "loop.ipynb")
    (source / "large.ipynb").write_bytes(b"x" * 11)
    (source / "lfs.ipynb").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1")
    os.mkfifo(source / "pipe.ipynb")
    monkeypatch.setattr(records_module, "MAX_NOTEBOOK_BYTES", 60)
    (source / "large.ipynb").write_bytes(b"x" * 61)
    found = {file.name: file.problem and file.problem[0] for file in files_of(source)}
    assert found == {
        "gone.ipynb": "unreadable_file",
        "here.ipynb": None,
        "inside.ipynb": None,
        "large.ipynb": "too_large",
        "lfs.ipynb": "lfs_pointer",
        "loop.ipynb": "unreadable_file",
        "outside.ipynb": "outside_link",
        "pipe.ipynb": "not_a_file",
    }


def test_loops_of_folders_and_endless_depth_come_to_an_end(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.ipynb").write_bytes(b"{}")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    deep = tmp_path.joinpath(*["d"] * 130)
    deep.mkdir(parents=True)
    (deep / "2.ipynb").write_bytes(b"{}")
    first, second = files_of(tmp_path)
    assert (first.name, first.problem) == ("a/1.ipynb", None)
    assert second.problem == ("unreadable_folder", "over 100 folders within each other")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_folder_and_file_have_a_reason(tmp_path):
    (tmp_path / "shut").mkdir(mode=0)
    (tmp_path / "shut.ipynb").touch(mode=0)
    reasons = [file.problem and file.problem[0] for file in files_of(tmp_path)]
    assert reasons == ["unreadable_folder", "unreadable_file"]


def test_a_folder_that_cannot_be_listed_has_a_reason(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.ipynb").write_bytes(b"{}")
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    first, second = files_of(tmp_path)
    assert (first.name, second.name) == ("a/1.ipynb", "shut")
    assert second.problem == ("unreadable_folder", "Permission denied")


def test_names_that_are_not_utf8(tmp_path):
    (tmp_path / "a").mkdir()
    with open(os.fsencode(tmp_path / "a") + b"/\xff\xfe.ipynb", "wb") as stream:
        stream.write(b"{}")
    (unit,) = find_units([tmp_path])
    (file,) = files_of(tmp_path)
    assert (file.name, file.data) == ("a/\ufffd\ufffd.ipynb", b"{}")
    assert len(unit.fingerprint()) == 64


def test_licence_files_at_the_root_of_repositories(tmp_path, make):
    members = {
        "ann/book/LICENSE": b"MIT \xff",
        "ann/book/docs/LICENSE": b"not at the root",
        "ann/book/COPYING.LESSER": b"LGPL",
        "ann/book/README.md": b"readme",
        "ann/book/license_checker.py": b"code",
        "ann/book/license.py": b"code",
        "ann/book@0123456789ab/LICENSE": b"of an old version",
        "ann/book/1.ipynb": b"{}",
    }
    (tmp_path / "00.tar.zst").write_bytes(compress(make.tar(members)))
    folder = tmp_path / "loose"
    for name, data in members.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for source in (tmp_path / "00.tar.zst", folder):
        found = [file for file in files_of(source) if isinstance(file, LicenceFile)]
        assert sorted(found, key=lambda file: file.name) == [
            LicenceFile(repo="ann/book", name="COPYING.LESSER", text="LGPL"),
            LicenceFile(repo="ann/book", name="LICENSE", text="MIT \ufffd"),
        ]


def test_missing_empty_and_foreign_sources(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("x")
    with pytest.raises(UsageError, match="does not exist"):
        find_units([tmp_path / "none"])
    with pytest.raises(CorpusError, match="holds no notebooks"):
        find_units([tmp_path / "empty"])
    with pytest.raises(UsageError, match="neither a folder nor a"):
        find_units([tmp_path / "page.html"])
