"""The shared corpus: real notebooks, and the odd ones its README lists."""

import json

import pytest

from jupyt5_corpus.check import check_corpus
from jupyt5_corpus.compression import open_packed

KEPT_ODD_ONES = [
    "jupyter/nbformat/tests/test2.ipynb",
    "jupyter/nbformat/tests/test4plus.ipynb",
    "jupyter/nbformat/tests/invalid_unique_cell_id.ipynb",
    "graphistry/pygraphistry/demos/more_examples/graphistry_features/encodings-sizes.ipynb",
    "dotnet/interactive/samples/ExtensionLab/ExtensionLab-explain.ipynb",
    "jupyter/nbgrader/nbgrader/tests/preprocessors/files/cell-type-changed.ipynb",
]
INVALID_ODD_ONES = [
    "jeremy-evert/handson-ml3/Weather_Agreement_Lab/01_data_pull.ipynb",
    "GoogleCloudPlatform/training-data-analyst/blogs/t2t/translate_ende.ipynb",
    "GoogleCloudPlatform/vertex-ai-samples/notebooks/community/migration/"
    "UJ3 Custom Training Custom Container TF Keras.ipynb",
]


def listed(shared_corpus, shard=None):
    with open_packed(shared_corpus / "files.jsonl.zst") as stream:
        entries = [json.loads(line) for line in stream]
    return [entry for entry in entries if shard in {None, entry["shard"]}]


def full_name(record):
    commit = record["commit"] or ""
    version = f"@{commit}" if len(commit) == 12 else ""
    return f"{record['repo']}{version}/{record['path']}"


def test_every_file_of_the_raw_shard_is_accounted_for(shared_corpus, build, corpus, tmp_path):
    build(shared_corpus / "raw.tar.zst")
    rows = corpus.rows(tmp_path / "corpus")
    removals = corpus.removals(tmp_path / "corpus")
    entries = listed(shared_corpus, "raw.tar.zst")
    assert sorted(map(full_name, rows + removals)) == sorted(each["path"] for each in entries)
    blobs = {each["path"]: each["blob"] for each in entries}
    assert all(each["blob_sha"] == blobs[full_name(each)] for each in rows + removals)
    invalid = {full_name(each) for each in removals if each["reason"] == "invalid_notebook"}
    assert invalid == {each["path"] for each in entries if each["error"]}
    assert invalid.issuperset(INVALID_ODD_ONES)
    places = {f"{each['repo']}/{each['path']}" for each in rows}
    assert places.issuperset(KEPT_ODD_ONES)
    # 73 bytes without a cell: readable, and equal to another notebook without a cell.
    empty = [each for each in removals if each["path"] == "tests/test3_no_worksheets.ipynb"]
    assert {each["reason"] for each in empty} == {"exact_duplicate"}
    assert all(each["detail"] for each in removals)


def test_the_blob_ids_of_raw_files_are_also_found_from_their_bytes(
    shared_corpus, build, corpus, tmp_path
):
    """Without files.jsonl.zst beside it, the shard gives the same ids."""
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "raw.tar.zst").symlink_to(shared_corpus / "raw.tar.zst")
    build(alone)
    blobs = {each["path"]: each["blob"] for each in listed(shared_corpus, "raw.tar.zst")}
    for row in corpus.rows(tmp_path / "corpus"):
        assert (
            blobs[full_name(row) if row["commit"] else f"{row['repo']}/{row['path']}"]
            == (row["blob_sha"])
        )


@pytest.mark.slow
def test_the_whole_corpus(shared_corpus, build, corpus, tmp_path):
    manifest = build(shared_corpus, workers=2)
    out = tmp_path / "corpus"
    assert manifest["notebooks_in"] == 15_635
    assert manifest["notebooks_kept"] == 14_496
    assert manifest["removed"] == {"exact_duplicate": 1_101, "invalid_notebook": 38}
    assert manifest["split"]["num_families"] == 148
    assert manifest["split"]["num_validation_notebooks"] == 73
    assert check_corpus(out) == ()
    rows = corpus.rows(out)
    places = [full_name(each) for each in rows + corpus.removals(out)]
    entries = {each["path"]: each for each in listed(shared_corpus)}
    assert sorted(places) == sorted(entries)
    # Whoever indexed the shards counted cells and told equal sources independently of us.
    counted = [(entries[full_name(row)], row) for row in rows]
    assert all(
        (entry["cells"], entry["code"], entry["markdown"])
        == (len(row["cells"]), row["num_code"], row["num_markdown"])
        for entry, row in counted
        if entry["cells"] is not None
    )
    sources = [entry["source_sha1"] for entry, _ in counted if entry["source_sha1"]]
    assert len(sources) == len(set(sources))
    assert set(sources) == {each["source_sha1"] for each in entries.values()} - {None}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["paper", "default"])
def test_two_builds_with_other_worker_counts_are_equal(
    shared_corpus, build, corpus, tmp_path, recipe
):
    manifest = build(shared_corpus, out=tmp_path / "one", workers=1, recipe=recipe)
    assert manifest["notebooks_in"] == 15_635
    assert manifest["notebooks_kept"] + sum(manifest["removed"].values()) == 15_635
    build(shared_corpus, out=tmp_path / "two", workers=2, recipe=recipe)
    assert corpus.files(tmp_path / "one") == corpus.files(tmp_path / "two")
