"""Forks of held-out repositories, by content; and what the decontamination report says."""

import json

import numpy as np
import pytest

from jupyt5_corpus.content import cell_sha256
from jupyt5_corpus.decontamination import make_entries, render_html, render_jsonl
from jupyt5_corpus.filters.holdout import find_forks, hold_out, quote
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.row import Removal

SECRET = "assert solve_triangle(3, 4) == 5 and solve_triangle(5, 12) == 13  # <b>&amp;</b>"


@pytest.mark.parametrize(
    ("held", "is_fork"),
    [
        ([1, 1, 0], True),
        ([1, 1, 0, 0], False),
        ([1], False),
        ([1, 0, 1, 1], True),
        ([0, 0], False),
        ([1, 1], True),
    ],
)
def test_a_fork_is_mostly_and_at_least_twice_held_out(held, is_fork):
    # Repository 7 is the one in question; 2 is held out altogether, 9 is innocent.
    repos = np.array([2, 2, *[7] * len(held), 9, 9, 9], np.uint32)
    is_held = np.array([1, 1, *held, 0, 0, 0], np.bool_)
    assert find_forks(repos, is_held).tolist() == ([2, 7] if is_fork else [2])


def test_no_notebooks_no_forks():
    assert find_forks(np.empty(0, np.uint32), np.empty(0, np.bool_)).size == 0


def test_a_held_out_cell_is_quoted(make):
    holdouts = Holdouts(repos={}, contents={}, cells={cell_sha256(SECRET): "DSP"})
    removal = hold_out(make.row(cells=make.cells("x = 1", SECRET)), holdouts)
    assert isinstance(removal, Removal)
    assert removal.detail == f"DSP: cell 1 is {cell_sha256(SECRET)}: {quote(SECRET)}"
    (entry,) = make_entries([removal])
    assert (entry.benchmark, entry.cell_idx, entry.problem) == ("DSP", 1, None)
    assert entry.matched_text == quote(SECRET)


def test_quotations_are_one_line_and_cut():
    assert quote(" a\n\n  b\t") == "a b"
    assert quote("x" * 5000) == "x" * 300 + "…"
    assert quote(" " * 9999) == ""


def removal_of(reason: str, detail: str, path: str = "one.ipynb") -> Removal:
    return Removal(
        repo="ann/book",
        path=path,
        commit=None,
        blob_sha=None,
        fork_of=None,
        content_hash="c" * 64,
        is_substantial=True,
        step="holdout",
        reason=reason,
        detail=detail,
    )


REMOVALS = [
    removal_of("holdout_repo", "DSP: repository ann/book"),
    removal_of("holdout_copy", "same content as ann/book/two.ipynb"),
    removal_of("holdout_near_copy", "DSP: estimated similarity 0.93 with ann/book/x: y.ipynb"),
    removal_of("holdout_near_copy", "similar to ann/book/odd: name.ipynb", "<script>.ipynb"),
    removal_of(
        "holdout_copy", "same content as a/b/x (1).ipynb (DSP: repository a/b)", "two.ipynb"
    ),
    removal_of("holdout_fork", "most of its repository is held out"),
    removal_of(
        "holdout_overlap",
        "HumanEval: 41 n-grams of 8 words of HumanEval/32; cell 3: <script>if a: b</script>",
    ),
]


def test_the_report_names_benchmark_problem_and_text():
    entries = {(each.reason, each.path): each for each in make_entries(REMOVALS)}
    found = entries["holdout_overlap", "one.ipynb"]
    assert (found.benchmark, found.problem, found.num_ngrams) == ("HumanEval", "HumanEval/32", 41)
    assert (found.cell_idx, found.matched_text) == (3, "<script>if a: b</script>")
    assert entries["holdout_repo", "one.ipynb"].benchmark == "DSP"
    assert entries["holdout_near_copy", "one.ipynb"].benchmark == "DSP"
    assert entries["holdout_near_copy", "<script>.ipynb"].benchmark is None
    assert entries["holdout_copy", "one.ipynb"].benchmark is None
    assert entries["holdout_copy", "two.ipynb"].benchmark == "DSP"
    assert entries["holdout_fork", "one.ipynb"].benchmark is None


def test_the_report_does_not_depend_on_the_order_and_lists_all():
    lines = render_jsonl(REMOVALS)
    assert lines == render_jsonl(reversed(REMOVALS))
    assert render_html(REMOVALS) == render_html(reversed(REMOVALS))
    assert len([json.loads(line) for line in lines.splitlines()]) == len(REMOVALS)


def test_nothing_in_the_page_is_code_of_a_notebook():
    page = render_html(REMOVALS).decode()
    assert "<script" not in page
    assert "<q>&lt;script&gt;if a: b&lt;/script&gt;</q>" in page
    assert "7 notebooks were removed" in page
    assert page.count("<tr>") == 2 + len(REMOVALS) + 7
    assert "0 notebooks were removed" in render_html([]).decode()
