"""One imported model for tests that only read it."""

from pathlib import Path

import pytest
import torch

from jupyt5.cli import main

from .fairseq_model import Written, write_fairseq


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    torch.set_num_threads(1)
    return write_fairseq(tmp_path_factory.mktemp("fairseq"))


@pytest.fixture(scope="session")
def imported(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "bart"
    assert main(["import-fairseq", *written.arguments, "--licence", "MIT", "--out", str(out)]) == 0
    return out
