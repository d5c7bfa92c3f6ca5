import json
import os
import shutil

import pyarrow.parquet as pq
import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus import build as build_module
from jupyt5_corpus import stages as stages_module
from jupyt5_corpus.compression import compress
from jupyt5_corpus.reading import read_unit
from jupyt5_corpus.tables import CORPUS_SCHEMA

COLUMNS = """
    repo path commit blob_sha licence licence_source nbformat language kernel cells num_code
    num_markdown markdown_fraction num_tokens_estimate content_hash duplicate_cluster retrieved
"""


def place(record):
    return f"{record['repo']}/{record['path']}"


def test_every_notebook_is_kept_or_removed_with_a_reason(shards, build, corpus, tmp_path):
    manifest = build(shards)
    out = tmp_path / "corpus"
    assert json.loads((out / "manifest.json").read_bytes()) == manifest
    assert manifest["notebooks_in"] == 7
    assert manifest["notebooks_kept"] == 4
    assert manifest["removed"] == {"exact_duplicate": 2, "invalid_notebook": 1}
    assert [place(row) for row in corpus.rows(out)] == [
        "ann/book/one.ipynb",
        "ann/book/  deep/two words.ipynb",
        "cat/notes/own.ipynb",
        "dan/empty/none.ipynb",
    ]
    assert [(place(each), each["reason"]) for each in corpus.removals(out)] == [
        ("ben/book/broken.ipynb", "invalid_notebook"),
        ("ben/book/one.ipynb", "exact_duplicate"),
        ("ann/book/one.ipynb", "exact_duplicate"),
    ]
    assert corpus.removals(out)[2]["commit"] == "0123456789ab"
    assert not (tmp_path / "corpus.partial").exists()


def test_rows_have_the_contract_s_columns_and_provenance(shards, build, corpus, tmp_path):
    build(shards)
    assert set(COLUMNS.split()) <= set(CORPUS_SCHEMA.names)
    first, second, third, fourth = corpus.rows(tmp_path / "corpus")
    assert list(first) == CORPUS_SCHEMA.names
    assert first["cells"][1] == {"kind": "code", "source": "total = sum([1, 2])"}
    assert (first["commit"], first["licence"]) == ("a" * 40, "MIT")
    # The original's id is taken from files.jsonl.zst; otherwise it is that of the bytes.
    assert first["blob_sha"] == "d" * 40
    assert len(second["blob_sha"]) == 40
    assert first["duplicate_cluster"] == first["content_hash"]
    assert second["duplicate_cluster"] is None
    assert (first["markdown_focused"], second["markdown_focused"]) == (True, False)
    assert (first["family"], third["family"]) == ("ann/book", "cat/notes")
    assert (fourth["licence"], fourth["commit"], fourth["cells"]) == (None, None, [])


def test_the_manifest_describes_steps_shards_and_split(shards, build, tmp_path):
    manifest = build(shards)
    steps = [
        (each["step"], each["notebooks_in"], each["notebooks_out"]) for each in manifest["steps"]
    ]
    assert steps == [
        ("parse", 7, 6),
        ("holdout", 6, 6),
        ("exact_duplicates", 6, 4),
        ("markdown_focused", 4, 4),
    ]
    assert [shard["rows"] for shard in manifest["shards"]] == [2, 2]
    assert manifest["repositories_in"] == 4
    assert manifest["split"]["num_repositories"] == 3
    assert manifest["split"]["num_families"] == 3
    assert manifest["recipe"]["holdouts"][0]["file"] == "dsp.jsonl"
    assert {"jupyt5", "pyarrow", "orjson", "python"} == set(manifest["versions"])
    text = (tmp_path / "corpus" / "manifest.json").read_text()
    assert str(tmp_path) not in text


def test_the_card_has_the_steps_the_columns_and_what_was_skipped(shards, build, tmp_path):
    build(shards)
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "| exact_duplicates | 6 | 4 | exact_duplicate 2 |" in card
    assert "Skipped: list JuICe, no such list was given (--holdout)." in card
    assert all(f"| `{name}` |" in card for name in CORPUS_SCHEMA.names)
    assert str(tmp_path) not in card


def test_holdout_lists_remove_repositories_cells_and_their_copies(
    shards, build, corpus, tmp_path, make
):
    (shards / "02.tar").write_bytes(
        make.tar(
            {
                "eve/copy/renamed.ipynb": make.notebook(
                    "x = 'words that are only in the book and nowhere else'"
                )
            }
        )
    )
    manifest = build(shards, holdout=make.json_lines({"source": "TEST", "repo": "ANN/book"}))
    assert manifest["removed"] == {
        "holdout_copy": 1,
        "holdout_repo": 4,
        "invalid_notebook": 1,
    }
    reasons = {place(each): each for each in corpus.removals(tmp_path / "corpus")}
    assert reasons["ben/book/one.ipynb"]["detail"] == "TEST: fork of ann/book"
    assert reasons["eve/copy/renamed.ipynb"]["detail"] == (
        "same content as ann/book/  deep/two words.ipynb (TEST: repository ann/book)"
    )


def test_any_number_of_workers_gives_the_same_bytes(shards, build, corpus, tmp_path):
    build(shards, out=tmp_path / "one", workers=1)
    build(shards, out=tmp_path / "two", workers=2)
    assert corpus.files(tmp_path / "one") == corpus.files(tmp_path / "two")


def test_row_groups_stay_small(tmp_path, build, make):
    members = {f"a/b/{n}.ipynb": make.notebook(f"x = {n}") for n in range(1201)}
    (tmp_path / "many.tar").write_bytes(make.tar(members))
    build(tmp_path / "many.tar")
    metadata = pq.ParquetFile(tmp_path / "corpus" / "data" / "part-00000.parquet").metadata
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sizes == [500, 500, 201]


@pytest.mark.parametrize("stop_at", ["read", "finish", "rename"])
def test_a_stopped_build_goes_on_to_the_same_bytes(
    shards, build, corpus, tmp_path, monkeypatch, stop_at
):
    build(shards, out=tmp_path / "whole")
    calls = []

    def stopping(original):
        def stop_the_second_time(*args, **kwargs):
            calls.append(args)
            if len(calls) == 2 or stop_at == "rename":
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        return stop_the_second_time

    module, target = {
        "read": (stages_module, "read_unit"),
        "finish": (stages_module, "finish_unit"),
        "rename": (build_module, "close_build"),
    }[stop_at]
    with monkeypatch.context() as patch:
        patch.setattr(module, target, stopping(getattr(module, target)))
        with pytest.raises(KeyboardInterrupt):
            build(shards)
    assert not (tmp_path / "corpus").exists()
    assert (tmp_path / "corpus.partial").is_dir()

    read_again = []

    def counting(layout, unit_idx):
        read_again.append(unit_idx)
        return read_unit(layout, unit_idx)

    monkeypatch.setattr(stages_module, "read_unit", counting)
    build(shards)
    assert read_again == ([1] if stop_at == "read" else [])
    assert corpus.files(tmp_path / "corpus") == corpus.files(tmp_path / "whole")
    assert not (tmp_path / "corpus.partial").exists()


def test_a_stopped_build_of_something_else_is_left_alone(shards, build, tmp_path, monkeypatch):
    def stop(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages_module, "finish_unit", stop)
        with pytest.raises(KeyboardInterrupt):
            build(shards)
    (shards / "01.tar.zst").unlink()
    with pytest.raises(UsageError, match="is not the stopped build of this corpus"):
        build(shards)
    shutil.rmtree(tmp_path / "corpus.partial")
    assert build(shards)["notebooks_in"] == 5


def test_a_finished_corpus_is_recognised_or_refused(shards, build, corpus, tmp_path, make):
    first = build(shards)
    before = corpus.files(tmp_path / "corpus")
    assert build(shards, workers=2) == first
    with pytest.raises(UsageError, match="other input, other options"):
        build(shards, holdout=make.json_lines({"source": "S", "repo": "a/b"}))
    (shards / "repos.jsonl").write_bytes(b"")
    with pytest.raises(UsageError, match="other input, other options"):
        build(shards)
    assert corpus.files(tmp_path / "corpus") == before


def test_a_foreign_folder_or_file_is_refused_and_an_empty_folder_used(shards, build, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for out in (foreign, tmp_path / "file"):
        with pytest.raises(UsageError, match="holds no corpus"):
            build(shards, out=out)
    assert sorted(path.name for path in foreign.iterdir()) == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    assert build(shards, out=tmp_path / "empty")["notebooks_kept"] == 4


def test_a_build_killed_while_it_began_starts_anew(shards, build, tmp_path):
    work = tmp_path / "corpus.partial" / "work"
    work.mkdir(parents=True)
    for name in (".build.json.x1.tmp", "unit-00000.pickle.tmp", "spec.pickle"):
        (work / name).write_bytes(b"{")
    assert build(shards)["notebooks_kept"] == 4


def test_a_foreign_partial_folder_is_refused(shards, build, tmp_path):
    (tmp_path / "corpus.partial").mkdir()
    (tmp_path / "corpus.partial" / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="is not the stopped build"):
        build(shards)
    assert (tmp_path / "corpus.partial" / "mine.txt").read_text() == "x"


def test_what_another_user_left_is_not_unpickled(shards, build, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CorpusError, match="belongs to another user"):
        build(shards)


def test_a_damaged_archive_is_a_removal_and_the_run_goes_on(shards, build, corpus, tmp_path, make):
    whole = compress(make.tar({"z/z/1.ipynb": make.notebook("x = 1")}))
    (shards / "00.tar.zst").write_bytes(whole[:-4])
    manifest = build(shards)
    assert manifest["removed"]["damaged_archive"] == 1
    assert manifest["notebooks_in"] == manifest["notebooks_kept"] + sum(
        manifest["removed"].values()
    )


def test_a_malformed_holdout_list_stops_before_anything_is_written(shards, build, tmp_path):
    with pytest.raises(CorpusError, match=r"test\.jsonl:1"):
        build(shards, holdout=b"{}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards"]


def test_a_corpus_may_be_without_a_single_notebook(tmp_path, build, corpus, make):
    (tmp_path / "bad.tar").write_bytes(make.tar({"a/b/1.ipynb": b"", "a/b/2.ipynb": b"[]"}))
    manifest = build(tmp_path / "bad.tar")
    assert (manifest["notebooks_in"], manifest["notebooks_kept"]) == (2, 0)
    assert corpus.rows(tmp_path / "corpus") == []
    assert len(corpus.removals(tmp_path / "corpus")) == 2
