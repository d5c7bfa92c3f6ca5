"""The command that makes the index of benchmark problems (``jupyt5-corpus make-overlap-index``)."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jupyt5 import console
from jupyt5.files import write_atomic

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:  # noqa: ANN401 -- argparse has no public name for it
    """Add the command to the command line's parsers."""
    parser = commands.add_parser(
        "make-overlap-index",
        help="make the hashed index of benchmark problems that notebooks are searched for",
        description="Hash the n-grams of benchmark problems, without those that are common in a "
        "reference corpus. The bundled index was made from all four benchmarks and the corpus "
        "that the recipe 'paper' makes of the shared notebooks.",
        epilog="example:\n  jupyt5-corpus make-overlap-index DSP=data/dsp HumanEval=data/humaneval "
        "--reference CORPUS --out benchmarks.npz",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benchmarks",
        nargs="+",
        metavar="NAME=FOLDER",
        help="a benchmark (DSP, HumanEval, MBPP, BioCoder) and the folder of its files",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        required=True,
        metavar="CORPUS",
        help="finished corpus that tells which n-grams are common",
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write (.npz)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--verbose", action="store_true", help="say more on stderr")
    parser.set_defaults(command=_make_overlap_index)


def _make_overlap_index(options: argparse.Namespace) -> int:
    from jupyt5.errors import UsageError
    from jupyt5_corpus.benchmark_making import iter_reference, make_index
    from jupyt5_corpus.benchmark_sources import BENCHMARKS, read_dsp_notebooks, read_parts

    folders: dict[str, Path] = {}
    for argument in options.benchmarks:
        name, _, folder = argument.partition("=")
        if name not in BENCHMARKS or not folder:
            known = ", ".join(BENCHMARKS)
            raise UsageError(f"{argument} is not NAME=FOLDER with one of {known} as the name.")
        folders[name] = Path(folder)
    parts = [part for name, folder in folders.items() for part in read_parts(name, folder)]
    notebooks = read_dsp_notebooks(folders["DSP"]) if "DSP" in folders else ()
    index = make_index(parts, notebooks, iter_reference(options.reference))
    write_atomic(options.out, index.dump())
    counts = {
        "problems": len(index.problems),
        "n-grams": index.ngrams.size,
        "notebooks": len(index.notebooks),
    }
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    sys.stdout.write(f"{json.dumps(counts) if options.json else f'{options.out}: {text}'}\n")
    return console.EXIT_OK
