"""Training speed on a GPU: base and large, bfloat16, with torch.compile and without.

Needs prepared data (``jupyt5-train prepare``) and one CUDA device. Ends within
ten minutes: each of the four has its share of the time, its first steps (compiling, the
first batches) are not counted. Prints one JSON object: useful ids a second (padding left out),
the share of the device's peak they come to (MFU), padding, and the largest memory.

    python scripts/bench_gpu.py --data DATA > bench-gpu.json
"""
# pyright: basic

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from jupyt5_training.checkpoints import Progress
from jupyt5_training.distributed import Ranks
from jupyt5_training.feed import prefetched
from jupyt5_training.recipes import apply_settings, find_recipe
from jupyt5_training.runs import load_job
from jupyt5_training.stopping import StopKind


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 without a GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of jupyt5-train prepare")
    parser.add_argument("--recipes", default="base,large", help="comma-separated (base,large)")
    parser.add_argument("--seconds", type=float, default=560, help="in all (default 560)")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--allow-cpu", action="store_true", help="only to try the script itself")
    args = parser.parse_args(argv)
    if not torch.cuda.is_available() and not args.allow_cpu:
        print("No CUDA device is there. This script measures GPUs.", file=sys.stderr)
        return 1
    names = args.recipes.split(",")
    share_s = args.seconds / (2 * len(names))
    rows: list[dict[str, object]] = []
    for name in names:
        for compiled in ("false", "true"):
            settings = ["micro_batches=1", f"compile={compiled}", *args.settings]
            rows.append(_measure(name, settings, args.data, share_s))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(json.dumps({"device": device, "torch": torch.__version__, "rows": rows}, indent=2))
    return 0


def _measure(name: str, settings: Sequence[str], data: Path, share_s: float) -> dict[str, object]:
    """Train for ``share_s`` seconds; steps count from the middle of that time on."""
    recipe = apply_settings(find_recipe(name), ["epochs=0", "steps=1000000", *settings])
    torch.compiler.reset()
    sums = {"steps": 0, "seconds": 0.0, "useful": 0, "target": 0, "padded": 0}
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        job = load_job(recipe, data, Path(folder), ranks=Ranks())
        if job.stepper.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with prefetched(job.feed, Progress()) as steps:
            for step in steps:
                before_s = time.perf_counter()
                result = job.stepper.run(
                    step, factor=0.1, stop_kind=lambda: StopKind.NONE, accept=lambda *_: True
                )
                now_s = time.perf_counter()
                if before_s - start_s > share_s / 2:
                    sums["steps"] += 1
                    sums["seconds"] += now_s - before_s + step.wait_s
                    sums["useful"] += result.num_useful
                    sums["target"] += result.num_target
                    sums["padded"] += result.num_padded
                if now_s - start_s > share_s:
                    break
    used = job.flops.utilisation(
        int(sums["useful"] - sums["target"]),
        int(sums["target"]),
        max(sums["seconds"], 1e-9),
        1,
    )
    memory = torch.cuda.max_memory_allocated() if job.stepper.device.type == "cuda" else 0
    return {
        "recipe": name,
        "compile": recipe.compile,
        "precision": recipe.precision,
        "batch_tokens": recipe.batch_tokens,
        "steps": sums["steps"],
        "useful_ids_per_s": round(sums["useful"] / max(sums["seconds"], 1e-9)),
        "mfu": used and round(used, 4),
        "pad_fraction": round(1 - sums["useful"] / max(sums["padded"], 1), 4),
        "peak_memory_gib": round(memory / 2**30, 2),
    }


if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")  # many batch shapes
    sys.exit(main())
