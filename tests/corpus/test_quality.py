"""Quality signals, and the limits that a recipe may set on them."""

import pytest

from jupyt5_corpus.filters.quality import Limits, compute_signals, measure
from jupyt5_corpus.row import Removal, Row, Signals


def test_signals_of_a_small_notebook(make):
    cells = make.cells(
        ("markdown", "# Title of 17 ch.\n\n- - -"), "# note\n\nx = 1\n    y = 2", ("raw", "z")
    )
    assert compute_signals(cells, "python") == Signals(
        num_code_lines=3,
        max_line_chars=17,
        mean_line_chars=(6 + 5 + 9) / 3,
        alphanumeric_fraction=(11 + 4 + 2 + 2 + 1) / (24 + 23 + 1),
        comment_fraction=1 / 3,
    )


@pytest.mark.parametrize("text", ["ab1 ", "é漢٣—", "a—b1 é", "", "\0\n\t", "İß🎉"])
def test_letters_and_digits_are_what_python_calls_so(make, text):
    signals = compute_signals(make.cells(text, text), None)
    expected = sum(map(str.isalnum, text)) / len(text) if text else 0.0
    assert signals.alphanumeric_fraction == expected


@pytest.mark.parametrize(
    ("language", "line"),
    [(None, "# x"), ("r", "# x"), ("java", "// x"), ("sql", "-- x"), ("clojure", ";; x")],
)
def test_comments_are_those_of_the_language(make, language, line):
    cells = make.cells(f"{line}\ny\n  {line}")
    assert compute_signals(cells, language).comment_fraction == 2 / 3
    assert compute_signals(cells, "matlab").comment_fraction == 0.0


def test_a_notebook_without_cells_has_no_signals_to_divide_by():
    assert compute_signals((), None) == Signals(
        num_code_lines=0,
        max_line_chars=0,
        mean_line_chars=0.0,
        alphanumeric_fraction=0.0,
        comment_fraction=0.0,
    )


@pytest.mark.parametrize("sources", [(), ("",), ("", " \n\t", ("markdown", "\u2003"))])
def test_by_default_only_notebooks_without_text_go(make, sources):
    removal = measure(make.row(cells=make.cells(*sources)))
    assert isinstance(removal, Removal)
    assert (removal.step, removal.reason) == ("quality", "no_text")
    assert removal.detail == f"{len(sources)} cells without text"


def test_by_default_anything_else_stays_and_is_measured(make):
    for source in ("x", "#" * 99_999, "!?" * 500):
        row = measure(make.row(cells=make.cells(source)))
        assert isinstance(row, Row)
        assert row.signals == compute_signals(row.cells, "python")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(), None),
        (Limits(max_line_chars=9), "long_line"),
        (Limits(max_line_chars=10), None),
        (Limits(max_mean_line_chars=7.4), "long_lines"),
        (Limits(max_mean_line_chars=7.5), None),
        (Limits(min_alphanumeric_fraction=0.9), "few_alphanumerics"),
        (Limits(min_alphanumeric_fraction=0.25), None),
        (Limits(min_comment_fraction=0.51), "few_comments"),
        (Limits(max_comment_fraction=0.49), "many_comments"),
        (Limits(min_comment_fraction=0.5, max_comment_fraction=0.5), None),
    ],
)
def test_limits(make, limits, reason):
    judged = measure(make.row(cells=make.cells("# comment!\nx = 1")), limits)
    assert (judged.reason if isinstance(judged, Removal) else None) == reason
