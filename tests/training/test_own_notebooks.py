"""What of a person's notebooks is learnt from, and what is held out."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jupyt5.errors import TrainingError
from jupyt5_training.own_notebooks import read_own_notebooks

from .own_folder import make_cell, well_cells, write_notebook, write_wells


def sources(folder: Path) -> list[str]:
    found = read_own_notebooks([folder])
    return [source for document in found.documents for source in document.sources]


def test_about_a_tenth_is_held_out_and_the_same_each_time(tmp_path: Path):
    write_wells(tmp_path, 40)
    found = read_own_notebooks([tmp_path])
    splits = [document.split for document in found.documents]
    assert 4 <= splits.count("validation") <= 6
    assert found.counts["notebooks"] == 40
    assert found.counts["cells"] == 40 * 8
    assert read_own_notebooks([tmp_path]) == found
    write_notebook(tmp_path / "well-7.ipynb", well_cells(77))
    assert read_own_notebooks([tmp_path]).sha256 != found.sha256


def test_damaged_notebooks_are_named_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    write_wells(tmp_path, 3)
    (tmp_path / "cut.ipynb").write_text('{"cells": [')
    (tmp_path / "list.ipynb").write_text("[]")
    (tmp_path / "gone.ipynb").symlink_to(tmp_path / "nowhere")
    counts = read_own_notebooks([tmp_path]).counts
    assert (counts["notebooks"], counts["damaged"]) == (3, 3)
    for name in ("cut.ipynb", "list.ipynb", "nowhere"):
        assert name in caplog.text


def test_cells_that_are_no_python_are_left_out(tmp_path: Path):
    write_wells(tmp_path, 2)
    cells = [
        make_cell("raw", "raw text"),
        make_cell("code", "  \n"),
        make_cell("code", "%%bash\nls"),
        make_cell("code", "%%time\nslow()"),
        make_cell("code", "x = [" + "0, " * 10_000 + "]"),
        make_cell("markdown", "See ![it](data:image/png;base64,iVBORw0KGgo=) here."),
        make_cell(
            "code",
            "show()",
            outputs=[{"output_type": "stream", "name": "stdout", "text": "a secret output"}],
        ),
    ]
    write_notebook(tmp_path / "mixed.ipynb", cells)
    found = sources(tmp_path)
    assert found[:3] == ["%%time\nslow()", "See ![it]() here.", "show()"]
    assert len(found) == 3 + 2 * 8
    counts = read_own_notebooks([tmp_path]).counts
    assert (counts["huge_cells"], counts["other_language_cells"]) == (1, 1)
    assert "secret" not in "".join(found)


def test_notebooks_of_other_languages_are_left_out(tmp_path: Path):
    write_wells(tmp_path, 2)
    for name, language in (("r", "R"), ("j", "julia"), ("p", "python")):
        cells = [make_cell("code", f"{name} = {part}") for part in range(2)]
        write_notebook(tmp_path / f"{name}.ipynb", cells, kernelspec={"language": language})
    counts = read_own_notebooks([tmp_path]).counts
    assert (counts["notebooks"], counts["other_language"]) == (3, 2)


def test_checkpoints_and_hidden_folders_are_not_looked_into(tmp_path: Path):
    write_wells(tmp_path / "a" / "b", 3)
    for folder in (".ipynb_checkpoints", ".venv/lib", "lib/site-packages/x"):
        write_wells(tmp_path / folder, 1)
    (tmp_path / "notes.txt").write_text("x")
    assert read_own_notebooks([tmp_path]).counts["notebooks"] == 3


def test_several_folders_and_a_file(tmp_path: Path):
    one, other = write_wells(tmp_path / "one", 2), write_wells(tmp_path / "other", 2)
    found = read_own_notebooks([one, other, one, one / "well-0.ipynb"])
    assert found.counts["notebooks"] == 4  # of the same names, and the same file once only


@pytest.mark.parametrize("first", ["a-copy", "z-copy"])
def test_versions_of_a_notebook_stay_on_one_side(tmp_path: Path, first: str):
    write_wells(tmp_path, 20)
    for number in range(20):
        cells = well_cells(number)
        cells[1] = make_cell("code", f"changed = {number}\nsomething_else_altogether({number})")
        write_notebook(tmp_path / f"{first}-{number}.ipynb", cells)
    found = read_own_notebooks([tmp_path])
    side: dict[str, str] = {}
    for document in found.documents:
        last = document.sources[-1]
        assert side.setdefault(last, document.split) == document.split
    assert {"train", "validation"} == set(side.values())


def test_nothing_to_learn_from(tmp_path: Path):
    with pytest.raises(TrainingError, match=r"There is no folder .*nowhere"):
        read_own_notebooks([tmp_path / "nowhere"])
    with pytest.raises(TrainingError, match=r"holds no notebook to learn from\. At least two are"):
        read_own_notebooks([tmp_path])
    (tmp_path / "cut.ipynb").write_text("{")
    write_notebook(tmp_path / "one-cell.ipynb", [make_cell("code", "x = 1")])
    write_notebook(tmp_path / "r.ipynb", well_cells(1), kernelspec={"language": "R"})
    why = r"1 could not be read, 1 are in another language than Python, 1 have no two cells"
    with pytest.raises(TrainingError, match=rf"\({why}\)"):
        read_own_notebooks([tmp_path])
    write_wells(tmp_path, 1)
    with pytest.raises(TrainingError, match="holds 1 notebooks"):
        read_own_notebooks([tmp_path])
    write_notebook(tmp_path / "copy.ipynb", well_cells(0))
    with pytest.raises(TrainingError, match="two that are not copies of each other are needed"):
        read_own_notebooks([tmp_path])
