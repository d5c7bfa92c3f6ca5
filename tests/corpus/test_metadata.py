import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import compress
from jupyt5_corpus.metadata import Repository, read_blobs, read_repositories


def test_both_indexes_are_optional(tmp_path):
    assert read_repositories(tmp_path) == {}
    assert read_blobs(tmp_path, "00.tar.zst") == {}


def test_repositories_by_name_in_lower_case(tmp_path, make):
    lines = make.json_lines(
        {
            "owner": "Ann",
            "repo": "Book",
            "licence": "MIT",
            "commit": "1",
            "retrieved": "2026-01-02",
        },
        {"owner": "b", "repo": "c", "licence": None, "fork_of": "Ann/Book"},
    )
    (tmp_path / "repos.jsonl").write_bytes(lines)
    assert read_repositories(tmp_path) == {
        "ann/book": Repository(
            licence="MIT", licence_source="repos.jsonl", commit="1", retrieved="2026-01-02"
        ),
        "b/c": Repository(fork_of="Ann/Book"),
    }


def test_blobs_of_one_shard_only(tmp_path, make):
    lines = make.json_lines(
        {"path": "a/b/1.ipynb", "shard": "00.tar.zst", "blob": "f1"},
        {"path": "a/b/2.ipynb", "shard": "01.tar.zst", "blob": "f2"},
    )
    (tmp_path / "files.jsonl.zst").write_bytes(compress(lines))
    assert read_blobs(tmp_path, "01.tar.zst") == {"a/b/2.ipynb": "f2"}


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"owner": "a"}', b"\xff"])
def test_a_bad_line_is_named(tmp_path, line):
    (tmp_path / "repos.jsonl").write_bytes(b'{"owner": "a", "repo": "b"}\n' + line + b"\n")
    with pytest.raises(CorpusError, match=r"Line 2 of .*repos\.jsonl cannot be used"):
        read_repositories(tmp_path)
