# pyright: basic
"""``jupyt5-train evaluate``: a checkpoint on held-out cells, in the paper's context settings.

The same targets, cut at the same places, are seen in every setting; only the cells around them
change. So differences between settings are paired, notebook by notebook.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jupyt5.errors import TrainingError
from jupyt5.files import sha256_file
from jupyt5.model.checkpoint import TOKENIZER_NAME, FormatterSettings, read_meta
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.arrays import DATA_NAME, KINDS, load_arrays, load_data_tokenizer
from jupyt5_training.evaluation import EvalConfig, TargetLosses, measure_losses, score_decoded
from jupyt5_training.examples import ExampleConfig, ExampleMaker
from jupyt5_training.intervals import resample_losses
from jupyt5_training.models import load_weights

__all__ = [
    "CheckpointEvalConfig",
    "describe_evaluation",
    "evaluate_checkpoint",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEvalConfig:
    """What is evaluated.

    Attributes:
        contexts: Numbers of context cells C; empty for the checkpoint's own.
        followings: Numbers of following cells; empty for the checkpoint's own. All combinations
            of both are evaluated.
        evaluation: Targets, decoding, batches and seed.
        split: ``validation`` or ``train``.
    """

    contexts: tuple[int, ...] = ()
    followings: tuple[int, ...] = ()
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    split: str = "validation"


def evaluate_checkpoint(folder: Path, data: Path, config: CheckpointEvalConfig) -> dict[str, Any]:
    """Evaluate a checkpoint folder on prepared data.

    Returns:
        JSON-like. Each of ``settings`` has ``num_context_cells``, ``num_following_cells``, the
        figures of ``evaluation.evaluate``, ``ci95`` of the losses (bootstrap over notebooks), and
        in ``notebooks`` for ``all`` and each kind of target rows of [nats, target ids], a notebook
        each.

    Raises:
        CheckpointError: If the folder cannot be loaded.
        TrainingError: If the data are unusable or not tokenised for this checkpoint.
    """
    meta = read_meta(folder)
    arrays = load_arrays(data, config.split)
    _check_tokenizer(folder, data)
    if not len(arrays.targets):
        message = f"{data} has no {config.split} targets. Prepare more notebooks."
        raise TrainingError(message)
    tokenizer = load_data_tokenizer(data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_weights(folder).to(device).eval()  # pyright: ignore[reportArgumentType]
    rows: list[dict[str, Any]] = []
    for formatter in _list_formatters(meta.formatter, config):
        maker = ExampleMaker(arrays, tokenizer, ExampleConfig(formatter=formatter))
        losses = measure_losses(model, maker, config.evaluation, tokenizer=tokenizer)
        figures = losses.summarise()
        if config.evaluation.num_decoded:
            figures |= score_decoded(model, maker, config.evaluation, tokenizer=tokenizer)
        rows.append({**_describe_setting(formatter), **figures, **_by_notebook(losses)})
    return {
        "checkpoint": str(folder),
        "name": meta.name,
        "data_sha256": sha256_file(data / DATA_NAME),
        "split": config.split,
        "seed": config.evaluation.seed,
        "num_targets": min(config.evaluation.num_targets, len(arrays.targets)),
        "settings": rows,
    }


def describe_evaluation(found: Mapping[str, Any]) -> list[str]:
    """Return an evaluation as lines for people."""
    lines = [f"{found['name']}: {found['num_targets']} {found['split']} targets"]
    for row in found["settings"]:
        lines.append(f"C = {row['num_context_cells']}, following = {row['num_following_cells']}")
        for name, value in row.items():
            if isinstance(value, float):
                low, high = row["ci95"].get(name) or (None, None)
                band = f"  [{low:.4f}, {high:.4f}]" if low is not None else ""
                lines.append(f"  {name.replace('_', ' '):<26}{value:.4f}{band}")
    return lines


def _check_tokenizer(folder: Path, data: Path) -> None:
    own = folder / TOKENIZER_NAME
    if Tokenizer.load(own).tokens != load_data_tokenizer(data).tokens:
        message = (
            f"{data} was not tokenised for {folder}. Prepare it anew with "
            f"--tokenizer {own}, or give the data of its training run."
        )
        raise TrainingError(message)


def _list_formatters(
    own: FormatterSettings, config: CheckpointEvalConfig
) -> Iterator[FormatterSettings]:
    for num_context in config.contexts or (own.num_context_cells,):
        for num_following in config.followings or (own.num_following_cells,):
            yield replace(own, num_context_cells=num_context, num_following_cells=num_following)


def _describe_setting(formatter: FormatterSettings) -> dict[str, int]:
    return {
        "num_context_cells": formatter.num_context_cells,
        "num_following_cells": formatter.num_following_cells,
    }


def _by_notebook(losses: TargetLosses) -> dict[str, Any]:
    groups = {"all": np.ones(len(losses.kinds), np.bool_)}
    groups |= {kind: losses.kinds == idx for idx, kind in enumerate(KINDS)}
    _, notebook_idx = np.unique(losses.notebooks, return_inverse=True)
    intervals: dict[str, list[float] | None] = {}
    notebooks: dict[str, list[list[float]]] = {}
    for name, mask in groups.items():
        if not mask.any():
            continue
        sums_C2 = np.zeros((int(notebook_idx.max()) + 1, 2))
        np.add.at(sums_C2[:, 0], notebook_idx[mask], losses.nll[mask])
        np.add.at(sums_C2[:, 1], notebook_idx[mask], losses.num_ids[mask])
        key = "validation_loss" if name == "all" else f"validation_{name}_loss"
        draws = resample_losses(sums_C2)
        interval = np.nanquantile(draws, [0.025, 0.975]).tolist()
        intervals[key] = interval if len(sums_C2) > 1 else None
        notebooks[name] = sums_C2.round(4).tolist()
    return {"ci95": intervals, "notebooks": notebooks}
