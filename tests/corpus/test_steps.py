"""The steps between the reader and the writer."""

from itertools import permutations

import pytest

from jupyt5_corpus.content import cell_sha256
from jupyt5_corpus.filters import apply_steps
from jupyt5_corpus.filters.exact_duplicates import find_clusters
from jupyt5_corpus.filters.holdout import find_copies, hold_out
from jupyt5_corpus.filters.markdown_focused import mark_markdown_focused
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.row import Removal

LONG = "assert solve_triangle(3, 4) == 5 and solve_triangle(5, 12) == 13"
HOLDOUTS = Holdouts(
    repos={"held/out": "DSP"},
    contents={"e" * 64: "OTHER"},
    cells={cell_sha256(LONG): "DSP", cell_sha256("plt.show()"): "DSP"},
)


@pytest.mark.parametrize(
    ("num_code", "num_markdown", "num_raw", "is_focused"),
    [(2, 1, 0, True), (2, 1, 1, False), (0, 3, 0, False), (1, 0, 0, False), (1, 9, 0, True)],
)
def test_markdown_focused_needs_code_and_a_third_markdown(
    make, num_code, num_markdown, num_raw, is_focused
):
    cells = make.cells(*["x"] * num_code, *[("markdown", "t")] * num_markdown, *["r"] * num_raw)
    row = make.row(cells=cells, num_code=num_code, num_markdown=num_markdown)
    assert mark_markdown_focused(row).markdown_focused is is_focused


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"repo": "Held/Out"}, "holdout_repo", "DSP: repository Held/Out"),
        ({"fork_of": "HELD/out"}, "holdout_repo", "DSP: fork of HELD/out"),
        ({"content_hash": "e" * 64}, "holdout_content", "OTHER: content eee"),
    ],
)
def test_holdout_by_repository_and_content(make, changes, reason, detail):
    removal = hold_out(make.row(**changes), HOLDOUTS)
    assert isinstance(removal, Removal)
    assert removal.reason == reason
    assert removal.detail.startswith(detail)


def test_holdout_by_cell_names_the_cell_and_skips_short_ones(make):
    removal = hold_out(make.row(cells=make.cells("x = 1", LONG)), HOLDOUTS)
    assert isinstance(removal, Removal)
    assert removal.reason == "holdout_cell"
    assert removal.detail == f"DSP: cell 1 is {cell_sha256(LONG)}"
    innocent = make.row(cells=make.cells("plt.show()", LONG + " "))
    assert hold_out(innocent, HOLDOUTS) == innocent


def test_same_name_under_another_owner_stays(make):
    row = make.row(repo="someone/out")
    assert hold_out(row, HOLDOUTS) == row


def test_copies_of_what_was_held_out_are_found_by_content(make):
    held = hold_out(make.row(repo="held/out", content_hash="1" * 64), HOLDOUTS)
    tiny = hold_out(
        make.row(repo="held/out", content_hash="2" * 64, is_substantial=False), HOLDOUTS
    )
    assert isinstance(held, Removal)
    assert isinstance(tiny, Removal)
    copies = find_copies([held, tiny])
    assert copies == {"1" * 64: "same content as held/out/one.ipynb (DSP: repository held/out)"}


def test_the_kept_duplicate_does_not_depend_on_the_order(make):
    keys = [
        make.key(row_idx=0, repo="aaa/fork", fork_of="zzz/book"),
        make.key(row_idx=1, repo="bbb/book", is_old_version=True, commit="0" * 12),
        make.key(row_idx=2, repo="ccc/book", path=".ipynb_checkpoints/one-checkpoint.ipynb"),
        make.key(row_idx=3, repo="zzz/book", path="b.ipynb"),
        make.key(row_idx=4, repo="zzz/book", path="a.ipynb"),
        make.key(row_idx=5, repo="zzz/book", path="c.ipynb", content_hash="d" * 64),
    ]
    for order in permutations(keys):
        clusters = find_clusters(order)
        assert list(clusters) == ["c" * 64]
        assert clusters["c" * 64].keeper.row_idx == 4
        assert clusters["c" * 64].num_members == 5


def test_a_removed_row_passes_by_the_later_steps(make):
    def never(_row):
        pytest.fail("a later step saw a removed row")

    kept, held = make.row(), make.row(repo="held/out")
    step = [lambda row: hold_out(row, HOLDOUTS), lambda row: row if row == kept else never(row)]
    first, second = apply_steps([kept, held], step)
    assert first == kept
    assert isinstance(second, Removal)
