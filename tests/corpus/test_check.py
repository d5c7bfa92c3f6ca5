import json

import pyarrow.parquet as pq
import pytest

from jupyt5.errors import CorpusError
from jupyt5.files import sha256_file
from jupyt5_corpus.check import check_corpus


@pytest.fixture
def finished(shards, build, tmp_path):
    build(shards)
    return tmp_path / "corpus"


def change_manifest(folder, change):
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def rewrite_shard(folder, change):
    """Change a shard's rows and make the manifest agree with the new file."""
    path = folder / "data" / "part-00000.parquet"
    table = pq.ParquetFile(path).read()
    rows = table.to_pylist()
    change(rows)
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    digest = sha256_file(path)
    change_manifest(folder, lambda manifest: manifest["shards"][0].update(sha256=digest))


def test_a_fresh_corpus_is_whole(finished):
    assert check_corpus(finished) == ()


def test_a_folder_without_a_corpus_is_an_error(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(CorpusError, match="holds no corpus"):
            check_corpus(folder)


@pytest.mark.parametrize(
    "name",
    [
        "data/part-00001.parquet",
        "removed/part-00000.jsonl.zst",
        "README.md",
        "decontamination.html",
        "decontamination.jsonl",
    ],
)
def test_a_missing_or_changed_file_is_named(finished, name):
    (finished / name).write_bytes(b"other")
    assert any(name in each and "has changed" in each for each in check_corpus(finished))
    (finished / name).unlink()
    assert any(name in each and "is missing" in each for each in check_corpus(finished))


def test_a_stray_file_is_named(finished):
    (finished / "data" / "part-99999.parquet").write_bytes(b"x")
    assert [each.split("/")[-1] for each in check_corpus(finished)] == [
        "part-99999.parquet is not in the manifest."
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows[0]["cells"][0].update(source="edited"), "content_hash"),
        (lambda rows: rows[0].update(rows[1] | {"path": "again"}), "is there twice"),
        (lambda rows: rows[0].update(split="nowhere"), "wrong side"),
        (lambda rows: rows[0].update(repo="cvaranese/DATA301"), "is held out (holdout_repo"),
        (lambda rows: rows.pop(), "has 1 rows, not 2"),
    ],
)
def test_rows_that_lie_are_found_even_when_the_file_hashes_agree(finished, change, problem):
    rewrite_shard(finished, change)
    assert any(problem in each for each in check_corpus(finished))


def test_counts_must_add_up(finished):
    change_manifest(finished, lambda manifest: manifest.update(notebooks_in=8))
    assert any("are not the 8 that came in" in each for each in check_corpus(finished))
    change_manifest(finished, lambda manifest: manifest["removed"].update(exact_duplicate=1))
    assert any(each.startswith("removed/ has") for each in check_corpus(finished))
