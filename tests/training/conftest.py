"""A small corpus of our own, its token arrays, and a tiny recipe."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from jupyt5.model.checkpoint import FormatterSettings
from jupyt5_training.examples import ExampleConfig
from jupyt5_training.prepare import PrepareConfig, prepare
from jupyt5_training.recipes import Recipe, find_recipe


def notebook_row(
    number: int, *, language: str = "python", split: str = "train"
) -> dict[str, object]:
    cells = []
    for part in range(6):
        name = f"v{number}_{part}"
        cells.append({"kind": "markdown", "source": f"## Step {part}\nCompute `{name}` from it."})
        cells.append(
            {"kind": "code", "source": f"# step {part}\n{name} = {number} + {part}\nprint({name})"}
        )
    cells.append({"kind": "raw", "source": "raw"})
    cells.append({"kind": "code", "source": "  \n"})
    return {
        "language": language,
        "split": split,
        "markdown_focused": number % 2 == 0,
        "cells": cells,
    }


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "data").mkdir()
    rows = [notebook_row(number) for number in range(40)]
    rows += [notebook_row(number, split="validation") for number in range(100, 106)]
    rows.append(notebook_row(7, language="julia"))
    pq.write_table(pa.Table.from_pylist(rows), folder / "data" / "part-00000.parquet")
    (folder / "manifest.json").write_text(json.dumps({"notebooks_kept": len(rows)}))
    return folder


@pytest.fixture(scope="session")
def data(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("arrays") / "data"
    prepare(corpus, out, PrepareConfig(vocab_size=400))
    return out


@pytest.fixture(scope="session")
def tests_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of notebooks with and without tests below a cell."""
    folder = tmp_path_factory.mktemp("tests-corpus")
    (folder / "data").mkdir()
    notebooks = [
        [
            ("markdown", "Write `add`, and assert that it adds."),
            ("code", "def add(a, b):\n    return a + b"),
            ("code", "assert add(1, 2) == 3"),
            ("code", "print(add(1, 1))"),
            ("code", "y = np.ones(3)"),
            ("code", "for _ in range(2):\n    np.testing.assert_allclose(y, 1)"),
            ("markdown", "Then assert nothing."),
            ("code", "z = 1"),
        ],
        [("code", "assert True"), ("code", "print('next notebook')")],
        [
            ("code", "# a\n\n  # b\n\nx = 1\n# c\ny = 2\n\nz = 3"),
            ("code", "\n\n# only\n# comments\n"),
            ("markdown", "# A title\n\n- one\n- two, which is a longer line than the others"),
            ("code", "    # indented\n    # too\nif x:\n    y = [\n        1,\n    ]\n"),
        ],
    ]
    rows = [
        {
            "language": "python",
            "split": "train",
            "markdown_focused": False,
            "cells": [{"kind": kind, "source": source} for kind, source in cells],
        }
        for cells in notebooks
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "data" / "part-00000.parquet")
    (folder / "manifest.json").write_text("{}")
    prepare(folder, folder / "arrays", PrepareConfig(vocab_size=300))
    return folder / "arrays"


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    torch.set_num_threads(1)
    debug = find_recipe("debug")
    return replace(
        debug,
        model=replace(debug.model, d_model=32, ffn_dim=64, dropout=0.1),
        examples=ExampleConfig(
            formatter=FormatterSettings(source_budget_tokens=96, max_target_tokens=32)
        ),
        steps=12,
        batch_tokens=512,
        eval_every=6,
        eval_targets=16,
        save_every=4,
        num_threads=1,
    )
