"""The commands ``stats``, ``map`` and ``opt-out`` of ``jupyt5-corpus``."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyt5 import console

__all__ = ["add_commands"]

Commands = Any
"""What ``add_subparsers`` returns; its class has no public name."""


def add_commands(commands: Commands) -> None:
    """Add the commands to the command line's parsers."""
    stats = _add(
        commands,
        "stats",
        _stats,
        "print the paper's dataset table for a corpus",
        "Count repositories, notebooks, cells and tokens of a finished corpus and print them "
        "beside the JuPyT5 paper's figures.",
    )
    form = stats.add_mutually_exclusive_group()
    _add_json(form)
    form.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    chart = _add(
        commands,
        "map",
        _map,
        "draw a map of a corpus",
        "Place notebooks on a map by their words (fastText, t-SNE), find clusters and write one "
        "HTML page that needs no network. The same corpus, seed and library versions give the "
        "same map on the same kind of machine.",
    )
    _add_json(chart)
    _fill_map(chart)
    opt_out = _add(
        commands,
        "opt-out",
        _opt_out,
        "take listed notebooks out of a finished corpus",
        "Make a corpus without the notebooks of an opt-out list. Shards without listed notebooks "
        "are linked, nothing is computed anew.",
    )
    _add_json(opt_out)
    _fill_opt_out(opt_out)


def _add(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], int],
    summary: str,
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=description)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that build made")
    parser.add_argument("--verbose", action="store_true", help="say more on stderr")
    parser.set_defaults(command=command)
    return parser


def _add_json(parser: argparse._ActionsContainer) -> None:  # pyright: ignore[reportPrivateUsage]
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _fill_map(chart: argparse.ArgumentParser) -> None:
    chart.add_argument("--out", type=Path, required=True, metavar="FILE", help="page to write")
    chart.add_argument(
        "--notebooks",
        type=int,
        default=17_000,
        metavar="N",
        help="notebooks to place, drawn at random; the paper's 17 thousand (default: %(default)s)",
    )
    chart.add_argument(
        "--cells",
        type=int,
        default=10,
        metavar="N",
        help="cells to read of each, drawn at random (default: %(default)s)",
    )
    chart.add_argument(
        "--clusters", type=int, default=24, metavar="N", help="clusters (default: %(default)s)"
    )
    chart.add_argument("--seed", type=int, default=0, help="of every draw (default: %(default)s)")


def _fill_opt_out(opt_out: argparse.ArgumentParser) -> None:
    opt_out.add_argument(
        "--list",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSON lines with "repo" (owner/name, or a folder\'s name), "owner" or '
        '"content_sha256" (a row\'s content_hash), and perhaps a "note" that goes to removed/',
    )
    opt_out.add_argument("--out", type=Path, required=True, metavar="DIR2", help="folder to make")
    opt_out.add_argument(
        "--copies",
        action="store_true",
        help="also take out known forks of what is listed, and notebooks equal to a listed one "
        "that had been removed as their duplicate",
    )


def _stats(options: argparse.Namespace) -> int:
    from jupyt5_corpus import stats_table
    from jupyt5_corpus.stats import read_stats

    stats = read_stats(options.folder)
    if options.json:
        print(json.dumps(stats_table.as_json(stats), ensure_ascii=False))
    elif options.markdown:
        print(stats_table.as_markdown(stats))
    else:
        print(stats_table.as_text(stats))
    return console.EXIT_OK


def _opt_out(options: argparse.Namespace) -> int:
    from jupyt5_corpus.opt_out import load
    from jupyt5_corpus.opt_out_apply import apply_opt_out

    result = apply_opt_out(
        options.folder, options.out, load(options.list), with_copies=options.copies
    )
    if options.json:
        print(json.dumps(asdict(result), ensure_ascii=False))
        return console.EXIT_OK
    print(f"{options.out}: {result.num_rewritten} of {result.num_shards} shards written anew")
    print(f"{result.num_kept:>14,}  notebooks stay")
    for reason, count in result.removed.items():
        print(f"{count:>14,}  removed: {reason}")
    if result.num_kept_copies:
        print(f"{result.num_kept_copies:>14,}  copies of them kept; --copies takes them out too")
    if result.unmatched:
        few = ", ".join(result.unmatched[:5]) + (", …" if len(result.unmatched) > 5 else "")
        print(f"{len(result.unmatched):>14,}  entries of the list name nothing here: {few}")
    return console.EXIT_OK


def _map(options: argparse.Namespace) -> int:
    from jupyt5_corpus.map import MapSettings, write_map

    settings = MapSettings(
        num_notebooks=options.notebooks,
        num_cells=options.cells,
        num_clusters=options.clusters,
        seed=options.seed,
    )
    chart = write_map(options.folder, options.out, settings)
    if options.json:
        print(json.dumps(chart.summarise(), ensure_ascii=False))
        return console.EXIT_OK
    print(f"{options.out}: {len(chart.notebooks):,} notebooks")
    for cluster in chart.clusters:
        size, share = len(cluster.members), 100 * cluster.markdown_fraction
        print(f"{size:>8,}  {share:>3.0f} % Markdown  {', '.join(cluster.terms[:8])}")
    return console.EXIT_OK
