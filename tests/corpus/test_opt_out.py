import json

import pyarrow.parquet as pq
import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5.files import sha256_file
from jupyt5_corpus import opt_out_apply
from jupyt5_corpus.check import check_corpus
from jupyt5_corpus.opt_out import judge, load
from jupyt5_corpus.opt_out_apply import apply_opt_out
from jupyt5_corpus.row import Removal
from jupyt5_corpus.stats import read_stats


@pytest.fixture
def finished(shards, build, tmp_path, make):
    """Shard 0: three of ann/book, of which ben/book has a copy; shard 1: cat/notes, dan/empty.
    Shard 2: a fork of cat/notes with a notebook of its own."""
    fork = {
        "eve/notes/new.ipynb": make.notebook("print('a note that only the fork has, and no one')")
    }
    (shards / "02.tar").write_bytes(make.tar(fork))
    with (shards / "repos.jsonl").open("ab") as repos:
        repos.write(make.json_lines({"owner": "eve", "repo": "notes", "fork_of": "cat/notes"}))
    build(*sorted(shards.glob("*.tar*")))
    return tmp_path / "corpus"


@pytest.fixture
def apply(finished, tmp_path, make):
    """Apply a list to the corpus; return the result and the folder made."""

    def run(*entries, folder=finished, name="less", copies=False):
        list_path = tmp_path / "list.jsonl"
        list_path.write_bytes(make.json_lines(*entries))
        out = tmp_path / name
        return apply_opt_out(folder, out, load(list_path), with_copies=copies), out

    return run


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_bytes())


def places(rows):
    return [f"{row['repo']}/{row['path']}" for row in rows]


def test_a_repository_goes_and_all_counts_follow(finished, apply, corpus):
    before, rows = corpus.files(finished), corpus.rows(finished)
    result, out = apply({"repo": "Ann/Book", "note": "request 7"})
    gone = [row for row in rows if row["repo"] == "ann/book"]
    assert gone
    assert result.removed == {"opted_out_repo": len(gone)}
    assert (result.num_rewritten, result.unmatched) == (1, [])
    assert check_corpus(out) == ()
    assert corpus.rows(out) == [row for row in rows if row["repo"] != "ann/book"]
    old, new = manifest_of(finished), manifest_of(out)
    assert new["notebooks_in"] == old["notebooks_in"]
    assert new["notebooks_kept"] == old["notebooks_kept"] - len(gone)
    assert new["removed"]["opted_out_repo"] == len(gone)
    assert new["steps"][-1]["step"] == "opt_out"
    assert new["steps"][-1]["notebooks_out"] == new["notebooks_kept"]
    for total, column in (("num_code_cells", "num_code"), ("num_markdown_cells", "num_markdown")):
        assert new["totals"][total] == old["totals"][total] - sum(row[column] for row in gone)
    assert new["split"]["num_repositories"] == old["split"]["num_repositories"] - 1
    assert new["split"]["num_families"] == old["split"]["num_families"] - 1
    sides = ("num_train_notebooks", "num_validation_notebooks")
    assert sum(new["split"][side] for side in sides) == new["notebooks_kept"]
    assert f"{new['notebooks_kept']} notebooks of" in (out / "README.md").read_text()
    assert corpus.files(finished) == before


def test_removals_are_listed_with_place_and_note(apply, corpus, finished):
    _, out = apply({"owner": "cat", "note": "request 8"})
    listed = [each for each in corpus.removals(out) if each["step"] == "opt_out"]
    (row,) = [row for row in corpus.rows(finished) if row["repo"] == "cat/notes"]
    assert [each["detail"] for each in listed] == ["list.jsonl:1: request 8"]
    assert [each["reason"] for each in listed] == ["opted_out_owner"]
    assert all(listed[0][name] == row[name] for name in ("path", "content_hash", "blob_sha"))
    assert listed[0]["is_substantial"]


def test_a_content_goes_wherever_it_is(apply, corpus, finished):
    row = corpus.rows(finished)[0]
    result, out = apply({"content_sha256": row["content_hash"].upper()})
    assert result.removed == {"opted_out_content": 1}
    assert places(corpus.rows(out)) == places(corpus.rows(finished))[1:]
    assert check_corpus(out) == ()


def test_rows_are_found_in_every_row_group(apply, finished, corpus):
    path = finished / "data" / "part-00000.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=1)
    manifest = manifest_of(finished)
    manifest["shards"][0]["sha256"] = sha256_file(path)
    (finished / "manifest.json").write_text(json.dumps(manifest))
    rows = corpus.rows(finished)
    result, out = apply({"content_sha256": rows[1]["content_hash"]})
    assert result.removed == {"opted_out_content": 1}
    assert corpus.rows(out) == [rows[0], *rows[2:]]
    assert check_corpus(out) == ()


def test_untouched_shards_are_the_same_files(apply, finished):
    result, out = apply({"repo": "cat/notes"})
    assert (result.num_shards, result.num_rewritten) == (3, 1)
    same = [
        (finished / name).stat().st_ino == (out / name).stat().st_ino
        for name in (
            "data/part-00000.parquet",
            "data/part-00001.parquet",
            "data/part-00002.parquet",
        )
    ]
    assert same == [True, False, True]


def test_without_links_they_are_copies(apply, finished, monkeypatch, corpus):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(opt_out_apply.os, "link", refuse)
    _, out = apply({"repo": "cat/notes"})
    name = "data/part-00000.parquet"
    assert (finished / name).read_bytes() == (out / name).read_bytes()
    assert (finished / name).stat().st_ino != (out / name).stat().st_ino
    assert check_corpus(out) == ()


def test_copies_under_other_names_are_counted_and_go_on_request(apply, corpus):
    """ben/book's notebook went as a duplicate of ann/book's; eve/notes is a fork of cat/notes."""
    entries = {"repo": "ben/book"}, {"repo": "cat/notes"}
    result, out = apply(*entries)
    assert (result.removed, result.num_kept_copies) == ({"opted_out_repo": 1}, 2)
    assert {"ann/book/one.ipynb", "eve/notes/new.ipynb"} <= set(places(corpus.rows(out)))
    result, out = apply(*entries, name="strict", copies=True)
    assert result.removed == {"opted_out_copy": 2, "opted_out_repo": 1}
    assert result.num_kept_copies == 0
    assert not {"ann/book/one.ipynb", "eve/notes/new.ipynb"} & set(places(corpus.rows(out)))
    copies = [each for each in corpus.removals(out) if each["reason"] == "opted_out_copy"]
    assert [each["detail"] for each in copies] == [
        "list.jsonl:1: equal to ben/book/one.ipynb",
        "list.jsonl:2: fork of cat/notes",
    ]
    assert check_corpus(out) == ()


def test_lists_can_follow_each_other(apply, corpus):
    _, first = apply({"repo": "cat/notes"})
    _, second = apply({"owner": "ann"}, folder=first, name="less-still")
    assert check_corpus(second) == ()
    assert {row["repo"] for row in corpus.rows(second)}.isdisjoint({"cat/notes", "ann/book"})
    assert [each["removed"] for each in manifest_of(second)["opt_outs"]] == [
        1,
        manifest_of(second)["removed"]["opted_out_owner"],
    ]
    names = sorted(path.name for path in (second / "removed").glob("opt-out-*"))
    assert names == ["opt-out-00000.jsonl.zst", "opt-out-00001.jsonl.zst"]
    assert sum(read_stats(second).removed["opt_out"].values()) > 1


def test_nothing_may_be_left(apply, finished, corpus):
    owners = {row["repo"].partition("/")[0] for row in corpus.rows(finished)}
    _, out = apply(*({"owner": owner} for owner in sorted(owners)))
    assert corpus.rows(out) == []
    assert manifest_of(out)["notebooks_kept"] == 0
    assert check_corpus(out) == ()
    assert read_stats(out).num_kept_notebooks == 0


def test_entries_that_name_nothing_are_told(apply, finished, corpus):
    result, out = apply({"repo": "no/body"}, {"owner": "nobody"}, {"repo": "ben/book"})
    assert result.unmatched == ["no/body", "nobody"]
    assert (result.removed, result.num_rewritten) == ({}, 0)
    assert corpus.rows(out) == corpus.rows(finished)
    assert check_corpus(out) == ()


def test_two_runs_are_equal(apply, corpus):
    _, one = apply({"owner": "cat"}, name="one")
    _, two = apply({"owner": "cat"}, name="two")
    assert corpus.files(one) == corpus.files(two)


def test_a_failure_leaves_nothing_behind(apply, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opt_out_apply, "sha256_file", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space left"):
        apply({"owner": "cat"})
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "list.jsonl"] == before


def test_the_corpus_itself_is_not_written(apply, finished, tmp_path):
    for out in (finished, finished / "less"):
        with pytest.raises(UsageError, match="lies in the corpus"):
            apply({"owner": "cat"}, name=out)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UsageError, match="exists already"):
        apply({"owner": "cat"}, name="taken")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"ann/book", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "none of repo, owner, content_sha256"),
        (b'{"repo": "book/"}', "repo is 'book/'"),
        (b'{"repo": ""}', "repo is ''"),
        (b'{"repo": "ann/book/x"}', "repo is 'ann/book/x'"),
        (b'{"owner": "ann/book"}', "owner is 'ann/book'"),
        (b'{"owner": ""}', "owner is ''"),
        (b'{"content_sha256": "abc"}', "content_sha256 is 'abc'"),
        (b'{"owner": 3}', "owner is 3"),
        (b'{"owner": "ann", "note": 3}', "note is 3"),
        (b'{"owner": "\xff"}', "not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, problem):
    path = tmp_path / "list.jsonl"
    path.write_bytes(b'{"owner": "ann"}\n\n' + line + b"\n")
    with pytest.raises(CorpusError, match=r"list.jsonl:3 cannot be used") as caught:
        load(path)
    assert problem in str(caught.value)


def test_a_missing_list_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.jsonl")


def test_judge_takes_one_row(make, tmp_path):
    path = tmp_path / "list.jsonl"
    path.write_bytes(make.json_lines({"owner": "Ann"}, {"content_sha256": "d" * 64}))
    opt_out = load(path)
    assert judge(make.row(repo="ben/book"), opt_out) == make.row(repo="ben/book")
    by_owner = judge(make.row(repo="ANN/book"), opt_out)
    by_content = judge(make.row(repo="ben/book", content_hash="d" * 64), opt_out)
    assert isinstance(by_owner, Removal)
    assert isinstance(by_content, Removal)
    assert (by_owner.step, by_owner.reason) == ("opt_out", "opted_out_owner")
    assert (by_content.reason, by_content.detail) == ("opted_out_content", "list.jsonl:2")
