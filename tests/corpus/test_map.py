import base64
import json
import os
import random
import re
import subprocess
import sys
import zlib
from collections import Counter

import pyarrow.parquet as pq
import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.compression import compress
from jupyt5_corpus.map import MapSettings, write_map
from jupyt5_corpus.map.sample import draw_notebooks, title_of
from jupyt5_corpus.map.words import iter_documents, words_of, write_lines
from jupyt5_corpus.shards import require_manifest

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
SEA = ["whale", "ocean", "tide", "coral", "reef", "harbour", "salt", "wave", "shark", "sailor"]
SKY = ["planet", "orbit", "comet", "galaxy", "lunar", "solar", "nebula", "asteroid", "gravity"]
TOPICS = {"sea": SEA, "sky": SKY}


def make_notebook(make, topic, number):
    """A notebook that talks of one topic; those of the sky have more Markdown."""
    draw = random.Random(f"{topic} {number}")
    lines = [" ".join(draw.choices(TOPICS[topic], k=30)) for _ in range(6)]
    num_markdown = 5 if topic == "sky" else 1
    cells = [
        ("markdown", f"# The {topic}, part {number}\n{line}") if idx < num_markdown else line
        for idx, line in enumerate(lines)
    ]
    return make.notebook(*cells)


@pytest.fixture
def finished(make, build, tmp_path):
    members = {
        f"{topic}{number % 3}/book/{number}.ipynb": make_notebook(make, topic, number)
        for topic in TOPICS
        for number in range(40)
    }
    members["zed/odd/hostile.ipynb"] = make.notebook(
        ("markdown", f"# {HOSTILE} and more"), *(" ".join(TOPICS["sea"]) for _ in range(3))
    )
    members["zed/odd/numbers.ipynb"] = make.notebook(" ".join(map(str, range(100))))
    (tmp_path / "00.tar").write_bytes(make.tar(members))
    build(tmp_path / "00.tar")
    return tmp_path / "corpus"


def data_of(page):
    """The data of a page, unpacked as its script does."""
    packed = re.search(r'id="data">([^<]*)<', page)
    assert packed
    return json.loads(zlib.decompress(base64.b64decode(packed[1])))


def test_topics_become_clusters_with_their_own_terms(finished, tmp_path):
    out = tmp_path / "map.html"
    chart = write_map(finished, out, MapSettings(num_clusters=2))
    assert (len(chart.notebooks), chart.num_without_words) == (81, 1)
    for cluster in chart.clusters:
        topics = Counter(chart.notebooks[idx].repo[:3] for idx in cluster.members)
        topic = topics.most_common(1)[0][0]
        assert topics[topic] >= 39
        assert set(TOPICS[topic]) >= set(cluster.terms[:4])
        assert cluster.markdown_fraction == pytest.approx(
            {"sea": 1 / 6, "sky": 5 / 6}[topic], abs=0.05
        )
        assert len({chart.notebooks[idx].repo for idx in cluster.examples[:3]}) == 3
    # On the plane, nearly every notebook's nearest neighbour is of its own topic.
    places = chart.places_N2
    same = 0
    for idx, place in enumerate(places):
        distances = ((places - place) ** 2).sum(axis=1)
        distances[idx] = float("inf")
        other = chart.notebooks[int(distances.argmin())]
        same += other.repo[:3] == chart.notebooks[idx].repo[:3]
    assert same >= 76


def test_the_page_holds_every_notebook_and_no_markup_of_theirs(finished, tmp_path):
    out = tmp_path / "map.html"
    write_map(finished, out, MapSettings(num_clusters=2))
    page = out.read_text()
    data = data_of(page)
    columns = ("x", "y", "markdown", "cluster", "title", "path", "repo")
    assert {len(data[name]) for name in columns} == {81}
    hostile = data["path"].index("hostile.ipynb")
    # Tags go with the rest of a heading's markup, and what is left is data.
    assert data["title"][hostile] == "alert(1) and more"
    assert data["repos"][data["repo"][hostile]] == "zed/odd"
    assert HOSTILE not in page
    assert page.count("<script") == 2
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w+", re.sub(r"(?m)//.*$", "", page)) == []
    assert min(data["x"] + data["y"]) == 0
    assert max(data["x"] + data["y"]) == 65_535


def test_the_same_seed_gives_the_same_bytes_in_another_process(finished, tmp_path):
    write_map(finished, tmp_path / "one.html", MapSettings(num_clusters=3))
    code = "import sys; from jupyt5_corpus.cli import main; sys.exit(main())"
    out = tmp_path / "two.html"
    command = [sys.executable, "-c", code, "map", finished, "--out", out, "--clusters", "3"]
    # Another BLAS kernel rounds differently, as another processor does.
    env = os.environ | {"PYTHONHASHSEED": "7", "OPENBLAS_CORETYPE": "Nehalem"}
    done = subprocess.run([*command, "--json"], env=env, check=True, capture_output=True)
    assert (tmp_path / "one.html").read_bytes() == out.read_bytes()
    summary = json.loads(done.stdout)
    assert summary["num_notebooks"] == 81
    assert sum(cluster["num_notebooks"] for cluster in summary["clusters"]) == 81


def test_the_draw_depends_on_contents_and_seed_not_on_shards(make, build, tmp_path):
    members = {
        f"ann/book/{number}.ipynb": make_notebook(make, "sea", number) for number in range(30)
    }
    names = list(members)
    for cut, name in ((30, "whole"), (7, "cut")):
        source = tmp_path / name
        source.mkdir()
        parts = [names[start : start + cut] for start in range(0, 30, cut)]
        for idx, part in enumerate(parts):
            archive = make.tar({each: members[each] for each in part})
            (source / f"{idx:02d}.tar.zst").write_bytes(compress(archive))
        build(*sorted(source.iterdir()), out=tmp_path / f"{name}-corpus")
    drawn = {}
    for name in ("whole", "cut"):
        for seed in (0, 1):
            folder = tmp_path / f"{name}-corpus"
            rows = draw_notebooks(
                folder, require_manifest(folder), MapSettings(num_notebooks=10, seed=seed)
            )
            paths = sorted((folder / "data").iterdir())
            assert len(paths) == {"whole": 1, "cut": 5}[name]
            tables = [pq.read_table(path, columns=["path"]).to_pylist() for path in paths]
            drawn[name, seed] = {
                tables[shard][row]["path"] for shard, picked in rows.items() for row in picked
            }
    assert len(drawn["whole", 0]) == 10
    assert drawn["whole", 0] == drawn["cut", 0] != drawn["whole", 1] == drawn["cut", 1]


def test_too_few_notebooks_are_one_clear_error(make, build, tmp_path):
    members = {f"ann/book/{idx}.ipynb": make_notebook(make, "sea", idx) for idx in range(4)}
    (tmp_path / "00.tar").write_bytes(make.tar(members))
    build(tmp_path / "00.tar")
    with pytest.raises(CorpusError, match="has 4 notebooks with words to go by"):
        write_map(tmp_path / "corpus", tmp_path / "map.html", MapSettings())
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "00.tar").write_bytes(
        make.tar({"a/b/c.ipynb": make.notebook("1 + 2 + 3" * 20)})
    )
    build(tmp_path / "none" / "00.tar", out=tmp_path / "wordless")
    with pytest.raises(CorpusError, match="Map a larger corpus"):
        write_map(tmp_path / "wordless", tmp_path / "map.html", MapSettings())
    assert not (tmp_path / "map.html").exists()


def test_a_place_that_cannot_be_written_is_told_before_the_work(finished, tmp_path):
    for out in (tmp_path, tmp_path / "none" / "map.html"):
        with pytest.raises(UsageError, match="cannot be written"):
            write_map(finished, out, MapSettings())


@pytest.mark.parametrize(
    "changes", [{"num_notebooks": 9}, {"num_cells": 0}, {"num_clusters": 0}, {"seed": -1}]
)
def test_settings_that_make_no_map(changes):
    (name,) = changes
    with pytest.raises(UsageError, match=f"--{name.removeprefix('num_')} .* is too small"):
        MapSettings(**changes)


@pytest.mark.parametrize(
    ("cells", "title"),
    [
        ([("markdown", "text\n## A [link](http://x.y) and `code` ##\nmore")], "A link and code"),
        ([("markdown", "# ![badge](a.svg)\n# <b>Real</b> one")], "Real one"),
        ([("markdown", "# [![badge](a.svg)](http://x.y) Real")], "Real"),
        ([("code", "# a comment"), ("markdown", "  ### Third")], "Third"),
        ([("markdown", "#hashtag, no heading")], "name of file"),
        ([("markdown", "# ---")], "name of file"),
        ([("markdown", "##### Copyright 2019 Them."), ("markdown", "# Own")], "Own"),
        ([], "name of file"),
        ([("markdown", f"# {'long ' * 100}")], f"{'long ' * 23}long…"),
        ([("markdown", "# tabs\tand \u202e turns")], "tabs and \u202e turns"),
    ],
)
def test_titles(cells, title):
    cells = [{"kind": kind, "source": source} for kind, source in cells]
    assert title_of("folder/name of file.ipynb", cells) == title


def test_words(tmp_path):
    assert words_of("Import numpy as np; x1 = np.zeros(10)  # Füße") == (
        "import numpy as np x1 np zeros füße"
    )
    assert words_of(f"__label__spam </s> a 42 {'A' * 31} _x") == ""
    path = tmp_path / "cells.txt"
    notebooks = [["one two", "\n\t", "three\r\nfour"], [], ["12"], ["five"]]
    assert write_lines(path, notebooks) == [2, 0, 0, 1]
    assert list(iter_documents(path)) == [["one two", "three four"], [], [], ["five"]]
