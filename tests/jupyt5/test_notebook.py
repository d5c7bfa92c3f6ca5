"""The notebook reader: every format, every oddity that was met, and nothing but NotebookError."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from jupyt5.errors import NotebookError
from jupyt5.notebook import Cell, read_notebook, write_cell_source


def code(source: object, **fields: object) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": source,
        **fields,
    }


def document(*cells: object, **fields: object) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **fields}


def read(value: object):
    return read_notebook(json.dumps(value).encode())


def sources(value: object) -> list[str]:
    return [cell.source for cell in read(value).cells]


def test_source_as_string_or_list_of_lines():
    assert sources(document(code("a\nb"), code(["a\n", "b"]), code([]), code(""))) == [
        "a\nb",
        "a\nb",
        "",
        "",
    ]


def test_kinds_ids_and_metadata():
    notebook = read(
        document(
            code("x", id="c1", metadata={"tags": ["t"]}),
            {"cell_type": "markdown", "source": "# T"},
            {"cell_type": "raw", "source": "r", "metadata": {}},
            {"cell_type": "hologram", "source": "h"},
            {"source": "no type"},
        )
    )
    assert [cell.kind for cell in notebook.cells] == ["code", "markdown", "raw", "raw", "raw"]
    assert notebook.cells[0] == Cell("c1", "code", "x", {"tags": ["t"]})
    assert notebook.cells[1].id is None
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)


@pytest.mark.parametrize("nbformat", [2, 3])
def test_old_worksheets_and_headings(nbformat: int):
    old = {
        "nbformat": nbformat,
        "nbformat_minor": 0,
        "metadata": {"name": "old"},
        "worksheets": [
            {
                "cells": [
                    {"cell_type": "heading", "level": 2, "source": ["Title"]},
                    {"cell_type": "heading", "level": 99, "source": "Deep"},
                    {"cell_type": "code", "language": "python", "input": ["x = 1\n", "y"]},
                ]
            },
            {"cells": [{"cell_type": "markdown", "source": "second sheet"}]},
        ],
    }
    notebook = read(old)
    assert [cell.source for cell in notebook.cells] == [
        "## Title",
        "###### Deep",
        "x = 1\ny",
        "second sheet",
    ]
    assert [cell.kind for cell in notebook.cells] == ["markdown", "markdown", "code", "markdown"]
    assert notebook.language == "python"


@pytest.mark.parametrize(
    ("metadata", "language", "kernel"),
    [
        ({"kernelspec": {"name": "ir", "display_name": "R"}}, "r", "ir"),
        (
            {"language_info": {"name": "Julia"}, "kernelspec": {"name": "julia-1"}},
            "julia",
            "julia-1",
        ),
        ({"kernelspec": {"name": "python2"}}, "python", "python2"),
        ({"kernelspec": {"name": "k", "language": "Python"}}, "python", "k"),
        ({"kernelspec": "broken", "language_info": 3}, None, None),
        ({}, None, None),
    ],
)
def test_language_and_kernel(metadata: object, language: str | None, kernel: str | None):
    notebook = read(document(metadata=metadata))
    assert (notebook.language, notebook.kernel) == (language, kernel)


@pytest.mark.parametrize(
    "cells",
    [None, [None, 3, "x", [1]], [{}], [{"source": None}], [{"source": [1, None]}]],
)
def test_strange_cells_are_no_reason_to_stop(cells: object):
    for cell in read(document() | {"cells": cells}).cells:
        assert cell.source == ""


@pytest.mark.parametrize("cells", [3, "cells", {}, {"cell_type": "code"}, "x" * 10_000])
def test_cells_that_are_no_list_are_refused(cells: object):
    with pytest.raises(NotebookError, match=r"its cells are .{1,50}, not a list") as caught:
        read(document() | {"cells": cells})
    assert str(caught.value).endswith(caught.value.advice)


def test_missing_fields():
    assert read({"cells": [], "nbformat": 4}).cells == ()
    assert sources({"cells": [code("x")]}) == ["x"]  # no nbformat at all, but cells
    assert read(document(metadata=None)).metadata == {}
    assert read(document(code("x", metadata=[1]))).cells[0].metadata == {}


def test_byte_order_mark_and_utf16():
    text = json.dumps(document(code("é")), ensure_ascii=False)
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        assert read_notebook(text.encode(encoding)).cells[0].source == "é"


def test_lone_surrogates_become_encodable():
    raw = (
        b'{"cells": [{"cell_type": "code", "source": "a\\ud83d b \\ud83d\\ude00"}], "nbformat": 4}'
    )
    source = read_notebook(raw).cells[0].source
    assert source == "a\ufffd b 😀"
    source.encode("utf-8")


def test_numbers_that_json_does_not_have():
    raw = (
        b'{"cells": [{"cell_type": "code", "source": "x"}], "nbformat": 4, "metadata": {"n": NaN}}'
    )
    assert read_notebook(raw).cells[0].source == "x"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "nbformat is missing"),
        (b'{"nbformat": 1, "cells": []}', "nbformat is 1"),
        (b'{"nbformat": "four"}', "nbformat is four"),
        (b"\xff\xfe\xff", "not valid JSON"),
        (b"\x89PNG\r\n", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b'{"a":' * 200_000, "not valid JSON"),
        (b"<<<<<<< HEAD\n{}", "not valid JSON"),
    ],
)
def test_damaged_files_are_named_with_the_reason(raw: bytes, reason: str):
    with pytest.raises(NotebookError, match=reason) as caught:
        read_notebook(raw, name="lab/one.ipynb")
    assert str(caught.value).startswith("lab/one.ipynb")


def test_unreadable_paths(tmp_path: Path):
    for path in (tmp_path / "none.ipynb", tmp_path, str(tmp_path / "a\x00b")):
        with pytest.raises(NotebookError, match="cannot be read"):
            read_notebook(path)


def test_roles_from_nbgrader_metadata():
    notebook = read(
        document(
            code("s", metadata={"nbgrader": {"solution": True, "grade": False}}),
            code("g", metadata={"nbgrader": {"solution": False, "grade": True}}),
            code("t", metadata={"task_id": "dsp/1"}),
            code("c", metadata={"nbgrader": {"schema_version": 1, "locked": True}}),
            code("x", metadata={"nbgrader": "old"}),
        )
    )
    assert [cell.role for cell in notebook.cells] == ["solution", "grading", "solution", None, None]


# --- writing ---


def save(path: Path, value: object, *, indent: int | None = 1, ascii_only: bool = False) -> bytes:
    raw = (json.dumps(value, indent=indent, ensure_ascii=ascii_only) + "\n").encode()
    path.write_bytes(raw)
    return raw


def test_write_changes_nothing_but_the_source(tmp_path: Path):
    path = tmp_path / "n.ipynb"
    before = document(
        code("a = 'é'", id="a", metadata={"source": ["trap"]}),
        code(
            ["old\n", "lines"],
            id="b",
            metadata={"tags": ["keep"], "slideshow": {"slide_type": "slide"}},
            execution_count=7,
            outputs=[{"output_type": "stream", "name": "stdout", "text": ["old\n"]}],
        ),
        code("z", id="c"),
        metadata={"source": "trap", "cells": [{"source": "trap"}], "n": 1.0},
    )
    save(path, before)
    write_cell_source(path, 1, "new\n\nlines")
    after = copy.deepcopy(before)
    after["cells"][1]["source"] = ["new\n", "\n", "lines"]
    assert path.read_bytes() == (json.dumps(after, indent=1, ensure_ascii=False) + "\n").encode()


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("old", ["", "x = 1", [], ["x = 1"], ["x\n", "y"]])
def test_the_rest_of_the_file_is_byte_equal(
    tmp_path: Path, indent: int | None, ascii_only: bool, old: object
):
    path = tmp_path / "n.ipynb"
    raw = save(
        path, document(code("é\u2028"), code(old), code("ß")), indent=indent, ascii_only=ascii_only
    )
    write_cell_source(path, 1, "n = 'ü'\nm\u2028 = 2")
    written = path.read_bytes()
    assert [cell.source for cell in read_notebook(path).cells] == [
        "é\u2028",
        "n = 'ü'\nm\u2028 = 2",
        "ß",
    ]
    same_start = next(i for i, (a, b) in enumerate(zip(raw, written, strict=False)) if a != b)
    same_end = next(
        i for i, (a, b) in enumerate(zip(raw[::-1], written[::-1], strict=False)) if a != b
    )
    removed, added = raw[same_start : len(raw) - same_end], written[same_start:-same_end]
    assert b"cell_type" not in removed + added
    assert b"metadata" not in removed + added


def test_line_ends_of_the_list_are_those_of_jupyter(tmp_path: Path):
    """Jupyter splits a source wherever Python's `splitlines` does."""
    path = tmp_path / "n.ipynb"
    save(path, document(code(["x"])))
    write_cell_source(path, 0, "a\x0cb\u2028c\nd")
    assert json.loads(path.read_bytes())["cells"][0]["source"] == [
        "a\x0c",
        "b\u2028",
        "c\n",
        "d",
    ]


def test_byte_order_mark_survives_a_write(tmp_path: Path):
    path = tmp_path / "n.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(document(code("x"))).encode())
    write_cell_source(path, 0, "y")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_notebook(path).cells[0].source == "y"


def test_write_skips_what_is_no_cell(tmp_path: Path):
    path = tmp_path / "n.ipynb"
    save(path, document(None, code("a"), 3, code("b")))
    assert [cell.source for cell in read_notebook(path).cells] == ["a", "b"]
    write_cell_source(path, 1, "c")
    assert [cell.source for cell in read_notebook(path).cells] == ["a", "c"]


@pytest.mark.parametrize(
    ("value", "cell_idx", "reason"),
    [
        ({"nbformat": 3, "worksheets": [{"cells": [code("x")]}]}, 0, "nbconvert"),
        (document(code("x")), 1, "no cell 1"),
        (document(code("x")), -1, "no cell -1"),
        (document(), 0, "no cell 0"),
        (document({"cell_type": "code"}), 0, "no source"),
        (document() | {"cells": {}}, 0, "not a list"),
    ],
)
def test_a_refused_write_leaves_the_file(tmp_path: Path, value: object, cell_idx: int, reason: str):
    path = tmp_path / "n.ipynb"
    raw = save(path, value)
    with pytest.raises(NotebookError, match=reason):
        write_cell_source(path, cell_idx, "y")
    assert path.read_bytes() == raw
    assert list(tmp_path.iterdir()) == [path]


def test_a_doubled_key_is_written_where_it_counts(tmp_path: Path):
    """JSON keeps the last of two equal keys; the write must change that one."""
    path = tmp_path / "n.ipynb"
    path.write_text(
        '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "a", "source": "b"}]}'
    )
    assert read_notebook(path).cells[0].source == "b"
    write_cell_source(path, 0, "c")
    assert read_notebook(path).cells[0].source == "c"


def test_a_lone_surrogate_is_written_as_a_replacement(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": [{"cell_type": "code", "source": ""}], "nbformat": 4}')
    write_cell_source(path, 0, "x = '\ud800'")
    assert read_notebook(path).cells[0].source == "x = '\ufffd'"
