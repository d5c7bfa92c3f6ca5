"""What only all notebooks together can tell: duplicates, copies of held-out ones, licences."""

import numpy as np
import pytest

from jupyt5_corpus.keys import KEPT, KEY, Joined, KeyRecorder, group_contents, read_keys

WORDS = (
    *("gradient", "matrix", "window", "signal", "filter", "harvest", "ledger", "volume"),
    *("cluster", "pigment", "anchor", "budget", "kernel", "lattice", "margin", "nozzle"),
    *("orbit", "parcel", "quarry", "rivet", "socket", "tunnel", "umbra", "vector", "wavelet"),
)
MIT = """MIT License

Copyright (c) 2020 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""


def lesson(make, topic, change=""):
    """A notebook of 200 words that only this topic has; ``change`` alters a few of them."""
    words = [f"{topic}_{WORDS[n % 25]}_{n}" for n in range(200)]
    cells = [" ".join(words[start : start + 20]) for start in range(0, 200, 20)]
    return make.notebook(*(("markdown", cell) for cell in cells[:-1]), cells[-1] + change)


@pytest.fixture
def near(tmp_path):
    path = tmp_path / "near.yaml"
    path.write_text("name: near\nsteps: [parse, holdout, exact_duplicates, near_duplicates]\n")
    return path


def place(record):
    return f"{record['repo']}/{record['path']}"


def test_near_duplicates_of_other_units_go_and_the_cluster_is_named(
    tmp_path, build, corpus, make, near
):
    first = {"a/a/1.ipynb": lesson(make, "tide"), "a/a/2.ipynb": lesson(make, "moss")}
    second = {
        "b/b/1.ipynb": lesson(make, "tide", " and more words"),
        "b/b/3.ipynb": first["a/a/1.ipynb"],
    }
    for name, members in (("1.tar", first), ("2.tar", second)):
        (tmp_path / name).write_bytes(make.tar(members))
    manifest = build(tmp_path / "1.tar", tmp_path / "2.tar", recipe=near)
    assert manifest["removed"] == {"exact_duplicate": 1, "near_duplicate": 1}
    rows = {place(row): row for row in corpus.rows(tmp_path / "corpus")}
    (kept,) = rows.keys() - {"a/a/2.ipynb"}
    # More n-grams are better; the one that stays is what the exact duplicate is called after.
    assert kept == "b/b/1.ipynb"
    assert rows[kept]["duplicate_cluster"] == rows[kept]["content_hash"]
    details = {place(each): each["detail"] for each in corpus.removals(tmp_path / "corpus")}
    assert details == {
        "a/a/1.ipynb": "similar to b/b/1.ipynb",
        "b/b/3.ipynb": "same cells as a/a/1.ipynb",
    }


def test_edited_copies_of_held_out_notebooks_go_wherever_they_are(
    tmp_path, build, corpus, make, near
):
    held = make.json_lines({"source": "TEST", "repo": "held/out"})
    members = {
        "a/a/copy.ipynb": lesson(make, "tide", " edited"),
        "a/a/other.ipynb": lesson(make, "moss"),
        "held/out/1.ipynb": lesson(make, "tide"),
    }
    (tmp_path / "1.tar").write_bytes(make.tar(members))
    manifest = build(tmp_path / "1.tar", recipe=near, holdout=held)
    assert manifest["removed"] == {"holdout_near_copy": 1, "holdout_repo": 1}
    assert [place(row) for row in corpus.rows(tmp_path / "corpus")] == ["a/a/other.ipynb"]
    details = {place(each): each["detail"] for each in corpus.removals(tmp_path / "corpus")}
    assert details["a/a/copy.ipynb"] == ("similar to held/out/1.ipynb (TEST: repository held/out)")
    report = (tmp_path / "corpus" / "decontamination.jsonl").read_text()
    assert report.count("a/a") == 1
    assert "moss" not in report


def test_a_copy_that_may_stay_is_kept_before_one_that_may_not(tmp_path, build, corpus, make):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nsteps: [parse, exact_duplicates, licences: {policy: permissive}]\n"
    )
    same = lesson(make, "tide")
    members = {
        "a/none/1.ipynb": same,
        "b/mit/LICENSE": MIT.encode(),
        "b/mit/1.ipynb": same,
        "c/odd/LICENSE": b"Do what you like, but ask me first.",
        "c/odd/1.ipynb": lesson(make, "moss"),
    }
    (tmp_path / "1.tar").write_bytes(make.tar(members))
    manifest = build(tmp_path / "1.tar", recipe=recipe, holdout=None)
    (row,) = corpus.rows(tmp_path / "corpus")
    assert (place(row), row["licence"], row["licence_source"]) == (
        "b/mit/1.ipynb",
        "MIT",
        "LICENSE",
    )
    assert manifest["removed"]["exact_duplicate"] == 1
    assert manifest["notebooks_in"] == 3


def test_a_key_takes_no_more_than_64_bytes(tmp_path, make):
    assert KEY.itemsize <= 64
    recorder = KeyRecorder(7)
    for row_idx in range(1_000):
        recorder.add(make.row(path="p" * 70_000), row_idx=row_idx, state=KEPT, num_ngrams=5)
    recorder.write(tmp_path / "keys.npy", tmp_path / "repos.json")
    assert (tmp_path / "keys.npy").stat().st_size <= 64 * 1_000 + 1_000
    keys = read_keys([tmp_path / "keys.npy"])
    assert set(keys["unit"].tolist()) == {7}
    assert set(keys["path_chars"].tolist()) == {0xFFFF}


def test_contents_are_grouped_with_kept_ones_first():
    keys = np.zeros(5, KEY)
    keys["digest_hi"] = [3, 1, 3, 1, 2]
    keys["state"] = [1, 2, 0, 0, 0]
    order, starts = group_contents(keys)
    assert order.tolist() == [3, 1, 4, 2, 0]
    assert starts.tolist() == [0, 2, 3, 5]


def test_joined_arrays_are_indexed_as_one(tmp_path):
    parts = [np.arange(6, dtype=np.uint32).reshape(3, 2), np.empty((0, 2), np.uint32)]
    parts.append(np.arange(6, 10, dtype=np.uint32).reshape(2, 2))
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, part in zip(paths, parts, strict=True):
        np.save(path, part)
    joined = Joined(paths, np.array([4, 0, 3]))
    assert joined[np.array([2, 0, 1, 2])].tolist() == [[6, 7], [8, 9], [0, 1], [6, 7]]
