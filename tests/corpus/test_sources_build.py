"""A build over sources of every kind, whole and damaged: it goes on, and every file is counted."""

import subprocess
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from jupyt5_corpus.compression import compress

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]


def fill(folder, make):
    """One good source and one bad one of each kind; five notebooks can be read."""

    def text(number):
        return make.notebook(f"print('a notebook with number {number} and words of its own')")

    whole = make.tar({"ann/one/1.ipynb": text(1), "ann/one/../../up.ipynb": text(9)})
    (folder / "a-good.tar.zst").write_bytes(compress(whole))
    (folder / "b-cut.tar").write_bytes(make.tar({"ann/two/2.ipynb": text(2)})[:-9_000])
    (folder / "c-noise.tar.zst").write_bytes(b"noise")
    table = {"repo": ["ann/three"], "path": ["3.ipynb"], "content": [text(3)], "commit": ["f" * 40]}
    pq.write_table(pa.table(table), folder / "d-good.parquet")
    pq.write_table(pa.table({"x": [1]}), folder / "e-other.parquet")
    (folder / "f-cut.parquet").write_bytes((folder / "d-good.parquet").read_bytes()[:-9])
    work = folder / "ben" / "clone"
    work.mkdir(parents=True)
    (work / "4.ipynb").write_bytes(text(4))
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run([*GIT, "-C", work, *arguments], check=True)
    for name in ("good.git", "headless.git"):
        subprocess.run([*GIT, "clone", "-q", "--bare", work, folder / "cat" / name], check=True)
    subprocess.run([*GIT, "-C", work, "rm", "-q", "--cached", "4.ipynb"], check=True)
    (work / "4.ipynb").write_bytes(text(5))
    (folder / "cat" / "headless.git" / "HEAD").write_text("ref: refs/heads/none\n")
    (work / "loop.ipynb").symlink_to("loop.ipynb")
    (work / "broken.ipynb").write_bytes(b'{"cells": [')


def test_sources_of_every_kind(tmp_path, make, build, corpus):
    sources = tmp_path / "sources"
    sources.mkdir()
    fill(sources, make)
    manifest = build(sources)
    out = tmp_path / "corpus"
    rows, removals = corpus.rows(out), corpus.removals(out)
    places = {(row["repo"], row["path"]) for row in rows}
    assert places == {
        ("ann/one", "1.ipynb"),
        ("ann/two", "2.ipynb"),
        ("ann/three", "3.ipynb"),
        ("ben/clone", "4.ipynb"),
        ("cat/good", "4.ipynb"),
    }
    commits = {row["path"]: row["commit"] for row in rows}
    assert commits["3.ipynb"] == "f" * 40
    assert commits["4.ipynb"]
    reasons = Counter(removal["reason"] for removal in removals)
    assert reasons == {
        "unsafe_path": 1,
        "damaged_archive": 2,
        "missing_columns": 1,
        "damaged_parquet": 1,
        "unreadable_clone": 1,
        "unreadable_file": 1,
        "invalid_notebook": 1,
    }
    assert manifest["notebooks_in"] == len(rows) + len(removals)
    assert manifest["notebooks_kept"] == len(rows)
    assert not any(str(tmp_path) in str(removal["detail"]) for removal in removals)


def test_the_result_does_not_depend_on_workers(tmp_path, make, build, corpus):
    sources = tmp_path / "sources"
    sources.mkdir()
    fill(sources, make)
    for number in (1, 2):
        build(sources, out=tmp_path / f"out{number}", workers=number)
    assert corpus.files(tmp_path / "out1") == corpus.files(tmp_path / "out2")
