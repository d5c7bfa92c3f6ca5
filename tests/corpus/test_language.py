"""Which language a notebook is written in: by its metadata, its kernel, its cells."""

import pytest

from jupyt5_corpus.filters.language import fill_language, guess_language


@pytest.mark.parametrize(
    ("language", "kernel", "expected"),
    [
        ("python", "python3", "python"),
        ("Python3", None, "python"),
        ("ipython", "whatever", "python"),
        ("julia", "python3", "julia"),
        ("c#", ".net-csharp", "c#"),
        ("c#", ".net-fsharp", "f#"),
        ("polyglot-notebook", ".net-powershell", "powershell"),
        ("qsharp", "iqsharp", "q#"),
        ("java11", "java11", "java"),
        ("wolfram language", None, "mathematica"),
        ("a new one", None, "a new one"),
        (None, "ir", "r"),
        (None, "irkernel-of-mine", None),
        (None, "julia-1.9", "julia"),
        (None, "conda-env-tf-py", "python"),
        (None, "conda_pytorch_p310", "python"),
        (None, "py36-mooc", "python"),
        (None, "pysparkkernel", "python"),
        (None, "pyramid", None),
        (None, "xcpp17", "c++"),
        (None, "swift", "swift"),
        ("plaintext", None, None),
        (None, None, None),
    ],
)
def test_metadata_before_kernel(make, language, kernel, expected):
    row = fill_language(make.row(language=language, kernel=kernel))
    assert row.language == expected
    assert row.kernel == kernel


CELLS = {
    "python": ["import numpy as np\nx = np.zeros(3)", "for v in x:\n    print(v)", "x.sum()"],
    "r": ["library(ggplot2)", "df <- data.frame(a = c(1, 2))\nhead(df)", "ggplot(df, aes(a))"],
    "julia": ["using Plots\nx = 1:10", "function f(x)\n    x .+ 1\nend\nprintln(f(2))"],
    "scala": ["val xs = List(1, 2)", "def twice(x: Int): Int = x * 2\ncase class P(a: Int)"],
    "c++": ["#include <vector>\nstd::vector<int> v;", "std::cout << v.size();"],
    "haskell": ["import Data.List\n\nfact :: Integer -> Integer\nfact n = product [1..n]"],
    "sql": ["SELECT name, age FROM people WHERE age > 3", "DROP TABLE people"],
    "javascript": ["const a = [1, 2];\nconsole.log(a)", "let b = require('fs');"],
    "go": ['import "fmt"\n\nfunc main() {\n\tx := 3\n\tfmt.Println(x)\n}'],
    "rust": ["let mut x = 3;\nprintln!(x)", "fn twice(x: i32) -> i32 { x * 2 }"],
    "q#": ["open Microsoft.Quantum.Intrinsic;\n\noperation Hello() : Unit {\n}"],
    "powershell": ["$x = Get-ChildItem\nWrite-Host $x"],
    "clojure": ["(def x 3)\n(println x)", "(defn f [a] (+ a 1))"],
}


@pytest.mark.parametrize("language", CELLS)
def test_cells_tell_the_language_where_nothing_else_does(make, language):
    cells = make.cells(("markdown", "import this"), *CELLS[language])
    row = make.row(language=None, kernel="my-env", cells=cells)
    assert fill_language(row).language == language


@pytest.mark.parametrize(
    "sources",
    [
        [],
        [""],
        ["1 + 1", "x"],
        ["%%bash\nls -l"],
        ["%%writefile a.py\nimport numpy as np"],
        [*CELLS["python"], *CELLS["r"]],
        ["\0" * 9_999, "\ud800"],
    ],
)
def test_what_is_not_clear_stays_open(sources):
    assert guess_language(sources) is None


def test_magics_of_the_own_language_are_looked_through():
    assert guess_language(["%%time\nimport numpy as np", "%%capture out\nnp.zeros(3)"]) == "python"


def test_a_row_that_needs_no_change_is_the_same_row(make):
    row = make.row()
    assert fill_language(row) is row


def test_only_the_beginning_of_long_notebooks_is_read():
    many = ["x = y ** 2 # " + "a.b(" * 100_000] * 10_000
    assert guess_language(many) is None
