"""Token arrays on disk: every cell tokenised once, memory-mapped in training.

A folder holds for each split ``NAME`` in ``train`` and ``validation``:

- ``NAME.tokens.bin``: ids of all cells one after the other, uint16 or uint32;
- ``NAME.cells.npy``: offset of each cell in it, int64, shape (cells + 1,);
- ``NAME.kinds.npy``: each cell's kind as an index into ``KINDS``, uint8, shape (cells,);
- ``NAME.notebooks.npy``: index of each notebook's first cell, int64, shape (notebooks + 1,);
- ``NAME.targets.npy``: indices of the cells that serve as targets, int64;

and ``tokenizer.json`` and ``data.json`` (settings, counts, hash of the corpus manifest).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from jupyt5.errors import TrainingError
from jupyt5.infilling import CONTROL_CODES
from jupyt5.tokenizer import Tokenizer

__all__ = [
    "DATA_NAME",
    "KINDS",
    "SPLITS",
    "TokenArrays",
    "load_arrays",
    "load_data_tokenizer",
    "read_data_info",
]

SPLITS = ("train", "validation")
DATA_NAME = "data.json"
_INFO_KEYS = {"corpus_manifest_sha256", "dtype"}
# markdown, code; comment, docstring and signature in arrays of Python sources.
KINDS = tuple(code.strip("<>") for code in CONTROL_CODES)

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class TokenArrays:
    """One split's arrays; see the module's docstring for their shapes."""

    tokens: IntArray
    cell_offsets: IntArray
    kinds: npt.NDArray[np.uint8]
    notebook_offsets: IntArray
    targets: IntArray

    @property
    def num_notebooks(self) -> int:
        """Notebooks in the split."""
        return len(self.notebook_offsets) - 1

    def cell(self, cell_idx: int) -> IntArray:
        """Ids of one cell, a view of the memory map."""
        return self.tokens[self.cell_offsets[cell_idx] : self.cell_offsets[cell_idx + 1]]

    def kind(self, cell_idx: int) -> str:
        """One of ``KINDS``."""
        return KINDS[self.kinds[cell_idx]]


def load_arrays(folder: Path, split: str) -> TokenArrays:
    """Open one split's arrays.

    Raises:
        TrainingError: If the folder was not made by ``jupyt5-train prepare`` or is incomplete.
    """
    info = read_data_info(folder)
    dtype = np.dtype(str(info["dtype"]))
    try:
        tokens_path = folder / f"{split}.tokens.bin"
        tokens: IntArray = np.zeros(0, dtype)
        if tokens_path.stat().st_size:
            tokens = np.memmap(tokens_path, dtype=dtype, mode="r")
        loaded = {
            name: np.load(folder / f"{split}.{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("cells", "kinds", "notebooks", "targets")
        }
        num_cells = len(loaded["kinds"])
        found = [len(tokens), len(loaded["cells"]) - 1, loaded["notebooks"][-1]]
        if found != [loaded["cells"][-1], num_cells, num_cells]:
            raise ValueError(f"the {split} files do not fit each other")  # noqa: TRY301
    except (OSError, ValueError, IndexError) as exc:
        message = f"{folder} is incomplete: {exc}. Run jupyt5-train prepare again."
        raise TrainingError(message) from exc
    return TokenArrays(
        tokens, loaded["cells"], loaded["kinds"], loaded["notebooks"], loaded["targets"]
    )


def read_data_info(folder: Path) -> Mapping[str, object]:
    """Read ``data.json``.

    Raises:
        TrainingError: If it is missing or damaged.
    """
    try:
        info: object = json.loads((folder / DATA_NAME).read_text("utf-8"))
        if not isinstance(info, dict) or not info.keys() >= _INFO_KEYS:
            raise ValueError(f"{DATA_NAME} is damaged")  # noqa: TRY301
    except (OSError, ValueError) as exc:
        message = (
            f"{folder} holds no prepared data: {exc}. "
            "Make it with: jupyt5-train prepare --corpus CORPUS --out DIR"
        )
        raise TrainingError(message) from exc
    return cast("dict[str, object]", info)


def load_data_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer that made the arrays."""
    return Tokenizer.load(folder / "tokenizer.json")
