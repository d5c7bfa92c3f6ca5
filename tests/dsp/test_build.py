"""The parts of a build that need neither nbgrader nor a run."""

import ast
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from jupyt5.errors import UsageError
from jupyt5.notebook import Cell, Notebook, read_notebook
from jupyt5_dsp.curation.data_files import choose_files, list_data_files
from jupyt5_dsp.curation.names import checks, defined_names, is_unfilled, parse_cell
from jupyt5_dsp.curation.nbgrader_cells import SourceCell, strip_markers
from jupyt5_dsp.curation.records import make_record, render_notebook
from jupyt5_dsp.curation.redact import empty_names
from jupyt5_dsp.curation.sources import find_notebooks, open_repositories


def parse(source: str) -> ast.Module:
    tree = parse_cell(source)
    assert tree is not None
    return tree


@pytest.mark.parametrize(
    ("source", "variables", "methods"),
    [
        ("def f(x):\n    y = 1\n    return y", {"f"}, set()),
        ("class A:\n    def __init__(self): pass\n    def go(self): pass", {"A"}, {"go"}),
        ("a, (b, *c) = 1, (2, 3)\nd: int = 1\ne += 1", set("abcde"), set()),
        ("frame['mean'] = 1\nthing.part.size = 2", {"frame", "thing"}, set()),
        ("for i in x:\n    if i:\n        with y as f:\n            z = 1", {"i", "f", "z"}, set()),
        ("try:\n    a = 1\nexcept E:\n    b = 2\nelse:\n    c = 3", set("abc"), set()),
        ("print(n := 3)", {"n"}, set()),
        ("import numpy as np\nfrom math import sin\nplt.plot(x)", set(), set()),
        ("%matplotlib inline\n!ls\nx = !pwd", {"x"}, set()),
    ],
)
def test_defined_names(source: str, variables: set[str], methods: set[str]) -> None:
    names = defined_names(parse(source))
    assert (names.variables, names.methods) == (variables, methods)


@pytest.mark.parametrize(
    "test",
    [
        "assert f(1) == 2",
        "from nose.tools import assert_equal\nassert_equal(f(1), 2)",
        "import numpy as np\nnp.testing.assert_allclose(f(1), 2)",
        "r = f(1)\ns = r + 1\nassert s == 3",
        "for r in f(3):\n    assert r",
        "try:\n    f(0)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError('no')",
        "def helper():\n    return f(1)\nassert helper() == 2",
        "class T(TestCase):\n    def test(self):\n        self.assertEqual(f(1), 2)",
        "box = [1]\nf(box)\nassert box == []",
        "Model.forward = f\nassert model.forward(1)",
        "assert all(r for r in f(1))",
        "%%time\nassert f(1)",
        "\n%%capture out\nr = f(1)\nassert r",
    ],
)
def test_assertion_refers_to_the_solution(test: str) -> None:
    assert checks([parse(test)], defined_names(parse("def f(x): ...")))


@pytest.mark.parametrize(
    "test",
    [
        "assert True",
        "print(f(1))",
        "f(1)\nassert g(1)",
        "r = f(1)\nassert 1 == 1",
        "assert 'f(1)'",
        "# assert f(1)",
        "%%bash\nassert f(1)",
    ],
)
def test_assertion_refers_to_something_else(test: str) -> None:
    assert not checks([parse(test)], defined_names(parse("def f(x): ...")))


@pytest.mark.parametrize(
    ("source", "unfilled"),
    [
        ("", True),
        ("# YOUR CODE HERE", True),
        ("# YOUR CODE HERE\nraise NotImplementedError()", True),
        ('def f(x):\n    """Do."""\n    raise NotImplementedError', True),
        ("class A:\n    def f(self):\n        pass", True),
        ("def f(x):\n    return x\n    raise NotImplementedError()", False),
        ("x = 1", False),
        ("f()", False),
    ],
)
def test_unfilled(source: str, *, unfilled: bool) -> None:
    assert is_unfilled(parse(source)) is unfilled


def test_python_2_is_no_python_3() -> None:
    assert parse_cell("print 'x'") is None


def test_markers_are_removed_and_nothing_else() -> None:
    source = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
    assert strip_markers(source) == "def f():\n    return 1"
    source = "assert f()\n# BEGIN HIDDEN TESTS\nassert f() == 1\n# END HIDDEN TESTS ###"
    assert strip_markers(source) == "assert f()\nassert f() == 1"
    for kept in ("# BEGIN SOLUTION here\n", "text = 'BEGIN SOLUTION'\n", "x = 1\n\n"):
        assert strip_markers(kept) == kept


def test_names_of_students_are_emptied() -> None:
    source = "NAME = \"Ann Onym\"\nCOLLABORATORS='Bo\"b'  # all\nEMAIL2 = ['a@b', 'c@d']\n"
    source += "GROUPNAME = '''A\nB'''\nNAMES = frame['x']\nMY_NAME = 'kept'\nNAME = 'cut"
    cells = [SourceCell(cell=Cell(None, "code", source))]
    cells.append(SourceCell(cell=Cell(None, "code", "NAME = 'answer'"), is_solution=True))
    cells.append(SourceCell(cell=Cell(None, "markdown", "NAME = 'text'")))
    emptied, answer, text = empty_names(cells)
    assert emptied.source == (
        'NAME = ""\nCOLLABORATORS=""  # all\nEMAIL2 = ""\n'
        "GROUPNAME = \"\"\nNAMES = frame['x']\nMY_NAME = 'kept'\nNAME = \"\""
    )
    assert (answer.source, text.source) == ("NAME = 'answer'", "NAME = 'text'")


def test_record_and_notebook_say_the_same(tmp_path: Path) -> None:
    sources = [
        "one",
        "two",
        "three",
        "four",
        "# hint\n\ndef f():\n    return 1",
        "assert f()",
        "assert 2",
    ]
    cells = [Cell(None, "code", source, {"task_id": "old", "x": 1}) for source in sources]
    record = make_record("T/0", "r/a.ipynb", cells, 4, [5, 6])
    assert record["prompt"] == "two\nthree\nfour\n# hint"
    assert (record["initial_comments"], record["solution"]) == (
        "# hint",
        "def f():\n    return 1",
    )
    assert record["test"] == "assert f()\nassert 2"
    path = tmp_path / "a.ipynb"
    path.write_text(render_notebook(Notebook(tuple(cells), 3, 0), cells, {4: "T/0"}))
    written = read_notebook(path)
    assert [cell.source for cell in written.cells] == sources
    assert [cell.metadata.get("task_id") for cell in written.cells] == [None] * 4 + [
        "T/0",
        None,
        None,
    ]
    assert (written.nbformat, written.kernel) == (4, "python3")


def test_files_that_a_notebook_needs(tmp_path: Path) -> None:
    for name in (
        "week/data/a.csv", "week/b.csv", "shared/c.csv", "shared/d.txt", "week/x/d.txt",
        "week/helper.py", "week/deep.py", "week/pkg/__init__.py", "week/pkg/part.py",
        "week/pic.png", "opened/e.bin", "week/list/1.txt", "week/list/2.txt", "week/unused.csv",
        "week/.secret", "shell.csv",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "week" / "link.csv").symlink_to("/etc/passwd")
    sources = [
        "import helper, os\nfrom pkg.part import x\nopen('data/a.csv')\nopen('../shared/c.csv')",
        "open(os.path.join(folder, 'b.csv'))\nopen('d.txt')\nopen('link.csv')\nopen('.secret')",
        "open('../../../etc/passwd')\n!head ../shell.csv",
    ]
    cells = [Cell(None, "code", source) for source in sources]
    cells.append(Cell(None, "markdown", "![](pic.png)"))
    files = list_data_files(tmp_path)
    path = PurePosixPath("week/a.ipynb")
    opened = ["opened/e.bin", "week/list", "week/__pycache__/deep.cpython-311.pyc", "none"]
    chosen = [str(one) for one in choose_files(files, path, cells, opened)]
    assert chosen == [
        "opened/e.bin", "shared/c.csv", "shell.csv", "week/b.csv", "week/data/a.csv",
        "week/deep.py", "week/helper.py", "week/list/1.txt", "week/list/2.txt", "week/pic.png",
        "week/pkg/__init__.py", "week/pkg/part.py",
    ]  # fmt: skip


def test_repositories_are_named_and_their_tokens_are_not(tmp_path: Path) -> None:
    clone = tmp_path / "x" / "course"
    clone.mkdir(parents=True)
    (clone / "LICENSE.txt").write_text("MIT")
    (tmp_path / "y" / "course").mkdir(parents=True)
    for command in (
        ["init", "--quiet"],
        ["remote", "add", "origin", "https://ann:secret@example.org/ann/homework.git"],
        ["-c", "user.name=T", "-c", "user.email=t@e.org", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *command], cwd=clone, check=True)
    cloned, plain = open_repositories([clone, tmp_path / "y" / "course"])
    assert (cloned.name, plain.name) == ("ann.homework", "course")
    assert cloned.url == "https://example.org/ann/homework.git"
    assert len(cloned.commit) == 40
    assert cloned.licence_files == ("LICENSE.txt",)
    assert (plain.url, plain.commit, plain.licence_files) == ("", "", ())


def test_course_is_read_at_its_source(tmp_path: Path) -> None:
    for name in (
        "source/ps1/a.ipynb", "release/ps1/a.ipynb", "submitted/bob/ps1/a.ipynb", "b.ipynb",
        "source/.ipynb_checkpoints/a-checkpoint.ipynb", ".git/c.ipynb", ".local/d.ipynb",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (repository,) = open_repositories([tmp_path])
    found = {str(one.path): one.left_out for one in find_notebooks(repository)}
    assert [path for path, reason in found.items() if not reason] == [
        "b.ipynb",
        "source/ps1/a.ipynb",
        ".local/d.ipynb",
    ]
    assert "source/, not in submitted/" in found["submitted/bob/ps1/a.ipynb"]
    assert "checkpoint" in found["source/.ipynb_checkpoints/a-checkpoint.ipynb"]
    assert not any(path.startswith(".git") for path in found)


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for paths, text in (
        ([tmp_path / "none"], "does not exist"),
        ([tmp_path / "file"], "not a folder"),
        ([tmp_path, tmp_path / "."], "given twice"),
    ):
        with pytest.raises(UsageError, match=text):
            open_repositories(paths)
