"""Overlap with benchmark problems, with a benchmark of our own making."""

import gzip
import json
import random

import numpy as np
import pytest

from jupyt5.errors import CorpusError
from jupyt5_corpus.benchmark_index import NGRAM_SIZE, BenchmarkIndex
from jupyt5_corpus.benchmark_making import MAX_ORIGINS, ReferenceNotebook, make_index
from jupyt5_corpus.benchmark_sources import BenchmarkNotebook, Part
from jupyt5_corpus.cli import main
from jupyt5_corpus.filters.overlap import (
    MIN_OF_PART,
    MIN_OF_PROBLEM,
    find_overlap,
    hold_out_overlap,
)
from jupyt5_corpus.fingerprint import fingerprint
from jupyt5_corpus.ngrams import split_words
from jupyt5_corpus.row import Removal

PLACEHOLDER = "# your code goes here, and delete the line that follows\nraise NotImplementedError()"
IMPORTS = "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\nimport os, sys"
QUESTION = (
    "Given the heights of a row of trees, return how many can be seen from the left end of the "
    "row, where a tree hides every lower tree behind it and equal ones count as hidden."
)
SOLUTION = "def count_seen(heights):\n    top, seen = 0, 0\n    for h in heights:\n" + (
    "        if h > top:\n            top, seen = h, seen + 1\n    return seen"
)


def text_of(num_words: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"word{rng.randrange(10**9)}" for _ in range(num_words))


LONG = text_of(200, 1)
PARTS = [
    Part(problem="OURS/1", origin="OURS/1", text=QUESTION),
    Part(problem="OURS/1", origin="OURS/1", text=SOLUTION + "\n" + PLACEHOLDER),
    Part(problem="OURS/2", origin="OURS/2", text=f"{LONG}\n{PLACEHOLDER}\n{IMPORTS}"),
    *(
        Part(problem=f"MANY/{idx}", origin=f"MANY/{idx}", text=text_of(100, 50 + idx))
        for idx in range(9)
    ),
]


@pytest.fixture
def index(make) -> BenchmarkIndex:
    whole = BenchmarkNotebook(
        name="OURS: ann/course/one.ipynb", cells=make.cells(text_of(300, 7), text_of(60, 8))
    )
    reference = [
        ReferenceNotebook(family="a", sources=[IMPORTS, PLACEHOLDER]),
        ReferenceNotebook(family="b", sources=["x = 1", IMPORTS, PLACEHOLDER]),
    ]
    return make_index(PARTS, [whole], reference)


def search(index, *sources):
    return find_overlap(split_words(sources), index)


def test_a_problem_is_found_wherever_it_stands_and_quoted(make, index):
    cells = make.cells(
        "x = 1",
        ("markdown", f"# A walk\n\nWe saw a puzzle:\n> {QUESTION.upper()}\n\nHow would you do it?"),
    )
    row = make.row(cells=cells)
    removal = hold_out_overlap(row, fingerprint(cells), index)
    assert isinstance(removal, Removal)
    assert (removal.step, removal.reason) == ("overlap", "holdout_overlap")
    start = "OURS: 29 n-grams of 8 words of OURS/1; cell 1: "
    assert removal.detail == start + QUESTION.upper().rstrip(".")


def test_long_quotations_are_cut_and_come_from_the_longest_stretch(make, index):
    words = LONG.split()
    cells = make.cells(" ".join(words[:20]), "y\n" + "\n".join(words[30:150]) + "\nz")
    removal = hold_out_overlap(make.row(cells=cells), fingerprint(cells), index)
    assert isinstance(removal, Removal)
    quoted = removal.detail.partition("; cell 1: ")[2]
    assert quoted.endswith("…")
    assert " ".join(words[30:150]).startswith(quoted[:-1])
    assert len(quoted) == 301


def test_an_edited_problem_is_found_by_what_is_left_of_it(index):
    words = LONG.split()
    for place in range(5, len(words), 12):
        words[place] = "changed"
    assert search(index, " ".join(words)) is not None
    for place in range(0, len(words), 7):
        words[place] = "changed"
    assert search(index, " ".join(words)) is None


@pytest.mark.parametrize("num_ngrams", [MIN_OF_PROBLEM - 1, MIN_OF_PROBLEM])
def test_twenty_n_grams_of_one_problem_are_enough_nineteen_are_not(index, num_ngrams):
    found = search(index, " ".join(LONG.split()[40 : 40 + num_ngrams + NGRAM_SIZE - 1]))
    assert (found is not None) == (num_ngrams >= MIN_OF_PROBLEM)


def test_two_thirds_of_a_part_are_enough_if_they_are_six_n_grams():
    short = [text_of(9 + NGRAM_SIZE - 1, 2), text_of(5 + NGRAM_SIZE - 1, 3)]
    parts = [Part(problem="T/1", origin="T/1", text=f"{text_of(60, 4)}")] + [
        Part(problem="T/1", origin="T/1", text=text) for text in short
    ]
    index = make_index(parts, [], [])
    nine, five = (text.split() for text in short)
    assert search(index, " ".join(nine[: MIN_OF_PART + NGRAM_SIZE - 1])) is not None
    assert search(index, " ".join(nine[: MIN_OF_PART + NGRAM_SIZE - 2])) is None
    assert search(index, " ".join(five)) is None


def test_a_problem_of_short_parts_is_found_as_a_whole():
    parts = [
        Part(problem="T/1", origin="T/1", text=text_of(NGRAM_SIZE + 2, seed)) for seed in (1, 2)
    ]
    index = make_index(parts, [], [])
    assert search(index, parts[0].text) is None
    found = search(index, parts[0].text, "x = 1", parts[1].text)
    assert found is not None
    assert found.num_ngrams == MIN_OF_PART


def test_a_little_of_many_problems_of_one_benchmark_is_enough(index):
    cells = [" ".join(text_of(100, 50 + idx).split()[:12]) for idx in range(9)]
    assert search(index, *cells) is not None
    assert search(index, *cells[:7]) is None


def test_placeholders_and_imports_do_not_count(index):
    assert search(index, *[IMPORTS, PLACEHOLDER] * 3) is None
    part = Part(problem="T/1", origin="T/1", text=f"{IMPORTS}\n{PLACEHOLDER}")
    reference = [ReferenceNotebook(family=each, sources=[part.text]) for each in "abbb"]
    assert search(make_index([part], [], reference[:1]), part.text) is not None
    assert search(make_index([part], [], reference[1:]), part.text) is not None
    assert search(make_index([part], [], reference), part.text) is None


def test_what_unrelated_sources_share_is_left_out_but_not_what_copies_share():
    same = text_of(60, 5)
    for origins, is_common in ((["a"] * MAX_ORIGINS, False), (["a", "b", "c"], True)):
        parts = [
            Part(problem=f"T/{idx}", origin=origin, text=same) for idx, origin in enumerate(origins)
        ]
        assert (search(make_index(parts, [], []), same) is None) == is_common


def test_tables_of_numbers_do_not_count():
    numbers = ", ".join(map(str, range(100)))
    index = make_index([Part(problem="T/1", origin="T/1", text=f"data = [{numbers}]")], [], [])
    assert index.ngrams.size == 0
    assert search(index, f"data = [{numbers}]") is None


def test_a_whole_notebook_is_found_by_its_signature(make, index):
    words = text_of(300, 7).split()
    words[150] = "changed"
    cells = make.cells(" ".join(words), text_of(60, 8), "print('my own addition')")
    removal = hold_out_overlap(make.row(cells=cells), fingerprint(cells), index)
    assert isinstance(removal, Removal)
    assert removal.reason == "holdout_near_copy"
    assert removal.detail.startswith("OURS: estimated similarity 0.9")
    assert removal.detail.endswith(" with ann/course/one.ipynb")


def test_innocent_empty_and_tiny_notebooks_stay(make, index):
    for sources in ([], [""], ["x = 1"], [text_of(500, 9)]):
        row = make.row(cells=make.cells(*sources))
        assert hold_out_overlap(row, fingerprint(row.cells), index) == row


def test_the_file_says_the_same_and_has_no_text(index):
    data = index.dump()
    again = BenchmarkIndex.load(data)
    assert data == again.dump()
    assert again.problems == index.problems
    assert again.about == index.about
    np.testing.assert_array_equal(again.parts, index.parts)
    assert search(again, QUESTION) == search(index, QUESTION)


@pytest.mark.parametrize("cut", [0, 10, 500, -30])
def test_a_damaged_file_is_one_clear_error(index, cut):
    with pytest.raises(CorpusError, match=r"mine.npz cannot be read .*make-overlap-index"):
        BenchmarkIndex.load(index.dump()[:cut], name="mine.npz")


def test_an_index_of_other_n_grams_is_refused(index):
    data = BenchmarkIndex(
        **{name: getattr(index, name) for name in FIELDS}, about={"ngram_size": 13}
    ).dump()
    with pytest.raises(CorpusError, match="holds n-grams of 13 words, not 8"):
        BenchmarkIndex.load(data)


@pytest.mark.parametrize(
    ("benchmark", "exit_code", "message"),
    [
        ("Other=.", 2, "Other=. is not NAME=FOLDER with one of DSP, HumanEval, MBPP, BioCoder"),
        ("MBPP", 2, "MBPP is not NAME=FOLDER"),
        ("MBPP=none", 1, "MBPP cannot be read from none: FileNotFoundError"),
        ("MBPP=odd", 1, "MBPP cannot be read from odd: KeyError"),
        ("MBPP=good", 1, "none holds no corpus"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    tmp_path, monkeypatch, capsys, benchmark, exit_code, message
):
    monkeypatch.chdir(tmp_path)
    good = {"task_id": 1, "text": QUESTION, "code": SOLUTION, "test_list": []}
    good |= {"test_setup_code": "", "challenge_test_list": []}
    for folder, entry in (("odd", {"task_id": 1}), ("good", good)):
        (tmp_path / folder).mkdir()
        packed = gzip.compress(json.dumps(entry).encode())
        (tmp_path / folder / "mbpp.jsonl.gz").write_bytes(packed)
    arguments = ["make-overlap-index", benchmark, "--reference", "none", "--out", "made.npz"]
    assert main(arguments) == exit_code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "made.npz").exists()


FIELDS = (
    *("ngrams", "bounds", "parts", "part_problems", "part_sizes", "problems"),
    *("signatures", "notebooks"),
)
