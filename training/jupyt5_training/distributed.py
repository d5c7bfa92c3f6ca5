# pyright: basic
"""The processes of one run: one a device, started by ``torchrun``; a lone one needs no group."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import BartForConditionalGeneration

__all__ = ["Ranks", "find_device", "joined_ranks", "spread", "sync_gradients", "whole_weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among those of the run.

    Attributes:
        rank: From 0; rank 0 writes the files of the run.
        world_size: Processes in all.
        local_rank: Number on this machine, and of its device.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run's files."""
        return self.rank == 0

    def gather(self, values: Sequence[float]) -> npt.NDArray[np.float64]:
        """Return every rank's values, shape (world_size, values); the same on all ranks."""
        own = torch.tensor(list(values), dtype=torch.float64)
        if self.world_size == 1:
            return own[None].numpy()
        rows = [torch.empty_like(own) for _ in range(self.world_size)]
        dist.all_gather(rows, own)
        return torch.stack(rows).numpy()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all ranks."""
        return self.gather(values).sum(axis=0).tolist()

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.gather([0.0])


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """Join the processes that ``torchrun`` started; alone without it. May be nested.

    Small numbers go through gloo on the CPU, so that they never wait for a GPU's queue.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Ranks()
        return
    ranks = Ranks(
        rank=int(os.environ["RANK"]),
        world_size=world_size,
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),
    )
    if torch.cuda.is_available():
        torch.cuda.set_device(ranks.local_rank)
    if dist.is_initialized():
        yield ranks
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


def find_device(ranks: Ranks) -> torch.device:
    """Return this rank's GPU, or the CPU where there is none."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", ranks.local_rank)


def spread(
    module: torch.nn.Module, model: BartForConditionalGeneration, mode: str, ranks: Ranks
) -> torch.nn.Module:
    """Make a module's backward pass average gradients over all ranks.

    Args:
        module: What is called in training; holds ``model``.
        model: Its BART model.
        mode: ``ddp``: every rank holds all weights. ``fsdp``: weights, gradients and moments are
            cut into one piece a rank (FSDP2), a layer at a time.
        ranks: A lone rank gets the module back as it is.

    Returns:
        The module to call.
    """
    if ranks.world_size == 1:
        return module
    if mode == "fsdp":
        for layer in [*model.model.encoder.layers, *model.model.decoder.layers]:
            fully_shard(layer)
        fully_shard(module)
        _settle(module, device=model.device)
        return module
    return DistributedDataParallel(module, gradient_as_bucket_view=True)


def _settle(module: torch.nn.Module, *, device: torch.device) -> None:
    """Call the whole once: a layer called by itself before would become a root of its own."""
    ids_11 = torch.zeros((1, 1), dtype=torch.long, device=device)
    with torch.no_grad():
        module(ids_11, ids_11)
    assert isinstance(module, FSDPModule)
    module.reshard()


@contextmanager
def sync_gradients(module: torch.nn.Module, *, is_last: bool) -> Iterator[None]:
    """Exchange gradients only after the last micro-batch of a step."""
    if isinstance(module, DistributedDataParallel) and not is_last:
        with module.no_sync():
            yield
        return
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(is_last)
    yield


@contextmanager
def whole_weights(module: torch.nn.Module) -> Iterator[None]:
    """Let the parts of a sharded module be called one by one inside, all ranks in step."""
    if not isinstance(module, FSDPModule):
        yield
        return
    module.unshard()
    try:
        yield
    finally:
        module.reshard()
