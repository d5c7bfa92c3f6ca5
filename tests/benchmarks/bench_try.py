"""Time from a candidate to its verdict, in forks of a live kernel.

Starts kernels with little, with a table and an array of 480 MB, and with an array of 2 GiB, and
tries candidates against an assert in each. Prints JSON: how long the kernel itself was away, how
long until the copy was ready, seconds from candidate to verdict (median, p95), and those for a
fresh sandboxed kernel that runs the cells above first.

    python tests/benchmarks/bench_try.py --candidates 50
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager

from jupyt5.execution.jobs import Limits
from jupyt5.execution.trials import Trial, find_walls, try_fresh
from jupyt5.server.kernels import execute_silently
from jupyt5.server.trying.live import open_live

_LIMITS = Limits(timeout_s=5.0)
_KERNELS = {
    "small": "x = 41",
    "table and 480 MB": (
        "import numpy as np, pandas as pd\nx = 41\narray = np.ones(60_000_000)\n"
        "table = pd.DataFrame({'a': range(100_000), 'b': 1.5})"
    ),
    "2 GiB": "import numpy as np\nx = 41\narray = np.ones(1 << 28)",
}
_CANDIDATES = ("y = x + 1", "y = x - 1", "y = sum(range(43)) // 21", "y =", "y = undefined")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--candidates", type=int, default=50, help="in each kernel")
    parser.add_argument("--kernels", nargs="*", default=list(_KERNELS), choices=list(_KERNELS))
    args = parser.parse_args(argv)
    found: dict[str, object] = {}
    for name in args.kernels:
        found[name] = {
            "live": asyncio.run(_measure_live(_KERNELS[name], args.candidates)),
            "fresh": _measure_fresh(_KERNELS[name], args.candidates),
        }
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


def _make_trial(above: str) -> Trial:
    return Trial(cells=((0, above), (1, ""), (2, "assert y == 42")), target_idx=1, grading_idx=2)


async def _measure_live(above: str, num_candidates: int) -> dict[str, object]:
    kernel: Any = AsyncKernelManager()
    await kernel.start_kernel()
    try:
        client = kernel.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        client.stop_channels()
        assert not (await execute_silently(kernel, above, wait_s=60)).error
        begun_s = time.perf_counter()
        async with open_live(kernel, _make_trial(above), _LIMITS) as session:
            ready_s = time.perf_counter() - begun_s
            asked_s = time.perf_counter()
            await execute_silently(kernel, "None", wait_s=60)
            reply_s = time.perf_counter() - asked_s
            walls_s = list[float]()
            for idx in range(num_candidates):
                begun_s = time.perf_counter()
                await session.judge(str(idx), _CANDIDATES[idx % len(_CANDIDATES)])
                walls_s.append(time.perf_counter() - begun_s)
        return {
            "copy ready s": round(ready_s, 3),
            "kernel replies meanwhile s": round(reply_s, 3),
            **_summarise(walls_s),
        }
    finally:
        await kernel.shutdown_kernel(now=True)


def _measure_fresh(above: str, num_candidates: int) -> dict[str, object]:
    find_walls(None)  # once a server
    texts = {str(idx): _CANDIDATES[idx % len(_CANDIDATES)] for idx in range(num_candidates)}
    walls_s, first_s = list[float](), 0.0
    with tempfile.TemporaryDirectory() as folder:
        begun_s = last_s = time.perf_counter()
        for _ in try_fresh(_make_trial(above), texts, Path(folder), limits=_LIMITS):
            now_s = time.perf_counter()
            if first_s:
                walls_s.append(now_s - last_s)
            first_s, last_s = first_s or now_s - begun_s, now_s
    return {"first verdict s": round(first_s, 3), **_summarise(walls_s)}


def _summarise(walls_s: list[float]) -> dict[str, object]:
    if len(walls_s) < 2:
        return {"candidates": len(walls_s)}
    return {
        "candidates": len(walls_s),
        "median s": round(statistics.median(walls_s), 4),
        "p95 s": round(statistics.quantiles(walls_s, n=20)[-1], 4),
    }


if __name__ == "__main__":
    sys.exit(main())
