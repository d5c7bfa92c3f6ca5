"""Token arrays: what is kept, counted, and refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jupyt5.errors import TrainingError, UsageError
from jupyt5_training.arrays import load_arrays, load_data_tokenizer, read_data_info
from jupyt5_training.prepare import PrepareConfig, prepare


def test_cells_come_back_and_blank_and_raw_ones_are_left_out(data: Path) -> None:
    arrays, tokenizer = load_arrays(data, "train"), load_data_tokenizer(data)
    assert arrays.num_notebooks == 40  # the Julia notebook is not Python
    assert len(arrays.kinds) == 40 * 12
    assert arrays.kind(0) == "markdown"
    assert tokenizer.decode(arrays.cell(1).tolist()) == "# step 0\nv0_0 = 0 + 0\nprint(v0_0)"
    assert arrays.tokens.dtype == np.uint16


def test_splits_are_apart(data: Path) -> None:
    counts = read_data_info(data)["counts"]
    assert counts["validation"]["notebooks"] == 6  # type: ignore[index]
    assert counts["train"]["notebooks"] == 40  # type: ignore[index]


def test_copies_are_targets_only_so_often(corpus: Path, tmp_path: Path) -> None:
    info = prepare(corpus, tmp_path / "a", PrepareConfig(vocab_size=400, language="all"))
    train = info["counts"]["train"]  # type: ignore[index]
    # Notebook 7 is there twice: with two copies allowed all its cells stay targets.
    assert train["targets"] == train["cells"]
    config = PrepareConfig(vocab_size=400, language="all", max_target_copies=1)
    train = prepare(corpus, tmp_path / "b", config)["counts"]["train"]  # type: ignore[index]
    assert train["targets"] == train["cells"] - 12


def test_markdown_focused_only(corpus: Path, tmp_path: Path) -> None:
    config = PrepareConfig(vocab_size=400, markdown_focused_only=True)
    assert prepare(corpus, tmp_path / "a", config)["counts"]["train"]["notebooks"] == 20  # type: ignore[index]


def test_two_runs_are_byte_identical(corpus: Path, data: Path, tmp_path: Path) -> None:
    prepare(corpus, tmp_path / "again", PrepareConfig(vocab_size=400))
    for path in data.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_errors_say_what_to_do_and_leave_nothing(corpus: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="jupyt5-corpus build"):
        prepare(tmp_path, tmp_path / "out", PrepareConfig())
    with pytest.raises(TrainingError, match="No training cell"):
        prepare(corpus, tmp_path / "out", PrepareConfig(vocab_size=400, language="cobol"))
    assert not list(tmp_path.iterdir())
    with pytest.raises(TrainingError, match="jupyt5-train prepare"):
        load_arrays(tmp_path, "train")
    (tmp_path / "data.json").write_text("[]")
    with pytest.raises(TrainingError, match="jupyt5-train prepare"):
        load_arrays(tmp_path, "train")
    info = {"dtype": "uint16", "corpus_manifest_sha256": ""}
    (tmp_path / "data.json").write_text(json.dumps(info))
    with pytest.raises(TrainingError, match="incomplete"):
        load_arrays(tmp_path, "train")
    with pytest.raises(UsageError, match="too large"):
        prepare(corpus, tmp_path / "out", PrepareConfig(vocab_size=1 << 40))
    with pytest.raises(FileExistsError):
        prepare(corpus, data, PrepareConfig(vocab_size=400))


def test_cut_arrays_are_refused(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "copy")
    tokens = copy / "train.tokens.bin"
    tokens.write_bytes(tokens.read_bytes()[:100])
    with pytest.raises(TrainingError, match="do not fit each other"):
        load_arrays(copy, "train")
    assert load_arrays(copy, "validation").num_notebooks == 6


def test_damaged_and_foreign_parquet_files_are_named(tmp_path: Path) -> None:
    shard = tmp_path / "corpus" / "data" / "part-00000.parquet"
    shard.parent.mkdir(parents=True)
    (tmp_path / "corpus" / "manifest.json").write_text("{}")
    shard.write_bytes(b"PAR1 and no more")
    with pytest.raises(TrainingError, match=r"part-00000\.parquet cannot be read"):
        prepare(tmp_path / "corpus", tmp_path / "out", PrepareConfig())
    pq.write_table(pa.table({"language": ["python"], "cells": [[]]}), shard)
    with pytest.raises(TrainingError, match="no column 'split', 'markdown_focused'"):
        prepare(tmp_path / "corpus", tmp_path / "out", PrepareConfig())
    assert not (tmp_path / "out").exists()
