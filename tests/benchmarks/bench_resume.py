# pyright: basic
"""How long a run takes to go on in the middle of an epoch of a large index.

Makes token arrays of many random cells, starts a run on them (which plans the epoch), puts its
checkpoint at step 10,000, and times the command that resumes it and makes one more step, with
restore, validation, checkpoint and export, and with the arrays out of the page cache. The time
of Python's imports is given apart: it is the same for any run.
Prints JSON.

    python tests/benchmarks/bench_resume.py --cells 50000000 --folder /scratch
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from jupyt5.tokenizer import train_tokenizer
from jupyt5_training.batches import fingerprint
from jupyt5_training.checkpoints import CheckpointWriter
from jupyt5_training.distributed import Ranks
from jupyt5_training.loop import restore_job
from jupyt5_training.metrics import read_metrics
from jupyt5_training.recipes import apply_settings, find_recipe
from jupyt5_training.runs import load_job

_VOCAB_SIZE = 512
_MEAN_CELL_TOKENS = 24
_CELLS_PER_NOTEBOOK = 40
_CELLS_AT_ONCE = 1 << 20
_STEP = 10_000
_TIMED = """
import sys, time
start_s = time.perf_counter()
import jupyt5_training.runs
from jupyt5_training.cli import main
imported_s = time.perf_counter()
code = main(sys.argv[1:])
print(imported_s - start_s, time.perf_counter() - imported_s)
sys.exit(code)
"""
_SETTINGS = ("batch_tokens=4096", "num_threads=1", "eval_targets=64")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cells", type=int, default=50_000_000)
    parser.add_argument("--recipe", default="debug")
    parser.add_argument("--folder", type=Path, help="where there is room (3 GB for 50 M cells)")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        data, out = Path(name) / "data", Path(name) / "run"
        make_arrays(data, args.cells)
        first = run(args.recipe, data, out, steps=1)
        expected, num_batches = move_to_step(args.recipe, data, out)
        for path in (*data.iterdir(), *(out / "plans").iterdir()):
            forget(path)
        second = run(args.recipe, data, out, steps=_STEP + 1, resume=True)
        orders = [
            record["detail"]
            for record in read_metrics(out)
            if record.get("event") == "order" and record["step"] == _STEP
        ]
        steps = [record for record in read_metrics(out) if "data_wait_s" in record]
        report = {
            "cells": args.cells,
            "tokens_bytes": (data / "train.tokens.bin").stat().st_size,
            "batches_of_the_epoch": num_batches,
            "first_start": {"imports_s": first[0], "plan_and_one_step_s": first[1]},
            "resume_at_step_10000": {"imports_s": second[0], "resume_and_one_step_s": second[1]},
            "wait_for_the_first_batch_s": steps[-1]["data_wait_s"],
            "next_100_batches_as_planned": orders == [expected],
        }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def make_arrays(folder: Path, num_cells: int) -> None:
    """Write arrays of random cells; the last notebooks are the validation split too."""
    folder.mkdir()
    tokenizer = train_tokenizer((f"x_{n} = {n}\nprint(x_{n})" for n in range(4000)), _VOCAB_SIZE)
    tokenizer.save(folder / "tokenizer.json")
    for split, count in (("train", num_cells), ("validation", 400)):
        rng = np.random.default_rng(0)
        lengths = 1 + rng.geometric(1 / (_MEAN_CELL_TOKENS - 1), count)
        with (folder / f"{split}.tokens.bin").open("wb") as stream:
            for start in range(0, count, _CELLS_AT_ONCE):
                num_tokens = int(lengths[start : start + _CELLS_AT_ONCE].sum())
                ids = rng.integers(10, tokenizer.vocab_size, num_tokens, np.uint16)
                stream.write(ids.tobytes())
        arrays = {
            "cells": np.append(0, np.cumsum(lengths)),
            "kinds": rng.integers(0, 2, count, np.uint8),
            "notebooks": np.append(np.arange(0, count, _CELLS_PER_NOTEBOOK), count),
            "targets": np.arange(count),
        }
        for name, array in arrays.items():
            np.save(folder / f"{split}.{name}.npy", array)
    info = {"dtype": "uint16", "corpus_manifest_sha256": "", "vocab_size": tokenizer.vocab_size}
    (folder / "data.json").write_text(json.dumps(info))


def run(
    recipe: str, data: Path, out: Path, *, steps: int, resume: bool = False
) -> tuple[float, float]:
    """Run the command in a new process; returns (seconds of its imports, of the rest)."""
    arguments = ["run", recipe, "--data", str(data), "--out", str(out)]
    arguments += ["--resume"] if resume else []
    for setting in (*_SETTINGS, f"steps={steps}"):
        arguments += ["--set", setting]
    command = [sys.executable, "-c", _TIMED, *arguments]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    imports_s, rest_s = result.stdout.splitlines()[-1].split()
    return round(float(imports_s), 1), round(float(rest_s), 1)


def move_to_step(recipe_name: str, data: Path, out: Path) -> tuple[str, int]:
    """Write the run's checkpoint again as that of a later step of the same epoch.

    Returns:
        (fingerprint of the batches after it, batches of the epoch).
    """
    recipe = apply_settings(find_recipe(recipe_name), [*_SETTINGS, f"steps={_STEP + 1}"])
    job = load_job(recipe, data, out, ranks=Ranks())
    progress = restore_job(job)
    assert progress is not None  # the run has just ended
    plan = job.feed.open_plan(0)
    assert len(plan) > _STEP  # or the index is too small for this measurement
    progress = replace(progress, step=_STEP, epoch=0, batch_idx=_STEP)
    writer = CheckpointWriter(out, keep=2)
    writer.save(job.model, job.stepper.optimizers, progress, tokenizer=job.tokenizer, meta=job.meta)
    writer.wait()
    return fingerprint(plan, _STEP), len(plan)


def forget(path: Path) -> None:
    """Take a file out of the page cache."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    sys.exit(main())
