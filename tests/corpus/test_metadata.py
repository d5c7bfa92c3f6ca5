import os
import tracemalloc

import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import compress
from jupyt5_corpus.metadata import (
    Repository,
    read_blobs,
    read_repositories,
    repository_of,
)


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


def test_the_last_line_of_a_repository_counts_and_few_bytes_are_kept(tmp_path, make):
    count = 20_000
    lines = make.json_lines(
        *({"owner": f"o{n}", "repo": "r", "commit": str(n)} for n in range(count)),
        {"owner": "O7", "repo": "R", "commit": "new"},
    )
    (tmp_path / "repos.jsonl").write_bytes(lines)
    tracemalloc.start()
    listed = read_repositories(tmp_path)
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 40 * count
    assert listed["o7/r"] == Repository(commit="new")
    assert listed["o19999/r"].commit == "19999"
    assert "o20000/r" not in listed
    assert len(listed) == count
    assert read_repositories(tmp_path) is listed


def test_a_changed_list_is_read_again(tmp_path, make):
    path = tmp_path / "repos.jsonl"
    path.write_bytes(make.json_lines({"owner": "a", "repo": "b", "commit": "1"}))
    os.utime(path, ns=(1, 1))
    assert read_repositories(tmp_path)["a/b"].commit == "1"
    path.write_bytes(make.json_lines({"owner": "a", "repo": "b", "commit": "2"}))
    assert read_repositories(tmp_path)["a/b"].commit == "2"


def test_what_lists_say_goes_before_what_sources_say():
    listed = {"a/b": Repository(licence="MIT", licence_source="repos.jsonl", retrieved="2026")}
    found = Repository(licence="BSD", licence_source="x.parquet", commit="1")
    assert repository_of("A/B", found, listed) == Repository(
        licence="MIT", licence_source="repos.jsonl", commit="1", retrieved="2026"
    )
    assert repository_of("c/d", found, listed) == found
    assert repository_of("a/b", None, listed) == listed["a/b"]
    assert repository_of("c/d", None, listed) == Repository()
    silent = {"a/b": Repository(commit="2")}
    assert repository_of("a/b", found, silent) == Repository(
        licence="BSD", licence_source="x.parquet", commit="2"
    )


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


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"commit": 5}, "commit is 5, not text"),
        ({"fork_of": ["a"]}, r'fork_of is \["a"\], not text'),
        ({"licence": {"spdx": "x" * 90}}, r'licence is \{"spdx":"x{10,60}, not text'),
        ({"owner": 7}, "owner is 7, not text"),
        ({"owner": ""}, "owner or repo is missing"),
    ],
)
def test_a_value_that_is_no_text_is_named(tmp_path, make, entry, reason):
    lines = make.json_lines({"owner": "a", "repo": "b"}, {"owner": "a", "repo": "c"} | entry)
    (tmp_path / "repos.jsonl").write_bytes(lines)
    with pytest.raises(CorpusError, match=rf"Line 2 of .*cannot be used: {reason}"):
        read_repositories(tmp_path)


@pytest.mark.parametrize("name", ["path", "shard", "blob"])
def test_a_value_of_the_blobs_that_is_no_text_is_named(tmp_path, make, name):
    entry = {"path": "a/b/1.ipynb", "shard": "00.tar.zst", "blob": "f1", name: 7}
    (tmp_path / "files.jsonl.zst").write_bytes(compress(make.json_lines(entry)))
    with pytest.raises(CorpusError, match=f"Line 1 of .*cannot be used: {name} is 7, not text"):
        read_blobs(tmp_path, "00.tar.zst")


def test_a_repository_has_one_licence(tmp_path, make):
    lines = [{"owner": "a", "repo": f"r{n}", "licence": "MIT"} for n in range(9)]
    again = {"owner": "A", "repo": "R3", "licence": "mit", "commit": "1"}
    silent = {"owner": "A", "repo": "R3", "commit": "2"}
    path = tmp_path / "repos.jsonl"
    path.write_bytes(make.json_lines(*lines, again, silent))
    os.utime(path, ns=(1, 1))
    assert read_repositories(tmp_path)["a/r3"] == Repository(commit="2")
    path.write_bytes(b"\n" + make.json_lines(*lines, silent, again | {"licence": "GPL-3.0-only"}))
    with pytest.raises(
        CorpusError, match=r"Line 12 .*a/r3 has .* GPL-3.0-only here and MIT in line 5"
    ):
        read_repositories(tmp_path)


def test_the_output_of_list_is_told_from_metadata(tmp_path, make):
    entry = {"url": "https://x.org/a/b.git", "created": "2020-01-01T00:00:00Z", "fork_of": None}
    (tmp_path / "repos.jsonl").write_bytes(make.json_lines(entry))
    with pytest.raises(CorpusError, match="looks like the output of `jupyt5-corpus list`"):
        read_repositories(tmp_path)
