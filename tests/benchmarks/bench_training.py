"""Training speed: real batches of prepared data beside fully packed ones of the same budget.

The floor is a bare forward + backward + AdamW step on batches without padding and without any
work to make them. Both sides alternate in one run. Prints JSON with useful ids per second of
processor time and of wall time, and the ratio.

    python tests/benchmarks/bench_training.py --data DATA --set precision=bfloat16
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jupyt5_training.batches import Batch
from jupyt5_training.checkpoints import Progress
from jupyt5_training.loop import Job, _do_step, _iter_batches
from jupyt5_training.metrics import MetricsLog
from jupyt5_training.recipes import apply_settings, find_recipe
from jupyt5_training.runs import _load_job


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of jupyt5-train prepare")
    parser.add_argument("--recipe", default="nano")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args(argv)
    recipe = apply_settings(find_recipe(args.recipe), ["num_threads=1", *args.settings])
    sums = {"ours": [0.0, 0.0, 0.0], "floor": [0.0, 0.0, 0.0]}
    pads: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        job = _load_job(recipe, args.data, Path(folder))
        log = MetricsLog(Path(folder), resume_step=0)
        progress = Progress()
        batches = _iter_batches(job, progress)
        _do_step(job, next(batches)[0], (0, 0), progress, log)
        for _ in range(args.steps):
            before = _now()
            batch, position = next(batches)
            _do_step(job, batch, position, progress, log)
            _add(sums["ours"], before, batch.num_useful)
            pads.append(1 - batch.num_useful / (batch.source_BS.size + batch.target_BT.size))
            packed = _packed(job, batch)
            before = _now()
            _do_step(job, packed, position, progress, log)
            _add(sums["floor"], before, packed.num_useful)
    rates = {name: (ids / cpu_s, ids / wall_s) for name, (ids, cpu_s, wall_s) in sums.items()}
    report = {
        "recipe": args.recipe,
        "settings": args.settings,
        "steps": args.steps,
        "pad_fraction": round(float(np.mean(pads)), 4),
        "useful_ids_per_cpu_s": {name: round(rate[0]) for name, rate in rates.items()},
        "useful_ids_per_wall_s": {name: round(rate[1]) for name, rate in rates.items()},
        "ours_over_floor_cpu": round(rates["ours"][0] / rates["floor"][0], 3),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def _packed(job: Job, like: Batch) -> Batch:
    """Make a batch of the same mean shape that has no padding at all."""
    rng = np.random.default_rng(0)
    rows = like.source_BS.shape[0]
    num_source = (like.num_useful - like.num_target) // rows
    num_target = max(1, like.num_target // rows)
    source, target = (
        rng.integers(10, job.tokenizer.vocab_size, (rows, length))
        for length in (num_source, num_target)
    )
    return Batch(source, target, rows * (num_source + num_target), rows * num_target)


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _add(sums: list[float], before: tuple[float, float], num_ids: int) -> None:
    cpu_s, wall_s = _now()
    sums[0] += num_ids
    sums[1] += cpu_s - before[0]
    sums[2] += wall_s - before[1]


if __name__ == "__main__":
    sys.exit(main())
