import json
import re

import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.stats import read_stats
from jupyt5_corpus.stats_table import as_json, as_markdown, as_text

LONG = "a note that is long enough to tell it from the others"


@pytest.fixture
def finished(make, build, tmp_path):
    """Three notebooks of two repositories stay; one is a copy, one is damaged."""
    literate = make.notebook(("markdown", f"# Über {LONG}"), "x = 1", ("raw", "raw text"))
    members = {
        "ann/book/one.ipynb": literate,
        "ann/book/two.ipynb": make.notebook(f"print('{LONG}')", "y = 2"),
        "ben/notes/one.ipynb": literate,
        "cat/lab/own.ipynb": make.notebook(("markdown", LONG), f"z = '{LONG}'"),
        "dan/junk/broken.ipynb": b'{"cells": [',
    }
    source = tmp_path / "source"
    source.mkdir()
    (source / "00.tar").write_bytes(make.tar(dict(list(members.items())[:2])))
    (source / "01.tar").write_bytes(make.tar(dict(list(members.items())[2:])))
    build(*sorted(source.iterdir()))
    return tmp_path / "corpus"


def change_manifest(folder, change):
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_every_count(finished):
    stats = read_stats(finished)
    assert (stats.num_repositories_in, stats.num_repositories) == (4, 2)
    assert (stats.num_notebooks_in, stats.num_notebooks) == (5, 4)
    assert (stats.num_unique_notebooks, stats.num_kept_notebooks) == (3, 3)
    assert (stats.num_cells, stats.num_code_cells, stats.num_markdown_cells) == (7, 4, 2)
    code = "x = 1", f"print('{LONG}')", "y = 2", f"z = '{LONG}'"
    markdown = f"# Über {LONG}", LONG
    assert stats.num_code_tokens == round(sum(len(text.encode()) for text in code) / 3.5)
    assert stats.num_markdown_tokens == round(sum(len(text.encode()) for text in markdown) / 3.5)
    first = round(len(f"# Über {LONG}x = 1raw text".encode()) / 3.5)
    second = round(len(f"print('{LONG}')y = 2") / 3.5)
    third = round(len(f"{LONG}z = '{LONG}'") / 3.5)
    assert stats.num_tokens == first + second + third
    assert (stats.num_focused_notebooks, stats.num_focused_tokens) == (2, first + third)
    assert stats.groups["language"] == {"python": 3}
    assert stats.groups["licence"] == {"unknown": 3}
    assert stats.removed["parse"] == {"invalid_notebook": 1}
    assert stats.removed["exact_duplicates"] == {"exact_duplicate": 1}


def test_the_table_stands_beside_the_papers(finished):
    text = as_text(read_stats(finished))
    lines = [re.split(r"  +", line) for line in text.splitlines()]
    assert ["unique notebooks", "3 (75.0 %)", "7.24 M (79.9 %)"] in lines
    assert ["notebooks in the corpus", "3 (75.0 %)", "-"] in lines
    assert ["cells a notebook", "2.3", "24.4 or 30.5"] in lines
    assert ["Markdown-focused notebooks", "2 (66.7 %)", "4.1 M (56.6 %)"] in lines
    assert "Removed by parse: invalid_notebook 1" in text


def test_markdown_and_json_say_the_same(finished):
    stats = read_stats(finished)
    assert "| code cells | 4 (57.1 %) | 153 M (69.2 %) |" in as_markdown(stats).splitlines()
    both = json.loads(json.dumps(as_json(stats)))
    assert both["corpus"]["num_code_cells"] == 4
    assert both["paper"]["num_code_cells"] == 153_000_000
    assert set(both["paper"]) <= set(both["corpus"])


def test_values_of_notebooks_are_no_markup(make, build, tmp_path):
    notebook = json.loads(make.notebook(f"print('{LONG}')"))
    notebook["metadata"] = {"kernelspec": {"name": "k", "language": "<b>*c*|"}}
    (tmp_path / "00.tar").write_bytes(make.tar({"ann/book/a.ipynb": json.dumps(notebook).encode()}))
    build(tmp_path / "00.tar")
    markdown = as_markdown(read_stats(tmp_path / "corpus"))
    assert r"\<b\>\*c\*\| 1" in markdown


def test_the_manifest_must_agree(finished):
    change_manifest(finished, lambda manifest: manifest.update(notebooks_kept=4))
    with pytest.raises(CorpusError, match="have 3 rows, its manifest says 4"):
        read_stats(finished)


def test_a_damaged_or_missing_shard_is_one_clear_error(finished):
    shard = finished / "data" / "part-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=r"part-00001.parquet is not a readable Parquet file"):
        read_stats(finished)
    shard.unlink()
    with pytest.raises(CorpusError, match=r"part-00001.parquet is missing"):
        read_stats(finished)


def test_a_manifest_cannot_point_elsewhere(finished):
    for name in ("../secret.parquet", "/etc/passwd"):
        change_manifest(
            finished, lambda manifest, name=name: manifest["shards"][0].update(file=name)
        )
        with pytest.raises(CorpusError, match="outside of the corpus"):
            read_stats(finished)


def test_a_folder_without_a_corpus_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match="holds no corpus"):
        read_stats(tmp_path)
