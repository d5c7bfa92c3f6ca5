"""Archives: whole, damaged, and made to do harm."""

import io
import os
import resource
import subprocess
import sys
import tarfile
from typing import Any

import pytest

from jupyt5_corpus import compression
from jupyt5_corpus.compression import compress, open_to_pack
from jupyt5_corpus.sources import LicenceFile, find_units, iter_files
from jupyt5_corpus.sources import records as records_module


def files_of(path) -> list[Any]:
    (unit,) = find_units([path])
    return list(iter_files(unit))


def reasons_of(path):
    return [(file.name, (file.problem or ("",))[0]) for file in files_of(path)]


def test_archives_packed_or_plain_give_their_notebooks_in_order(tmp_path, make):
    data = make.tar({"a/b/2.ipynb": b"2", "a/b/README.md": b"r", "a/b/1.ipynb": b"1"})
    (tmp_path / "plain.tar").write_bytes(data)
    (tmp_path / "packed.tar.zst").write_bytes(compress(data))
    for name in ("plain.tar", "packed.tar.zst"):
        found = [(file.name, file.data) for file in files_of(tmp_path / name)]
        assert found == [("a/b/2.ipynb", b"2"), ("a/b/1.ipynb", b"1")]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_links_large_members_and_odd_names(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(records_module, "MAX_NOTEBOOK_BYTES", 10)
    path = tmp_path / "odd.tar"
    with tarfile.open(path, "w", format=kind, errors="surrogateescape") as archive:
        link = tarfile.TarInfo("a/b/link.ipynb")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        archive.addfile(link)
        names = {
            "a/b/large.ipynb": 11,
            "../../a/b/up.ipynb": 2,
            "/etc/a/b.ipynb": 2,
            f"a/b/{'long' * 100}.ipynb": 2,
            "a/b/\udcff.ipynb": 0,
        }
        for name, size in names.items():
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(b"x" * size))
    assert dict(reasons_of(path)) == {
        "a/b/link.ipynb": "not_a_file",
        "a/b/large.ipynb": "too_large",
        "../../a/b/up.ipynb": "unsafe_path",
        "/etc/a/b.ipynb": "unsafe_path",
        f"a/b/{'long' * 100}.ipynb": "",
        "a/b/\ufffd.ipynb": "",
    }


@pytest.mark.parametrize("kept_bytes", [0, 10, 400, -5])
def test_a_truncated_packed_archive_has_a_reason(tmp_path, make, kept_bytes):
    noise = {f"a/b/{n}.ipynb": os.urandom(2000) for n in range(40)}
    path = tmp_path / "cut.tar.zst"
    path.write_bytes(compress(make.tar(noise))[:kept_bytes])
    *before, last = files_of(path)
    assert (last.name, last.data, last.location.repo) == ("cut.tar.zst", None, "cut")
    assert last.problem[0] == "damaged_archive"
    assert str(tmp_path) not in last.problem[1]
    assert [(file.name, file.data) for file in before] == list(noise.items())[: len(before)]


@pytest.mark.parametrize("data", [b"not an archive at all" * 50, b"", b"\0" * 100])
def test_a_file_that_is_no_archive_has_a_reason(tmp_path, data):
    (tmp_path / "bad.tar").write_bytes(data)
    assert reasons_of(tmp_path / "bad.tar") == [("bad.tar", "damaged_archive")]


@pytest.mark.parametrize("pack", [bytes, compress])
def test_archives_that_follow_each_other_are_all_read(tmp_path, make, pack):
    """As ``cat a.tar b.tar > c.tar`` makes them."""
    members = {f"a/b/{n}.ipynb": os.urandom(700) for n in range(3)}
    data = b"".join(pack(make.tar({name: text})) for name, text in members.items())
    path = tmp_path / ("c.tar" if pack is bytes else "c.tar.zst")
    path.write_bytes(data)
    assert [(file.name, file.data) for file in files_of(path)] == list(members.items())


def test_no_archive_after_the_end_of_one_has_a_reason(tmp_path, make):
    (tmp_path / "a.tar").write_bytes(make.tar({"a/b/1.ipynb": b"1"}) + b"junk" * 300)
    first, last = files_of(tmp_path / "a.tar")
    assert (first.name, first.data) == ("a/b/1.ipynb", b"1")
    message = "after its end, from byte 10240, follow data that are no archive"
    assert last.problem == ("damaged_archive", message)


def test_junk_after_a_frame_costs_nothing_that_was_packed(tmp_path, make):
    noise = {f"a/b/{n}.ipynb": os.urandom(5000) for n in range(40)}
    (tmp_path / "two.tar.zst").write_bytes(compress(make.tar(noise)) + b"trailing junk")
    *before, last = files_of(tmp_path / "two.tar.zst")
    assert [(file.name, file.data) for file in before] == list(noise.items())
    assert (last.name, last.problem[0]) == ("two.tar.zst", "damaged_archive")


def test_zeros_alone_have_a_reason_but_an_empty_archive_needs_none(tmp_path, make, monkeypatch):
    (tmp_path / "empty.tar").write_bytes(make.tar({}))
    assert files_of(tmp_path / "empty.tar") == []
    (tmp_path / "zeros.tar").write_bytes(bytes(20_480))
    (file,) = files_of(tmp_path / "zeros.tar")
    assert file.problem == ("damaged_archive", "it holds nothing but 20480 bytes of zeros")
    monkeypatch.setattr(compression, "_ALWAYS_ALLOWED_BYTES", 1 << 20)
    (tmp_path / "bomb.tar.zst").write_bytes(compress(bytes(100 << 20)))
    assert reasons_of(tmp_path / "bomb.tar.zst") == [("bomb.tar.zst", "decompression_bomb")]


# Inside a member, between two members, inside a header, before the end mark.
@pytest.mark.parametrize("num_bytes", [8_000, 5_632, 5_700, 11_264])
def test_what_comes_before_the_cut_counts(tmp_path, make, num_bytes):
    members = {"a/b/1.ipynb": b"x" * 5000, "a/b/2.ipynb": b"y" * 5000}
    (tmp_path / "cut.tar").write_bytes(make.tar(members)[:num_bytes])
    names = [name for name, reason in reasons_of(tmp_path / "cut.tar") if not reason]
    assert names == list(members)[: 2 if num_bytes == 11_264 else 1]
    assert reasons_of(tmp_path / "cut.tar")[-1] == ("cut.tar", "damaged_archive")


def test_an_archive_without_rights_to_read_has_a_reason(tmp_path, make, monkeypatch):
    (tmp_path / "a.tar").write_bytes(make.tar({"a/b/1.ipynb": b"x"}))
    (unit,) = find_units([tmp_path / "a.tar"])

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(unit.path), "open", refuse)
    (file,) = files_of(tmp_path / "a.tar")
    assert file.problem == ("unreadable_archive", "Permission denied")
    assert len(unit.fingerprint()) == 64


def test_a_decompression_bomb_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "_ALWAYS_ALLOWED_BYTES", 1 << 20)
    path = tmp_path / "bomb.tar.zst"
    info = tarfile.TarInfo("a/b/huge.ipynb")
    info.size = 100 << 20
    with open_to_pack(path) as stream:
        stream.write(info.tobuf())
        for _ in range(100):
            stream.write(b"\0" * (1 << 20))
    assert path.stat().st_size < 100_000
    assert reasons_of(path)[-1] == ("bomb.tar.zst", "decompression_bomb")


def pax_header(size):
    info = tarfile.TarInfo("PaxHeader/x")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf(tarfile.USTAR_FORMAT)


HEADERS = {
    # A header of 7 GiB that tarfile would read into memory.
    "huge": pax_header(7 << 30) + b"\0" * 100_000,
    # Headers upon headers: tarfile calls itself for each.
    "nested": (pax_header(0)) * 3_000,
    "negative": pax_header(512)[:124] + b"\xff" * 12 + pax_header(512)[136:],
    "words": pax_header(512) + b"12 size=abc\n".ljust(512, b"\0") + b"\0" * 1024,
}


@pytest.mark.parametrize("kind", HEADERS)
def test_hostile_headers_end_in_a_reason(tmp_path, make, kind):
    good = make.tar({"a/b/1.ipynb": b"x"})[:1024]
    (tmp_path / "bad.tar").write_bytes(good + HEADERS[kind])
    found = reasons_of(tmp_path / "bad.tar")
    assert found[0] == ("a/b/1.ipynb", "")
    assert found[-1] == ("bad.tar", "damaged_archive")


def test_a_stated_size_is_never_taken_on_trust(tmp_path, make):
    """In a process that may not use the memory the header asks for."""
    data = make.tar({"a/b/1.ipynb": b"x"})[:1024] + HEADERS["huge"]
    (tmp_path / "bad.tar").write_bytes(data)
    script = (
        "import sys; from pathlib import Path; from jupyt5_corpus.sources import *;"
        "(unit,) = find_units([Path(sys.argv[1])]); print(len(list(iter_files(unit))))"
    )
    limit = 4 << 30
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "bad.tar")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.stdout.strip(), done.stderr) == ("2", "")


def test_a_large_licence_is_passed_over(tmp_path, make, monkeypatch):
    monkeypatch.setattr(records_module, "MAX_LICENCE_BYTES", 10)
    members = {"a/b/LICENSE": b"x" * 11, "a/b/COPYING": b"short", "a/b/1.ipynb": b"{}"}
    (tmp_path / "a.tar").write_bytes(make.tar(members))
    licence, notebook = files_of(tmp_path / "a.tar")
    assert licence == LicenceFile(repo="a/b", name="COPYING", text="short")
    assert notebook.name == "a/b/1.ipynb"
