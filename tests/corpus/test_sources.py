import io
import os
import tarfile

import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus import sources
from jupyt5_corpus.compression import compress
from jupyt5_corpus.sources import Location, find_units, iter_files, locate


def names_of(path):
    return [raw.name for unit in find_units([path]) for raw in iter_files(unit)]


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


def test_archives_packed_or_plain_give_their_notebooks_in_order(tmp_path, make):
    data = make.tar({"a/b/2.ipynb": b"2", "a/b/README.md": b"r", "a/b/1.ipynb": b"1"})
    (tmp_path / "plain.tar").write_bytes(data)
    (tmp_path / "packed.tar.zst").write_bytes(compress(data))
    for name in ("plain.tar", "packed.tar.zst"):
        (unit,) = find_units([tmp_path / name])
        assert [(raw.name, raw.data) for raw in iter_files(unit)] == [
            ("a/b/2.ipynb", b"2"),
            ("a/b/1.ipynb", b"1"),
        ]


def test_a_folder_gives_archives_first_then_notebooks_by_name(tmp_path, make):
    (tmp_path / "b.tar").write_bytes(make.tar({"o/r/in-archive.ipynb": b"1"}))
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "sub" / ".git" / "hidden.ipynb").write_bytes(b"0")
    (tmp_path / "sub" / "z.ipynb").write_bytes(b"2")
    (tmp_path / "a.ipynb").write_bytes(b"3")
    assert names_of(tmp_path) == ["o/r/in-archive.ipynb", "a.ipynb", "sub/z.ipynb"]


def test_a_large_folder_is_cut_into_units(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_NOTEBOOKS_A_UNIT", 2)
    for number in range(5):
        (tmp_path / f"{number}.ipynb").write_bytes(b"{}")
    units = find_units([tmp_path])
    assert [len(unit.names) for unit in units] == [2, 2, 1]
    assert len({unit.fingerprint() for unit in units}) == 3


def test_what_is_no_readable_file_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_NOTEBOOK_BYTES", 10)
    (tmp_path / "folder.ipynb").mkdir()
    (tmp_path / "gone.ipynb").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.ipynb").symlink_to(tmp_path / "loop.ipynb")
    (tmp_path / "large.ipynb").write_bytes(b"x" * 11)
    os.mkfifo(tmp_path / "pipe.ipynb")
    (unit,) = find_units([tmp_path])
    found = {raw.name: raw.problem and raw.problem[0] for raw in iter_files(unit)}
    assert found == {
        "gone.ipynb": "unreadable_file",
        "loop.ipynb": "unreadable_file",
        "large.ipynb": "too_large",
        "pipe.ipynb": "not_a_file",
    }


def test_links_large_members_and_odd_names_in_archives(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_NOTEBOOK_BYTES", 10)
    path = tmp_path / "odd.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        link = tarfile.TarInfo("a/b/link.ipynb")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        archive.addfile(link)
        for name, size in (("a/b/large.ipynb", 11), ("../../a/b/up.ipynb", 2)):
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(b"x" * size))
        archive.addfile(tarfile.TarInfo("a/b/\udcff.ipynb"))
    (unit,) = find_units([path])
    found = {raw.name: (raw.problem or ("",))[0] for raw in iter_files(unit)}
    assert found == {
        "a/b/link.ipynb": "not_a_file",
        "a/b/large.ipynb": "too_large",
        "../../a/b/up.ipynb": "",
        "a/b/\ufffd.ipynb": "",
    }


@pytest.mark.parametrize("kept_bytes", [0, 10, 400, -5])
def test_a_truncated_packed_archive_is_one_error(tmp_path, make, kept_bytes):
    noise = {f"a/b/{n}.ipynb": os.urandom(2000) for n in range(40)}
    path = tmp_path / "cut.tar.zst"
    path.write_bytes(compress(make.tar(noise))[:kept_bytes])
    with pytest.raises(CorpusError, match=r"cut\.tar\.zst is damaged"):
        names_of(path)


@pytest.mark.parametrize("data", [b"not an archive at all" * 50, b""])
def test_a_file_that_is_no_archive_is_one_error(tmp_path, data):
    (tmp_path / "bad.tar").write_bytes(data)
    with pytest.raises(CorpusError, match=r"bad\.tar is damaged or no tar archive"):
        names_of(tmp_path / "bad.tar")


def test_a_tar_cut_inside_a_member_is_one_error(tmp_path, make):
    data = make.tar({"a/b/1.ipynb": b"x" * 5000, "a/b/2.ipynb": b"y" * 5000})
    (tmp_path / "cut.tar").write_bytes(data[:8000])
    with pytest.raises(CorpusError, match="unexpected end of data"):
        names_of(tmp_path / "cut.tar")


def test_missing_empty_and_foreign_sources(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("x")
    with pytest.raises(UsageError, match="does not exist"):
        find_units([tmp_path / "none"])
    with pytest.raises(CorpusError, match="holds no notebooks"):
        find_units([tmp_path / "empty"])
    with pytest.raises(UsageError, match="neither a folder nor a"):
        find_units([tmp_path / "page.html"])
