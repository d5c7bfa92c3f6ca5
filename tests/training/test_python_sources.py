"""Functions of Python files: how they are split, kept apart, and learned from."""

import argparse
import ast
import inspect
import textwrap
import typing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jupyt5.errors import TrainingError
from jupyt5.model.checkpoint import FormatterSettings
from jupyt5_training.arrays import load_arrays, load_data_tokenizer, read_data_info
from jupyt5_training.examples import ExampleConfig, ExampleMaker
from jupyt5_training.prepare import PrepareConfig
from jupyt5_training.python_sources import FunctionParts, find_functions, prepare_python
from jupyt5_training.recipes import Recipe
from jupyt5_training.runs import run_recipe

CONFIG = PrepareConfig(vocab_size=350)

MODULE = '''
import os

def add(a: int, b=(lambda: 1)()) -> dict[str, int]:  # says what
    """Add two numbers.

        Indented line.

    Last line.
    """
    # First, the sum.
    c = a + b
    return {"c": c}


class Grid:
    @property
    async def size(
        self,
        é="ü:",
    ):
        text = """
  less indent
        """
        def inner():
            return 1
        return text, inner

    def stub(self): ...

    def documented(self):
        """Only this."""

    def short(self): return 1

    def colon(self):
        "Doc."; x = 1

try:
    pass
except ImportError:
    def fallback():
        return None
'''


def test_functions_are_split_into_their_parts() -> None:
    add, size, fallback = find_functions(MODULE)
    assert add == FunctionParts(
        "def add(a: int, b=(lambda: 1)()) -> dict[str, int]:",
        "Add two numbers.\n\n    Indented line.\n\nLast line.",
        '# First, the sum.\nc = a + b\nreturn {"c": c}',
    )
    assert size == FunctionParts(
        'async def size(\n    self,\n    é="ü:",\n):',
        "",
        'text = """\n  less indent\n"""\ndef inner():\n    return 1\nreturn text, inner',
    )
    assert fallback == FunctionParts("def fallback():", "", "return None")


def test_what_is_not_python_3_is_an_error_here() -> None:
    with pytest.raises(SyntaxError):
        list(find_functions("print 'hello'"))
    assert list(find_functions('def f():\n    "\\ud800"\n    return 1\n')) == []


def test_the_parts_of_real_functions_are_valid_python() -> None:
    for module in (argparse, textwrap, typing):
        functions = list(find_functions(inspect.getsource(module)))
        assert len(functions) > 5
        for parts in functions:
            body = textwrap.indent(parts.body, "    ")
            tree = ast.parse(f"{parts.signature}\n    {parts.docstring!r}\n{body}\n")
            assert len(tree.body) == 1
            assert "\n    " not in parts.signature.split(")")[-1]


@pytest.fixture(scope="module")
def python_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    for number in range(120):
        path = folder / "src" / f"repo{number}" / "module.py"
        path.parent.mkdir(parents=True)
        path.write_text(
            f'def f{number}(x):\n    """Add {number} to x."""\n    # sum\n    return x + {number}\n'
        )
    (folder / "src" / "repo0" / "old.py").write_text("print 'Python 2'\n")
    (folder / "src" / "repo1" / "latin.py").write_bytes(b"x = '\xe9'\n")
    prepare_python(folder / "src", folder / "data", CONFIG)
    return folder / "data"


def make(data: Path, position: int, **changes: int) -> tuple[str, str]:
    tokenizer = load_data_tokenizer(data)
    formatter = FormatterSettings(num_context_cells=2, num_following_cells=2, **changes)
    config = ExampleConfig(formatter=formatter, prefix_rate=0.0, suffix_rate=0.0)
    example = ExampleMaker(load_arrays(data, "train"), tokenizer, config).make(
        position, seed=0, epoch=0
    )
    names = {idx: code for code, idx in tokenizer.special.control.items()}
    names |= {0: "<s>", 2: "</s>", 4: "<mask>"}
    source = "".join(names.get(int(i)) or tokenizer.decode([int(i)]) for i in example.source_ids)
    return source, tokenizer.decode(example.target_ids.tolist())


def test_each_part_is_infilled_from_the_others(python_data: Path) -> None:
    arrays, tokenizer = load_arrays(python_data, "train"), load_data_tokenizer(python_data)
    signature = tokenizer.decode(arrays.cell(0).tolist())
    number = signature[5 : signature.index("(")]
    docstring, body = f"Add {number} to x.", f"# sum\nreturn x + {number}"
    assert make(python_data, 0) == (
        f"<s><signature><signature><mask><docstring>{docstring}<code>{body}</s>",
        signature,
    )
    assert make(python_data, 1) == (
        f"<s><docstring><signature>{signature}<docstring><mask><code>{body}</s>",
        docstring,
    )
    assert make(python_data, 2) == (
        f"<s><code><signature>{signature}<docstring>{docstring}<code># sum<mask></s>",
        f"\nreturn x + {number}",
    )


def test_repositories_are_held_out_whole(python_data: Path) -> None:
    counts = read_data_info(python_data)["counts"]
    train, validation = counts["train"], counts["validation"]  # type: ignore[index]
    assert train["notebooks"] + validation["notebooks"] == 120
    assert 1 <= validation["notebooks"] <= 8
    assert train["cells"] == 3 * train["notebooks"]
    assert train["code_cells"] == train["notebooks"]


def test_parquet_rows_give_the_same_arrays(python_data: Path, tmp_path: Path) -> None:
    folder = python_data.parent / "src"
    rows = [
        {"content": path.read_text(), "repo_name": path.parent.name, "stars": 1}
        for path in sorted(folder.rglob("module.py"))
    ]
    (tmp_path / "src").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "src" / "a.parquet")
    prepare_python(tmp_path / "src", tmp_path / "data", CONFIG)
    for name in ("train.tokens.bin", "train.kinds.npy", "validation.cells.npy", "tokenizer.json"):
        assert (tmp_path / "data" / name).read_bytes() == (python_data / name).read_bytes()


def test_a_run_learns_from_functions(python_data: Path, recipe: Recipe, tmp_path: Path) -> None:
    formatter = FormatterSettings(
        num_context_cells=2, num_following_cells=2, source_budget_tokens=96, max_target_tokens=32
    )
    examples = ExampleConfig(formatter=formatter, context_draw="random")
    result = run_recipe(replace(recipe, examples=examples), python_data, tmp_path, resume=False)
    assert result["validation_loss_end"] < result["validation_loss_start"]  # type: ignore[operator]


def test_few_folders_are_split_by_file(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / f"m{number}.py").write_text(f"def f(x):\n    return x + {number}\n")
    info = prepare_python(tmp_path, tmp_path / "data", CONFIG)
    assert 1 <= info["counts"]["validation"]["notebooks"] <= 9  # type: ignore[index]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no \.py and no \.parquet"):
        prepare_python(tmp_path, tmp_path / "out", CONFIG)
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(TrainingError, match="no column 'content', only: text"):
        prepare_python(tmp_path, tmp_path / "out", CONFIG)
    assert not (tmp_path / "out").exists()
