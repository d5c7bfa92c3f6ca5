# pyright: basic
"""Training checkpoints: everything needed to go on exactly, written while training goes on.

``RUN/checkpoints/step-00000500/`` holds the weights, the optimizers' moments and, where there is
one, the average of the weights as safetensors shards (one a rank), ``config.json``,
``tokenizer.json``, ``jupyt5.json``, ``state.json`` (counters) and ``manifest.json``. It does not
depend on the number of ranks or on how the model is distributed. ``export_model`` makes a usable
checkpoint folder of it. See ``shards`` for how it stays whole.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from transformers import BartConfig, BartForConditionalGeneration, GenerationConfig

from jupyt5.errors import TrainingError
from jupyt5.files import atomic_folder, write_atomic
from jupyt5.model.checkpoint import META_NAME, TOKENIZER_NAME, CheckpointMeta, write_meta
from jupyt5.model.seq2seq import save_model
from jupyt5.tokenizer import Tokenizer
from jupyt5_training.shards import ShardWriter, find_damage, remove_unfinished

__all__ = ["CheckpointWriter", "Progress", "export_model", "find_checkpoints", "restore"]

logger = logging.getLogger(__name__)

_STATE_NAME = "state.json"
_CONFIG_NAME = "config.json"
_GENERATION_NAME = "generation_config.json"
_DAMAGED = "damaged-"
_WEIGHTS, _AVERAGE, _MOMENTS = "weights/", "average/", "optimizer/"
_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)
# Of the flattened state only these are tensors; rates and betas come from the recipe.
_STATE_PREFIX = "state."


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counters of a run.

    Attributes:
        step: Optimizer steps done.
        epoch: Epoch of the next micro-batch.
        batch_idx: The next micro-batch in that epoch's plan.
        tokens_seen: Source and target ids, padding left out.
        target_tokens_seen: Target ids.
        train_s: Seconds spent in steps.
        loss_scale: Scale of the loss in float16, 0 in other precisions.
        growth_tracker: Steps since the scale last changed.
    """

    step: int = 0
    epoch: int = 0
    batch_idx: int = 0
    tokens_seen: int = 0
    target_tokens_seen: int = 0
    train_s: float = 0.0
    loss_scale: float = 0.0
    growth_tracker: int = 0


class CheckpointWriter:
    """Writes the checkpoints of a run, one at a time, in a thread of its own.

    All ranks make one and call its methods together. A model may be plain, replicated (DDP: give
    the bare module) or sharded (FSDP2).

    Args:
        run: The run's folder, on storage that all ranks share.
        keep: Newest checkpoints kept, at least 1.
    """

    def __init__(self, run: Path, *, keep: int) -> None:
        self._folder = run / "checkpoints"
        self._keep = max(1, keep)
        # A group of its own: its messages must not mix with those of the steps.
        self._group = _new_group() if dist.is_initialized() else None
        self._pending: Future[object] | None = None
        if _is_main():
            remove_unfinished(self._folder)

    def save(
        self,
        model: BartForConditionalGeneration,
        optimizers: Sequence[torch.optim.Optimizer],
        progress: Progress,
        *,
        tokenizer: Tokenizer,
        meta: CheckpointMeta,
        average: torch.nn.Module | None = None,
    ) -> None:
        """Copy the state and return; a thread writes it, once the one before is written.

        Args:
            model: Weights.
            optimizers: Over disjoint parameters of the model.
            progress: Counters.
            tokenizer: Goes into the folder.
            meta: Goes into the folder.
            average: Averaged weights, with the model's parameter names.

        Raises:
            TrainingError: If the checkpoint before could not be written.
        """
        self.wait()
        add_files = _small_files(model, progress, tokenizer, meta)
        path = self._folder / f"step-{progress.step:08d}"
        _expect_single_process()
        pending = async_save(
            _collect(model, optimizers, average),
            storage_writer=ShardWriter(path, add_files=add_files),
            process_group=self._group,
        )
        assert isinstance(pending, Future)  # what a blocking stager gives
        self._pending = pending

    def wait(self) -> None:
        """Return when no checkpoint is being written, and remove those that are too old.

        Raises:
            TrainingError: If the last one could not be written; the ones before are whole.
        """
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        try:
            pending.result()
        except (CheckpointException, OSError, RuntimeError, ValueError) as exc:
            if _is_main():
                remove_unfinished(self._folder)
            message = (
                f"A checkpoint in {self._folder} cannot be written: {_reason(exc)}. The ones "
                "before are whole: free some space, or mend the cause, and go on with --resume."
            )
            raise TrainingError(message) from exc
        if _is_main():
            _prune(self._folder, self._keep)


def restore(
    run: Path,
    model: BartForConditionalGeneration,
    optimizers: Sequence[torch.optim.Optimizer],
    *,
    average: torch.nn.Module | None = None,
) -> Progress | None:
    """Load the newest whole checkpoint into a model and its optimizers, on all ranks together.

    Damaged ones are passed over with a warning and renamed ``damaged-step-…``.

    Args:
        run: The run's folder.
        model: As for ``CheckpointWriter.save``; at any number of ranks.
        optimizers: As when it was saved, with or without state.
        average: As when it was saved.

    Returns:
        The counters; nothing when the run has no checkpoint yet.

    Raises:
        TrainingError: If there are checkpoints but none is whole, or it is of another model.
    """
    with _gloo_group() as group:
        path = _find_whole(run, group)
        if path is None:
            return None
        tensors = _collect(model, optimizers, average)
        try:
            _read(path, tensors, group)
            fields = json.loads((path / _STATE_NAME).read_text("utf-8"))
            progress = Progress(**fields)
        except (CheckpointException, OSError, ValueError, KeyError, TypeError) as exc:
            message = (
                f"{path} is whole but does not fit this run: {_reason(exc)}. Resume with the "
                "recipe that made it, or choose another --out."
            )
            raise TrainingError(message) from exc
    return progress


def find_checkpoints(run: Path) -> tuple[Path, ...]:
    """Return the checkpoints of a run, oldest first; their content is not looked at."""
    return _list_checkpoints(run / "checkpoints")


def export_model(run: Path, out: Path) -> Path:
    """Make a checkpoint folder of a run's newest whole checkpoint; replaces an older ``out``.

    The averaged weights are taken where there are some. To be called by one rank alone.

    Args:
        run: The run's folder.
        out: The folder to make: ``model.safetensors`` and what describes it, no training state.

    Returns:
        The checkpoint it was made from.

    Raises:
        TrainingError: If the run has no whole checkpoint.
    """
    path = _find_whole(run, None, alone=True)
    if path is None:
        message = f"{run} has no checkpoint to export. Train it first."
        raise TrainingError(message)
    with torch.random.fork_rng(devices=[]):
        model = BartForConditionalGeneration(BartConfig.from_pretrained(path))
    if (path / _GENERATION_NAME).is_file():
        model.generation_config = GenerationConfig.from_pretrained(path)
    weights = _weights_of(model, _AVERAGE)
    reader = HuggingFaceStorageReader(str(path))
    if not weights.keys() <= reader.read_metadata().state_dict_metadata.keys():
        weights = _weights_of(model, _WEIGHTS)
    _read(path, weights, None, alone=True)
    shutil.rmtree(out, ignore_errors=True)
    with atomic_folder(out) as folder:
        save_model(model, folder)
        for name in (TOKENIZER_NAME, META_NAME):
            shutil.copyfile(path / name, folder / name)
    return path


def _small_files(
    model: BartForConditionalGeneration,
    progress: Progress,
    tokenizer: Tokenizer,
    meta: CheckpointMeta,
) -> Callable[[Path], None]:
    """Return what writes the files beside the shards, as they are to be now."""
    files = {
        _CONFIG_NAME: model.config.to_json_string(),
        _STATE_NAME: json.dumps(asdict(progress), indent=2) + "\n",
    }
    if model.generation_config is not None:
        files[_GENERATION_NAME] = model.generation_config.to_json_string()

    def add_files(folder: Path) -> None:
        for name, text in files.items():
            write_atomic(folder / name, text)
        tokenizer.save(folder / TOKENIZER_NAME)
        write_meta(folder, meta)

    return add_files


def _collect(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    average: torch.nn.Module | None,
) -> dict[str, torch.Tensor]:
    """Return the state's own tensors (not copies) by the names they have on disk.

    An optimizer without state gets one of zeros first.
    """
    tensors = _weights_of(model, _WEIGHTS)
    if average is not None:
        tensors |= _weights_of(average, _AVERAGE)
    state = get_optimizer_state_dict(model, tuple(optimizers), options=_OPTIONS)
    for name, value in state.items():
        if name.startswith(_STATE_PREFIX) and isinstance(value, torch.Tensor):
            tensors[_MOMENTS + name.removeprefix(_STATE_PREFIX)] = value
    return tensors


def _weights_of(model: torch.nn.Module, prefix: str) -> dict[str, torch.Tensor]:
    """Return parameters and buffers; of tied ones the first name only."""
    first_names: dict[int, str] = {}
    tied: set[str] = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first_names.setdefault(id(parameter), name) != name:
            tied.add(name)
    state = cast("dict[str, torch.Tensor]", get_model_state_dict(model))
    return {prefix + name: value for name, value in state.items() if name not in tied}


def _read(
    path: Path,
    tensors: dict[str, torch.Tensor],
    group: dist.ProcessGroup | None,
    *,
    alone: bool = False,
) -> None:
    """Fill the tensors in place, each rank its own parts."""
    _expect_single_process()
    load(
        tensors,
        storage_reader=HuggingFaceStorageReader(str(path)),
        process_group=group,
        no_dist=alone,
    )


def _find_whole(run: Path, group: dist.ProcessGroup | None, *, alone: bool = False) -> Path | None:
    """Return the newest checkpoint that is whole; all ranks agree on it."""
    shared = dist.is_initialized() and not alone
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if shared else (0, 1)
    found = [find_checkpoints(run)]
    if shared:
        dist.broadcast_object_list(found, src=0, group=group)
    _refuse_old_format(found[0])
    damaged: list[Path] = []
    for path in reversed(found[0]):
        problems = [find_damage(path, part=rank, num_parts=world_size)]
        if shared:
            parts: list[list[str]] = [[] for _ in range(world_size)]
            dist.all_gather_object(parts, problems[0], group=group)
            problems = parts
        wrong = sorted({problem for part in problems for problem in part})
        if not wrong:
            # Only now: with none left in place, the next start would take the run for a new one.
            for other in damaged:
                _put_aside(other)
            return path
        if rank == 0:
            logger.warning(
                "%s is damaged and passed over: %s%s",
                path,
                "; ".join(wrong[:3]),
                f" and {len(wrong) - 3} more" if len(wrong) > 3 else "",
            )
            damaged.append(path)
    if found[0]:
        message = (
            f"No checkpoint in {run / 'checkpoints'} is whole. Restore one from a backup, or "
            "start again with another --out."
        )
        raise TrainingError(message)
    return None


def _refuse_old_format(paths: Sequence[Path]) -> None:
    old = [path for path in paths if (path / "optimizer.safetensors").is_file()]
    if old:
        message = (
            f"{old[-1]} was written by an earlier version and cannot be resumed from. Start a new "
            f"run with its weights: --init-from {old[-1]}."
        )
        raise TrainingError(message)


def _put_aside(path: Path) -> None:
    target = path.with_name(_DAMAGED + path.name)
    shutil.rmtree(target, ignore_errors=True)
    path.rename(target)


def _list_checkpoints(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.glob("step-*") if path.is_dir()))


def _prune(folder: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints, and damaged ones older than those."""
    kept = _list_checkpoints(folder)
    for path in kept[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f"{_DAMAGED}*"):
        if path.name.removeprefix(_DAMAGED) < kept[-keep:][0].name:
            shutil.rmtree(path, ignore_errors=True)


def _is_main() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _new_group() -> dist.ProcessGroup:
    group = dist.new_group(backend="gloo")
    assert isinstance(group, dist.ProcessGroup)  # every rank is in it
    return group


@contextmanager
def _gloo_group() -> Iterator[dist.ProcessGroup | None]:
    """Yield a group for messages between CPUs, whatever the steps use."""
    if not dist.is_initialized():
        yield None
        return
    group = _new_group()
    try:
        yield group
    finally:
        dist.destroy_process_group(group)


def _expect_single_process() -> None:
    """Silence torch's remark, also from its thread, that a single process is one: it is meant."""
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")


def _reason(exc: BaseException) -> str:
    """Return the first cause, without the tracebacks that torch puts into its message."""
    if isinstance(exc, CheckpointException) and exc.failures:
        rank, (cause, _) = next(iter(exc.failures.items()))
        where = f"rank {rank}: " if dist.is_initialized() else ""
        return f"{where}{cause}"
    return str(exc)
