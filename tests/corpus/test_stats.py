import json
import re
import shutil

import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import compress
from jupyt5_corpus.removals import read_removals
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
    assert (stats.num_compared_notebooks, stats.num_unique_notebooks) == (4, 3)
    assert stats.num_kept_notebooks == 3
    assert (stats.num_cells, stats.num_code_cells, stats.num_markdown_cells) == (7, 4, 2)
    code = "x = 1", f"print('{LONG}')", "y = 2", f"z = '{LONG}'"
    markdown = f"# Über {LONG}", LONG
    sizes = [sum(len(text.encode()) for text in texts) for texts in (code, markdown, ["raw text"])]
    assert stats.num_code_tokens == round(stats.num_tokens * sizes[0] / sum(sizes))
    assert abs(stats.num_markdown_tokens - stats.num_tokens * sizes[1] / sum(sizes)) <= 1
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


@pytest.fixture
def build_with(make, build, tmp_path):
    """Build some notebooks with a recipe of the steps named."""

    def run(members, *steps, holdout=None):
        (tmp_path / "00.tar").write_bytes(make.tar(members))
        recipe = tmp_path / "mine.yaml"
        recipe.write_text(f"name: mine\nsteps: [{', '.join(steps)}]\n")
        manifest = build(tmp_path / "00.tar", recipe=recipe, holdout=holdout)
        return manifest, tmp_path / "corpus"

    return run


def test_unique_notebooks_are_those_of_the_compared_ones(make, build_with):
    same = make.notebook(f"print('{LONG}')")
    members = {"ann/book/1.ipynb": same, "ann/book/2.ipynb": same}
    members["held/out/1.ipynb"] = make.notebook("x = 'held out and of more than forty characters'")
    held = make.json_lines({"source": "TEST", "repo": "held/out"})
    steps = "parse", "holdout", "exact_duplicates"
    _, folder = build_with(members, *steps, holdout=held)
    stats = read_stats(folder)
    assert (stats.num_notebooks, stats.num_compared_notebooks) == (3, 2)
    assert stats.num_unique_notebooks == 1
    assert re.search(r"^unique notebooks +1 \(50\.0 %\)", as_text(stats), re.MULTILINE)


def test_what_the_recipe_has_no_step_for_is_not_counted(make, build_with):
    _, folder = build_with({"ann/book/1.ipynb": make.notebook(("markdown", LONG), "x")}, "parse")
    stats = read_stats(folder)
    assert stats.num_unique_notebooks is stats.num_redactions is None
    assert stats.num_focused_notebooks is stats.num_focused_tokens is None
    text = as_text(stats)
    assert re.search(r"^unique notebooks +n/a", text, re.MULTILINE)
    assert re.search(r"^Markdown-focused notebooks +n/a", text, re.MULTILINE)
    assert "Redactions: n/a" in text
    card = (folder / "README.md").read_text()
    assert "are Markdown focused" not in card
    assert "were replaced by placeholders" not in card
    assert "No benchmark was held out." in card


@pytest.mark.parametrize("steps", [("parse", "overlap"), ("parse", "holdout")])
def test_the_card_names_the_benchmarks(make, build_with, steps):
    holdout = make.json_lines({"source": "TEST", "repo": "held/out"})
    members = {"ann/book/1.ipynb": make.notebook(LONG)}
    _, folder = build_with(members, *steps, holdout=holdout if "holdout" in steps else None)
    card = (folder / "README.md").read_text()
    text = "a problem of DSP, HumanEval, MBPP or BioCoder"
    assert (text in card) == ("overlap" in steps)
    assert ("with these lists: `dsp.jsonl`, `test.jsonl`." in card) == ("holdout" in steps)
    assert "with the matched text" in card


def test_code_and_markdown_tokens_are_no_more_than_all(make, build_with):
    for size in range(1, 12):
        members = {"ann/book/1.ipynb": make.notebook("x" * size, ("markdown", "y" * (2 * size)))}
        _, folder = build_with(members, "parse")
        stats = read_stats(folder)
        assert stats.num_code_tokens + stats.num_markdown_tokens == stats.num_tokens
        shutil.rmtree(folder)


def test_repositories_are_counted_alike_everywhere(finished):
    manifest = json.loads((finished / "manifest.json").read_bytes())
    stats = read_stats(finished)
    assert manifest["repositories_in"] == stats.num_repositories_in == 4
    assert manifest["split"]["num_repositories"] == stats.num_repositories == 2
    assert manifest["split"]["num_families"] == 2
    card = (finished / "README.md").read_text()
    assert "3 notebooks of 2 repositories, one a row" in card
    assert "5 notebooks of 4 repositories came in" in card


def test_a_manifest_of_an_older_version_is_one_clear_error(finished):
    change_manifest(finished, lambda manifest: manifest.pop("repositories_in"))
    with pytest.raises(CorpusError, match="is of an older version"):
        read_stats(finished)


def test_a_missing_list_of_removals_is_one_clear_error(finished):
    path = finished / "removed" / "part-00000.jsonl.zst"
    path.write_bytes(compress(b'{"repo": 1}\n'))
    with pytest.raises(CorpusError, match=r"is no list of removals: .*Run `jupyt5-corpus check`"):
        list(read_removals(path))
    path.unlink()
    with pytest.raises(CorpusError, match=r"is missing. Run `jupyt5-corpus check`"):
        list(read_removals(path))


def test_an_error_has_one_full_stop(finished):
    (finished / "data" / "part-00000.parquet").write_bytes(b"no parquet file")
    with pytest.raises(CorpusError) as caught:
        read_stats(finished)
    assert ".." not in str(caught.value)
