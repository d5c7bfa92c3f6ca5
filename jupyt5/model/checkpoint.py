"""What a checkpoint folder says of itself: ``jupyt5.json``, and which runtime it can use."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, cast

from jupyt5.errors import CheckpointError
from jupyt5.files import write_atomic

__all__ = [
    "META_NAME",
    "TOKENIZER_NAME",
    "CheckpointMeta",
    "FormatterSettings",
    "detect_runtime",
    "read_meta",
    "write_meta",
]

META_NAME = "jupyt5.json"
TOKENIZER_NAME = "tokenizer.json"
_FORMAT_VERSION = 1

Runtime = Literal["ctranslate2", "onnx", "torch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatterSettings:
    """How sources and targets were made for this model.

    Attributes:
        num_context_cells: C in training.
        num_following_cells: Following cells in training.
        source_budget_tokens: Longest source.
        max_target_tokens: Longest target, its end mark included.
    """

    num_context_cells: int = 3
    num_following_cells: int = 1
    source_budget_tokens: int = 512
    max_target_tokens: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMeta:
    """The content of ``jupyt5.json``.

    Attributes:
        name: Model name, e.g. ``nano``.
        formatter: How its sources are made.
        parents: Checkpoints it started from: ``{name, sha256, licence}`` each.
        data_manifest_sha256: Hash of the corpus manifest it was trained on.
        git_commit: Commit of the code that trained it.
        metrics: Measured numbers, e.g. ``validation_loss``.
    """

    name: str
    formatter: FormatterSettings
    parents: tuple[Mapping[str, str], ...] = ()
    data_manifest_sha256: str = ""
    git_commit: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


def read_meta(folder: Path) -> CheckpointMeta:
    """Read ``jupyt5.json``.

    Raises:
        CheckpointError: If it is missing or damaged.
    """
    path = folder / META_NAME
    try:
        fields = cast("dict[str, object]", json.loads(path.read_text("utf-8")))
        fields.pop("format_version", None)
        formatter = FormatterSettings(**cast("dict[str, int]", fields.pop("formatter")))
        parents = tuple(cast("list[Mapping[str, str]]", fields.pop("parents", [])))
        return CheckpointMeta(formatter=formatter, parents=parents, **fields)  # type: ignore[arg-type]
    except FileNotFoundError as exc:
        message = (
            f"{folder} is not a JuPyT5 checkpoint: it has no {META_NAME}. "
            "Of a training run, give RUN/model."
        )
        raise CheckpointError(message) from exc
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        message = f"{path} is damaged: {exc}. Export the checkpoint again."
        raise CheckpointError(message) from exc


def write_meta(folder: Path, meta: CheckpointMeta) -> None:
    """Write ``jupyt5.json`` in one step."""
    fields = {"format_version": _FORMAT_VERSION, **asdict(meta)}
    write_atomic(folder / META_NAME, json.dumps(fields, indent=2, sort_keys=True) + "\n")


def detect_runtime(folder: Path) -> Runtime:
    """Say which runtime a folder's weights are for.

    Raises:
        CheckpointError: If it holds no weights.
    """
    if (folder / "decoder.onnx").is_file():
        return "onnx"
    if (folder / "model.bin").is_file():
        return "ctranslate2"
    if (folder / "model.safetensors").is_file():
        return "torch"
    message = (
        f"{folder} holds no weights: none of decoder.onnx, model.bin, model.safetensors is there."
    )
    raise CheckpointError(message)
