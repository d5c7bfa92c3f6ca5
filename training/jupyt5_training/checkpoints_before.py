# pyright: basic
"""Training checkpoints: everything needed to go on exactly, without pickles.

``RUN/checkpoints/step-00000500/`` is a usable checkpoint folder that also holds
``optimizer.safetensors`` (AdamW's moments) and ``state.json`` (counters). It is written under a
temporary name and renamed, so a folder that exists is complete.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import BartForConditionalGeneration

from jupyt5.errors import TrainingError
from jupyt5.files import atomic_folder, write_atomic
from jupyt5.model.checkpoint import TOKENIZER_NAME, CheckpointMeta, write_meta
from jupyt5.model.seq2seq import load_model, save_model
from jupyt5.tokenizer import Tokenizer

__all__ = ["copy_model", "load_training", "prune", "save_training"]

_STATE_NAME = "state.json"
_OPTIMIZER_NAME = "optimizer.safetensors"
_RNG_KEY = "rng.torch"
_CUDA_RNG_KEY = "rng.cuda"
_RUNTIME_NAMES = (_STATE_NAME, _OPTIMIZER_NAME)


def save_training(
    run: Path,
    model: BartForConditionalGeneration,
    optimizer: torch.optim.Optimizer,
    *,
    tokenizer: Tokenizer,
    meta: CheckpointMeta,
    progress: "Progress",  # noqa: F821
) -> Path:
    """Write the checkpoint of ``progress.step`` and return its folder."""
    path = run / "checkpoints" / f"step-{progress.step:08d}"
    if path.exists():
        return path
    try:
        with atomic_folder(path) as folder:
            save_model(model, folder)
            tokenizer.save(folder / TOKENIZER_NAME)
            write_meta(folder, meta)
            save_file(_flatten(model, optimizer), folder / _OPTIMIZER_NAME)
            write_atomic(folder / _STATE_NAME, json.dumps(asdict(progress), indent=2) + "\n")
    except SafetensorError as exc:  # what a full disk is to this library
        message = f"{path} cannot be written: {exc}. Free some space and go on with --resume."
        raise TrainingError(message) from exc
    return path


def load_training(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer):
    """Load a checkpoint into a model and an optimizer built for it.

    Raises:
        TrainingError: If the checkpoint is damaged or of another model.
    """
    from jupyt5_training.checkpoints import Progress

    try:
        model.load_state_dict(load_model(path).state_dict())
        tensors = load_file(path / _OPTIMIZER_NAME)
        torch.set_rng_state(tensors.pop(_RNG_KEY))
        if _CUDA_RNG_KEY in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[_CUDA_RNG_KEY])
        _unflatten(model, optimizer, tensors)
        fields = json.loads((path / _STATE_NAME).read_text("utf-8"))
        return Progress(**fields)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as exc:
        message = f"{path} cannot be resumed from: {exc}. Remove it to go back to the one before."
        raise TrainingError(message) from exc


def prune(run: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints."""
    from jupyt5_training.checkpoints import find_checkpoints

    for path in find_checkpoints(run)[: -max(1, keep)]:
        shutil.rmtree(path)


def copy_model(checkpoint: Path, out: Path) -> None:
    """Copy a checkpoint without its training state; replaces an older ``out``."""
    shutil.rmtree(out, ignore_errors=True)
    with atomic_folder(out) as folder:
        for path in checkpoint.iterdir():
            if path.name not in _RUNTIME_NAMES:
                shutil.copyfile(path, folder / path.name)


def _flatten(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tensors = {_RNG_KEY: torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors[_CUDA_RNG_KEY] = torch.cuda.get_rng_state()
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            tensors[f"{key}/{names[id(parameter)]}"] = torch.as_tensor(value).detach().clone()
    return tensors


def _unflatten(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]
) -> None:
    for name, parameter in model.named_parameters():
        keys = [key for key in tensors if key.partition("/")[2] == name]
        optimizer.state[parameter] = {
            key.partition("/")[0]: tensors[key].to(parameter.device) for key in keys
        }
