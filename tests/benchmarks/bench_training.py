# pyright: basic
"""Training speed in useful (not padding) ids: our loop, a bare loop, transformers' Trainer.

- ``ours``: the next batch of the plan, made and stepped on in line (a run makes it in a thread).
- ``floor``: a bare forward + backward + AdamW step on random ids of the same mean shape without
  any padding and without any work to make them.
- ``trainer``: transformers' Trainer with ``train_sampling_strategy="group_by_length"``, whose
  examples are made beforehand; its batch is as many examples as fill ``batch_tokens`` on average.

The three have models of their own and step in turns in one process, so that what else happens on
the machine hits them alike. Prints JSON: ids per second of processor and of wall time, padding,
ratios.

    python tests/benchmarks/bench_training.py --data DATA --set batch_tokens=4096
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # as jupyt5-train sets it

import numpy as np
import torch
from transformers import (
    BartForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from jupyt5.model.seq2seq import build_model
from jupyt5_training.batches import Batch
from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.loop import Job
from jupyt5_training.losses import sum_nll
from jupyt5_training.optimizers import build_optimizers
from jupyt5_training.precision import autocast
from jupyt5_training.recipes import apply_settings, find_recipe
from jupyt5_training.runs import load_job
from jupyt5_training.stopping import StopKind

_WARM_UP = 2
_TRAINER_EXAMPLES = 6000


@dataclass(slots=True)
class Tally:
    """What one way has done: useful ids, ids with padding, processor and wall seconds."""

    useful: int = 0
    padded: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    _start: tuple[float, float] = field(default=(0.0, 0.0))

    def start(self) -> None:
        self._start = (time.process_time(), time.perf_counter())

    def stop(self, useful: int, padded: int, *, counts: bool) -> None:
        cpu_s, wall_s = time.process_time() - self._start[0], time.perf_counter() - self._start[1]
        if counts:
            self.useful += useful
            self.padded += padded
            self.cpu_s += cpu_s
            self.wall_s += wall_s

    def report(self) -> dict[str, float]:
        return {
            "useful_ids_per_cpu_s": round(self.useful / self.cpu_s),
            "useful_ids_per_wall_s": round(self.useful / self.wall_s),
            "pad_fraction": round(1 - self.useful / self.padded, 4),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of jupyt5-train prepare")
    parser.add_argument("--recipe", default="nano")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args(argv)
    settings = ["num_threads=1", "optimizer.name=adamw", *args.settings]
    recipe = apply_settings(find_recipe(args.recipe), settings)
    torch.set_num_threads(recipe.num_threads)
    with tempfile.TemporaryDirectory() as folder:
        job = load_job(recipe, args.data, Path(folder), ranks=Ranks())
        turns = Turns(job)
        trainer = make_trainer(job, turns, args.steps, Path(folder))
        turns.trainer.start()
        trainer.train()
    tallies = {"ours": turns.ours, "floor": turns.floor, "trainer": turns.trainer}
    rates = {name: tally.useful / tally.cpu_s for name, tally in tallies.items()}
    report = {
        "recipe": args.recipe,
        "settings": settings,
        "steps": args.steps,
        "trainer_settings": turns.trainer_settings,
        **{name: tally.report() for name, tally in tallies.items()},
        "ours_over_floor": round(rates["ours"] / rates["floor"], 3),
        "ours_over_trainer": round(rates["ours"] / rates["trainer"], 3),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


class Turns(TrainerCallback):
    """After each of Trainer's steps, makes one of ours and one of the bare loop."""

    def __init__(self, job: Job) -> None:
        self.ours, self.floor, self.trainer = Tally(), Tally(), Tally()
        self.trainer_settings: dict[str, Any] = {}
        # Of each batch the useful ids, and those with padding; Trainer loads one ahead.
        self.trainer_batches: list[tuple[int, int]] = []
        self._job = job
        self._steps = job.feed.steps(Progress())
        self._bare = Bare(job)
        self._round = 0

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Count Trainer's step, and make the others."""
        counts = self._round >= _WARM_UP
        self.trainer.stop(*self.trainer_batches[self._round], counts=counts)
        self.ours.start()
        step = next(self._steps)
        result = self._job.stepper.run(
            step, factor=0.1, stop_kind=lambda: StopKind.NONE, accept=lambda loss, norm: True
        )
        self.ours.stop(result.num_useful, result.num_padded, counts=counts)
        for item in step.micro_batches:
            packed = self._bare.pack(item.batch)
            self.floor.start()
            self._bare.step(packed)
            self.floor.stop(packed.num_useful, packed.num_useful, counts=counts)
        self._round += 1
        self.trainer.start()


class Bare:
    """Forward, backward and AdamW, nothing else."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._model = copy_of(job)
        self._optimizers = build_optimizers(self._model, job.recipe.optimizer)
        self._rng = np.random.default_rng(0)

    def pack(self, like: Batch) -> Batch:
        """Make a batch of the same mean shape without padding."""
        rows = like.source_BS.shape[0]
        num_source = (like.num_useful - like.num_target) // rows
        num_target = max(1, like.num_target // rows)
        source, target = (
            self._rng.integers(10, self._job.tokenizer.vocab_size, (rows, length))
            for length in (num_source, num_target)
        )
        return Batch(source, target, rows * (num_source + num_target), rows * num_target)

    def step(self, batch: Batch) -> None:
        """Make a step."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        with autocast(self._job.stepper.device, self._job.recipe.precision):
            loss = sum_nll(
                self._model,
                torch.from_numpy(batch.source_BS),
                torch.from_numpy(batch.target_BT),
                pad=self._job.feed.pad,
            )
        (loss / batch.num_target).backward()
        for optimizer in self._optimizers:
            optimizer.step()


def copy_of(job: Job) -> BartForConditionalGeneration:
    """Return a model of the same shape."""
    model = build_model(job.recipe.model, job.tokenizer.special, seed=1)
    model.train()
    return model


def make_trainer(job: Job, turns: Turns, num_steps: int, folder: Path) -> Trainer:
    """Set transformers' Trainer up on examples of the same plan."""
    recipe = job.recipe
    plan = job.feed.open_plan(0)
    positions = np.random.default_rng(0).permutation(plan.targets)[:_TRAINER_EXAMPLES]
    examples = [
        job.feed.maker.make(int(position), seed=recipe.seed, epoch=0) for position in positions
    ]
    lengths = [len(example.source_ids) + len(example.target_ids) for example in examples]
    rows = max(1, round(recipe.batch_tokens / float(np.mean(lengths))))
    settings = {
        "train_sampling_strategy": "group_by_length",
        "per_device_train_batch_size": rows,
        "optim": "adamw_torch_fused",
        "learning_rate": 0.1 * recipe.optimizer.peak_lr,
        "max_grad_norm": recipe.optimizer.max_grad_norm,
        "bf16": recipe.precision == "bfloat16",
        "dataloader_num_workers": 0,
    }
    turns.trainer_settings = settings
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=num_steps + _WARM_UP,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    return Trainer(
        model=copy_of(job),
        args=arguments,
        train_dataset=[  # type: ignore[arg-type]
            {"input_ids": example.source_ids, "labels": example.target_ids} for example in examples
        ],
        data_collator=make_collator(turns, pad=job.feed.pad),
        callbacks=[turns],
    )


def make_collator(turns: Turns, *, pad: int) -> Any:
    """Pad as DataCollatorForSeq2Seq does: sources with the pad id, labels with -100."""

    def collate(rows: list[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
        def padded(name: str, value: int) -> torch.Tensor:
            tensors = [torch.from_numpy(row[name]) for row in rows]
            return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)

        source_BS, labels_BT = padded("input_ids", pad), padded("labels", -100)
        useful = sum(len(row["input_ids"]) + len(row["labels"]) for row in rows)
        turns.trainer_batches.append((useful, source_BS.numel() + labels_BT.numel()))
        return {
            "input_ids": source_BS,
            "attention_mask": (source_BS != pad).long(),
            "labels": labels_BT,
        }

    return collate


if __name__ == "__main__":
    sys.exit(main())
