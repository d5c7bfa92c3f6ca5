"""Rates of the corpus pipeline: reading against ``nbformat.reads``, whole builds, memory.

- ``parse``: the notebooks of a source, evenly drawn, each read in turn by ``nbformat.reads`` and by
  ``read_notebook`` + ``content_hash``, several times; the fastest of each counts. Processor times.
- ``builds``: ``jupyt5-corpus build`` in one process of its own for each recipe: processor and wall
  seconds, peak memory, and the table of steps that it logs. ``short`` is what lies between a file
  and a row of Parquet, without anything more: parse, normalise, exact duplicates, the mark.
- ``copies``: the same with N copies of the source, each made different by a cell of its own, for
  the growth of memory.

Prints JSON.

    python tests/benchmarks/bench_corpus.py SHARDS
    python tests/benchmarks/bench_corpus.py SHARDS --only copies --copies 4
"""

import argparse
import io
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import nbformat
import orjson
from nbformat import ValidationError

from jupyt5.errors import NotebookError
from jupyt5.notebook import read_notebook
from jupyt5_corpus.compression import open_packed
from jupyt5_corpus.content import content_hash
from jupyt5_corpus.sources import RawFile, find_units, iter_files

Value = TypeVar("Value")

PARTS = ("parse", "builds", "copies")
SHORT_RECIPE = "name: short\nsteps: [parse, normalise, exact_duplicates, markdown_focused]\n"
STEP_LINE = re.compile(r"([\d.]+) ms a notebook +([\d.]+) % +(.+)")
NUM_REPEATS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, metavar="SHARDS", help="folder of shards")
    parser.add_argument("--notebooks", type=int, default=600, help="to read, evenly drawn")
    parser.add_argument("--recipes", nargs="*", default=["short", "paper", "default"])
    parser.add_argument("--copies", type=int, default=4, metavar="N")
    parser.add_argument("--only", choices=PARTS, action="append", help="default: all parts")
    args = parser.parse_args(argv)
    parts = args.only or PARTS
    report: dict[str, object] = {"python": platform.python_version(), "cores": os.cpu_count()}
    if "parse" in parts:
        report["parse"] = compare_readers(args.source, args.notebooks)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if "builds" in parts:
            report["builds"] = {
                name: build([args.source], name, work / name) for name in args.recipes
            }
        if "copies" in parts:
            report["copies"] = measure_copies(args.source, args.copies, work)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def compare_readers(source: Path, number: int) -> dict[str, object]:
    """Read notebooks both ways, in turn; those that one side refuses are left out."""
    drawn = list(draw_notebooks(source, number))
    theirs_s = ours_s = 0.0
    num_bytes = num_read = 0
    for data in drawn:
        text = data.decode("utf-8", "replace")
        try:
            pairs = [(clock(read_theirs, text), clock(read_ours, data)) for _ in range(NUM_REPEATS)]
        except (NotebookError, ValidationError, ValueError, KeyError, AttributeError):
            continue
        theirs_s += min(theirs for theirs, _ in pairs)
        ours_s += min(ours for _, ours in pairs)
        num_bytes += len(data)
        num_read += 1
    return {
        "num_notebooks": num_read,
        "num_refused": len(drawn) - num_read,
        "mean_kb": round(num_bytes / num_read / 1000, 1),
        "nbformat_ms": round(theirs_s / num_read * 1e3, 3),
        "ours_ms": round(ours_s / num_read * 1e3, 3),
        "ratio": round(theirs_s / ours_s, 1),
    }


def read_theirs(text: str) -> None:
    """Read as a plain script does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nbformat.reads(text, as_version=4)


def read_ours(data: bytes) -> None:
    """Read and hash as the pipeline does."""
    content_hash(read_notebook(data).cells)


def draw_notebooks(source: Path, number: int) -> Iterator[bytes]:
    """Draw about ``number`` notebooks evenly from all shards."""
    found = [
        file.data
        for unit in find_units([source])
        for file in iter_files(unit)
        if isinstance(file, RawFile) and file.data is not None
    ]
    yield from found[:: max(1, len(found) // number)]


def clock(call: Callable[[Value], object], value: Value) -> float:
    """Return the processor seconds of one call."""
    started_s = time.process_time()
    call(value)
    return time.process_time() - started_s


def build(sources: Sequence[Path], recipe: str, work: Path) -> dict[str, object]:
    """Build a corpus in a process of its own and take it away again."""
    work.mkdir()
    if recipe == "short":
        recipe = str(work / "short.yaml")
        Path(recipe).write_text(SHORT_RECIPE)
    command = [sys.executable, "-m", "jupyt5_corpus.cli", "build", *map(str, sources)]
    command += ["--out", str(work / "out"), "--recipe", recipe, "--workers", "1", "--json"]
    started_s = time.monotonic()
    with (work / "log").open("wb") as log, (work / "result").open("wb") as result:
        process = subprocess.Popen(command, stdout=result, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started_s
    log_text = (work / "log").read_text()
    if status:
        raise SystemExit(f"The build failed:\n{log_text}")
    manifest = orjson.loads((work / "result").read_bytes())
    shutil.rmtree(work / "out")
    return describe(manifest, usage, wall_s, log_text)


def describe(
    manifest: dict[str, int], usage: resource.struct_rusage, wall_s: float, log_text: str
) -> dict[str, object]:
    """Put a build's figures together."""
    cpu_s = usage.ru_utime + usage.ru_stime
    return {
        "notebooks_in": manifest["notebooks_in"],
        "notebooks_kept": manifest["notebooks_kept"],
        "cpu_s": round(cpu_s, 1),
        "wall_s": round(wall_s, 1),
        "notebooks_a_core_second": round(manifest["notebooks_in"] / cpu_s),
        "peak_mb": round(usage.ru_maxrss / 1024),
        "step_ms": {
            name: [float(ms), float(share)] for ms, share, name in STEP_LINE.findall(log_text)
        },
    }


def measure_copies(source: Path, number: int, work: Path) -> dict[str, object]:
    """Build from the source, then from several copies of it, and tell the peaks of memory."""
    found: dict[str, object] = {}
    for num_copies in (1, number):
        folder = work / f"source{num_copies}"
        folder.mkdir()
        for copy_idx in range(num_copies):
            for path in sorted(source.glob("*.tar.zst")):
                name = path.name.removesuffix(".zst")
                write_copy(path, folder / f"{copy_idx}-{name}", copy_idx)
        found[f"{num_copies}x"] = build([folder], "default", work / f"default{num_copies}")
        shutil.rmtree(folder)
    return found


def write_copy(path: Path, target: Path, copy_idx: int) -> None:
    """Copy a shard; each notebook gets a cell that says which copy it is in."""
    with (
        open_packed(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as source,
        tarfile.open(target, "w", errors="surrogateescape") as copy,
    ):
        for member in source:
            file = source.extractfile(member) if member.isreg() else None
            if file is None:
                continue
            data = mark(file.read(), copy_idx) if member.name.endswith(".ipynb") else file.read()
            member.size = len(data)
            copy.addfile(member, io.BytesIO(data))


def mark(data: bytes, copy_idx: int) -> bytes:
    """Add a cell to a notebook; what is none is left alone."""
    try:
        notebook = orjson.loads(data)
        cell = {"cell_type": "raw", "metadata": {}, "source": f"copy {copy_idx}"}
        notebook["cells"].append(cell)
        return orjson.dumps(notebook)
    except (ValueError, TypeError, KeyError, AttributeError):
        return data


if __name__ == "__main__":
    raise SystemExit(main())
