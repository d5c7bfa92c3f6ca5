"""Load on one server: 50 users, the bundled model, an open loop below and above its capacity.

    python tests/benchmarks/bench_fill_load.py --minutes 10 > load.json

Capacity is measured first, with as many askers as may wait. Then requests come at random moments,
whether or not earlier ones have been answered: at 70 % of it, at 200 %, and once more at 70 %.
`loop_lag_ms` is the time that GET status takes meanwhile, every 100 ms: above the event loop's lag.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parents[2]
TOKEN = "bench"
NUM_USERS = 50
SOURCES = [
    (
        "markdown",
        "# Exercises\n\nEvery exercise is a Markdown cell, an empty cell and a cell of asserts.",
    ),
    ("markdown", "## 1. Import libraries\n\nImport `numpy` as `np` and `pandas` as `pd`."),
    ("code", ""),
    ("code", "assert np.arange(3).sum() == 3\nassert pd.Series([1, 2]).size == 2"),
]
CELLS = [
    {"id": str(idx), "kind": kind, "source": source} for idx, (kind, source) in enumerate(SOURCES)
]
TARGET_IDX = 2


@dataclass
class Phase:
    """What one phase has seen."""

    outcomes: Counter[str] = field(default_factory=Counter)
    total_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    retry_after: list[int] = field(default_factory=list)

    def report(self, process: psutil.Process, **facts: object) -> dict[str, object]:
        return {
            **facts,
            "outcomes": dict(self.outcomes),
            "total_ms": spread(self.total_s),
            "first_text_ms": spread(self.first_s),
            "loop_lag_ms": spread(self.lags_s),
            "retry_after_s": [min(self.retry_after), max(self.retry_after)]
            if self.retry_after
            else None,
            "server_rss_mib": rss_mib(process),
        }


def rss_mib(process: psutil.Process) -> int:
    """The server's memory with that of its models' processes."""
    family = [process, *process.children(recursive=True)]
    return sum(each.memory_info().rss for each in family) >> 20


def spread(values_s: list[float]) -> dict[str, float] | None:
    if len(values_s) < 2:
        return None
    cuts = statistics.quantiles(values_s, n=100, method="inclusive")
    chosen = {"median": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(values_s)}
    return {name: round(value * 1000, 1) for name, value in chosen.items()}


class Load:
    """Sends requests to a server as 50 users do: each with the cookie of their own."""

    def __init__(self, url: str, provider: str) -> None:
        self._url, self._provider = url, provider
        limits = httpx.Limits(max_connections=None)
        self._clients = [
            httpx.AsyncClient(base_url=url, limits=limits, timeout=180, trust_env=False)
            for _ in range(NUM_USERS)
        ]
        self._count = 0

    async def log_in(self) -> None:
        for client in self._clients:
            await client.get("login")
            await client.get("login", params={"token": TOKEN})

    async def ask(self, phase: Phase) -> None:
        self._count += 1
        client = self._clients[self._count % NUM_USERS]
        cells = [*CELLS[:TARGET_IDX], CELLS[TARGET_IDX] | {"source": f"# case {self._count}\n"}]
        body = {
            "request_id": f"load-{self._count}",
            "cells": [*cells, *CELLS[TARGET_IDX + 1 :]],
            "target_idx": TARGET_IDX,
            "language": "python",
            "max_tokens": 64,
            "provider": self._provider,
        }
        headers = {"X-XSRFToken": client.cookies["_xsrf"]}
        start = time.perf_counter()
        try:
            async with client.stream(
                "POST", "jupyt5/api/fill", json=body, headers=headers
            ) as reply:
                if reply.status_code == 429:
                    phase.retry_after.append(int(reply.headers["Retry-After"]))
                last, has_text = {"type": "lost"}, False
                async for line in reply.aiter_lines():
                    last = json.loads(line)
                    if last["type"] == "delta" and not has_text:
                        has_text = True
                        phase.first_s.append(time.perf_counter() - start)
        except httpx.HTTPError as exc:
            last = {"type": "lost", "code": type(exc).__name__}
        phase.outcomes[f"{last['type']} {last.get('code', '')}".strip()] += 1
        if last["type"] == "done":
            phase.total_s.append(time.perf_counter() - start)

    async def watch_loop(self, phase: Phase) -> None:
        while True:
            start = time.perf_counter()
            await self._clients[0].get("jupyt5/api/status")
            phase.lags_s.append(time.perf_counter() - start)
            await asyncio.sleep(0.1)

    async def measure_capacity(self, seconds: float, num_askers: int) -> float:
        phase, end = Phase(), time.perf_counter() + seconds

        async def ask_on() -> None:
            while time.perf_counter() < end:
                await self.ask(phase)

        start = time.perf_counter()
        await asyncio.gather(*(ask_on() for _ in range(num_askers)))
        return phase.outcomes["done"] / (time.perf_counter() - start)

    async def run_open(self, rate: float, seconds: float) -> Phase:
        phase, draw = Phase(), random.Random(0)
        watch = asyncio.ensure_future(self.watch_loop(phase))
        tasks: list[asyncio.Task[None]] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            await asyncio.sleep(draw.expovariate(rate))
            tasks.append(asyncio.ensure_future(self.ask(phase)))
        await asyncio.gather(*tasks)
        watch.cancel()
        return phase


async def run(args: argparse.Namespace, url: str, process: psutil.Process) -> dict[str, object]:
    load = Load(url, args.provider)
    await load.log_in()
    alone = Phase()
    for _ in range(10):
        await load.ask(alone)
    capacity = await load.measure_capacity(min(30.0, args.minutes * 15), num_askers=8)
    report: dict[str, object] = {
        "users": NUM_USERS,
        "alone": alone.report(process),
        "capacity_per_s": round(capacity, 2),
    }
    for name, share, minutes in [
        ("at 70 %", 0.7, args.minutes),
        ("at 200 %", 2.0, args.minutes / 2),
        ("at 70 % again", 0.7, args.minutes / 4),
    ]:
        phase = await load.run_open(capacity * share, minutes * 60)
        report[name] = phase.report(process, rate_per_s=round(capacity * share, 2))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10, help="of the phase at 70 %%")
    parser.add_argument("--provider", default="jupyt5:nano")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser"),
            *("--ServerApp.port=18931", "--ServerApp.port_retries=0"),
            *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"),
            "--ServerApp.jpserver_extensions={'jupyt5.server': True}",
        ]
        env = os.environ | {"JUPYTER_CONFIG_DIR": folder, "PYTHONPATH": str(ROOT)}
        with Path(folder, "log").open("wb") as log:
            server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            url = "http://127.0.0.1:18931/"
            wait_for(url)
            report = asyncio.run(run(args, url, psutil.Process(server.pid)))
            sys.stdout.write(json.dumps(report, indent=1) + "\n")
        finally:
            server.terminate()
            server.wait(30)


def wait_for(url: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(url + "api", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    sys.exit("The server did not start.")


if __name__ == "__main__":
    main()
