# pyright: basic
"""Weights from files that nobody vouches for: safetensors, or pickles that may build little.

``torch.load(weights_only=True)`` builds tensors and plain containers; on top of those only
``argparse.Namespace`` is allowed, which is what fairseq keeps its settings in.
"""

import argparse
import json
import re
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from jupyt5.errors import CheckpointError

__all__ = ["find_weights", "load_pickle", "load_tensors", "require_tensors"]

_NAMES = ("model.safetensors", "pytorch_model.bin")
_INDEX_SUFFIX = ".index.json"


def load_pickle(path: Path) -> object:
    """Read a file of ``torch.save`` without running anything that stands in it.

    Raises:
        CheckpointError: If it is damaged, or holds anything but tensors, plain values and
            ``argparse.Namespace``.
        OSError: If the file cannot be opened.
    """
    with path.open("rb"):
        pass  # a missing file is no damaged one
    try:
        with _namespace_only(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old protocols: what cannot be read is an error
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as exc:  # a hostile file can make the reader raise anything
        raise CheckpointError(_explain(path, exc)) from exc


def load_tensors(paths: tuple[Path, ...]) -> dict[str, torch.Tensor]:
    """Read the tensors of one model from its files, safetensors or pickles.

    Raises:
        CheckpointError: If a file is damaged, hostile, or holds something else.
    """
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        if path.suffix == ".safetensors":
            try:
                tensors.update(load_file(path))
            except SafetensorError as exc:
                message = f"{path} cannot be read: {exc}. Copy the model again."
                raise CheckpointError(message) from exc
        else:
            content = load_pickle(path)
            tensors.update(require_tensors(content, path))
    return tensors


def require_tensors(content: object, path: Path) -> dict[str, torch.Tensor]:
    """Return a state dict as it is, or say that the file holds none."""
    if isinstance(content, Mapping) and content:
        tensors = {str(k): v for k, v in content.items() if isinstance(v, torch.Tensor)}
        if len(tensors) == len(content):
            return tensors
    message = f"{path} holds no state dict (names and tensors). Is it a model's weights?"
    raise CheckpointError(message)


def find_weights(folder: Path) -> tuple[Path, ...]:
    """Return the files that hold a folder's weights: safetensors first, then pickles.

    Raises:
        CheckpointError: If there are none, or an index names files outside the folder.
    """
    for name in _NAMES:
        index = folder / f"{name}{_INDEX_SUFFIX}"
        if (folder / name).is_file():
            return (folder / name,)
        if index.is_file():
            return _read_index(index)
    message = f"{folder} holds no weights: none of {', '.join(_NAMES)} is there."
    raise CheckpointError(message)


def _read_index(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        paths = tuple(index.parent / str(name) for name in names)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        message = f"{index} is damaged: {exc}. Copy the model again."
        raise CheckpointError(message) from exc
    bad = [path for path in paths if path.parent != index.parent or not path.is_file()]
    if bad:
        message = f"{index} names {bad[0].name}, which is not beside it. Copy the model again."
        raise CheckpointError(message)
    return paths


@contextmanager
def _namespace_only() -> Generator[None]:
    """Allow ``argparse.Namespace`` and take back what other libraries have allowed meanwhile."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def _explain(path: Path, exc: Exception) -> str:
    found = re.search(r"GLOBAL ([\w.]+)", str(exc))
    if found:
        return (
            f"{path} is refused: it asks for {found[1]}, and a checkpoint may hold nothing but "
            "tensors, plain values and argparse.Namespace. Nothing in it was run. If you trust "
            "where it comes from, save only its 'model' and 'args' entries again, there."
        )
    # torch's own words end in the advice to switch the check off.
    return (
        f"{path} cannot be read: it is damaged, or no file of torch.save ({type(exc).__name__}). "
        "Nothing in it was run. Copy or download it again."
    )
