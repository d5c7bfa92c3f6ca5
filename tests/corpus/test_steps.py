"""The steps between the reader and the writer."""

from itertools import permutations

import numpy as np
import pytest

from jupyt5_corpus.content import cell_sha256, content_hash
from jupyt5_corpus.filters.exact_duplicates import choose_keepers, rank_by_preference
from jupyt5_corpus.filters.holdout import hold_out
from jupyt5_corpus.filters.markdown_focused import mark_markdown_focused
from jupyt5_corpus.filters.normalise import normalise
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.keys import KEPT, KeyRecorder, read_keys, read_repos
from jupyt5_corpus.row import Removal
from jupyt5_corpus.steps import StepTimes, run_steps

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
    assert removal.detail.startswith(f"DSP: cell 1 is {cell_sha256(LONG)}")
    innocent = make.row(cells=make.cells("plt.show()", LONG + " "))
    assert hold_out(innocent, HOLDOUTS) == innocent


def test_same_name_under_another_owner_stays(make):
    row = make.row(repo="someone/out")
    assert hold_out(row, HOLDOUTS) == row


def test_the_kept_duplicate_does_not_depend_on_the_order(make, tmp_path):
    rows = [
        make.row(repo="aaa/fork", fork_of="zzz/book"),
        make.row(repo="bbb/book", is_old_version=True, commit="0" * 12),
        make.row(repo="ccc/book", path=".ipynb_checkpoints/one-checkpoint.ipynb"),
        make.row(repo="zzz/book", path="copies/b.ipynb"),
        make.row(repo="zzz/book", path="a.ipynb"),
    ]
    for order in permutations(rows):
        keys = keys_of(order, tmp_path)
        ranks = rank_by_preference(keys, np.zeros(5, np.bool_))
        (keeper,) = choose_keepers(np.zeros(5, np.int64), ranks, np.ones(5, np.bool_))
        assert order[keeper].path == "a.ipynb"
        assert sorted(ranks) == [0, 1, 2, 3, 4]


def test_a_duplicate_that_a_later_step_would_drop_is_not_the_one_that_stays(make, tmp_path):
    rows = [make.row(repo="aaa/unlicensed"), make.row(repo="bbb/licensed")]
    ranks = rank_by_preference(keys_of(rows, tmp_path), np.array([True, False]))
    assert choose_keepers(np.zeros(2, np.int64), ranks, np.ones(2, np.bool_)).tolist() == [1]


def test_contents_without_a_candidate_have_no_keeper(make, tmp_path):
    keys = keys_of([make.row(), make.row(content_hash="d" * 64)], tmp_path)
    ranks = rank_by_preference(keys, np.zeros(2, np.bool_))
    keepers = choose_keepers(np.array([0, 1]), ranks, np.array([False, True]))
    assert keepers.tolist() == [-1, 1]


def test_normalised_cells_have_one_kind_of_line_end_and_no_nul(make):
    untouched = make.row(cells=make.cells("x = 1\n"))
    assert normalise(untouched) is untouched
    row = make.row(cells=make.cells("a\r\nb\rc", ("markdown", "d\0e"), "ü"))
    changed = normalise(row)
    assert changed.cells == make.cells("a\nb\nc", ("markdown", "de"), "ü")
    assert changed.content_hash == content_hash(changed.cells)
    assert normalise(changed) is changed


def test_a_removed_row_passes_by_the_later_steps(make):
    def never(_row):
        pytest.fail("a later step saw a removed row")

    steps = [("holdout", lambda row: hold_out(row, HOLDOUTS)), ("never", never)]
    held = make.row(repo="held/out")
    times = StepTimes()
    last, removal = run_steps(held, steps, times)
    assert last is held
    assert removal is not None
    assert list(times.seconds) == ["holdout"]
    kept = make.row()
    assert run_steps(kept, steps[:1], times) == (kept, None)


def keys_of(rows, folder):
    """The keys of some rows, with repositories numbered in alphabetical order."""
    recorder = KeyRecorder(0)
    for row_idx, row in enumerate(rows):
        recorder.add(row, row_idx=row_idx, state=KEPT)
    recorder.write(folder / "keys.npy", folder / "repos.json")
    keys = read_keys([folder / "keys.npy"])
    names = list(read_repos(folder / "repos.json"))
    keys["repo"] = [sorted(names).index(names[number]) for number in keys["repo"]]
    return keys
