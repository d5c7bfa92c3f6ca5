"""The commands ``list`` and ``fetch`` of ``jupyt5-corpus``."""

import argparse
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from jupyt5 import console

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]

__all__ = ["add_commands"]

logger = logging.getLogger(__name__)

_LIST_EXAMPLE = """\
example:
  jupyt5-corpus list 2021-01-*.json.gz search.json --before 2021-01-01 --out list.jsonl
"""
_FETCH_EXAMPLE = """\
examples:
  jupyt5-corpus fetch list.jsonl --out shards/
  jupyt5-corpus fetch shards/failed.jsonl --out more-shards/ --retries 5
  jupyt5-corpus build shards/ more-shards/ --out corpus/
"""


def add_commands(commands: "Commands", common: argparse.ArgumentParser) -> None:
    """Add the commands to a command line.

    Args:
        commands: Where to add them.
        common: The options that all commands share.
    """
    lister = commands.add_parser(
        "list",
        parents=[common],
        help="list repositories of notebooks",
        description="Read GH Archive's hourly files, or answers of GitHub's REST search, and list "
        "the repositories whose primary language fits and that were created before a date.",
        epilog=_LIST_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _fill_list(lister)
    fetcher = commands.add_parser(
        "fetch",
        parents=[common],
        help="fetch the notebooks of git repositories",
        description="Fetch only the notebooks and licence files of each repository's newest "
        "commit, over https, http or git, into shards that `build` reads. The same command goes on "
        "after a stop. What could not be fetched is in OUT/failed.jsonl with a reason; that file "
        "is itself a list to fetch; the exit code is 1 where nothing could be. Needs git.",
        epilog=_FETCH_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _fill_fetch(fetcher)


def _list(options: argparse.Namespace) -> int:
    from jupyt5_corpus.listing import list_repositories

    counts = list_repositories(
        options.files, options.out, language=options.language, before=options.before
    )
    _print(options, counts)
    return console.EXIT_OK


def _fetch(options: argparse.Namespace) -> int:
    from jupyt5_corpus.fetch.client import FetchLimits
    from jupyt5_corpus.fetch.run import FetchOptions, fetch_list

    limits = FetchLimits(timeout_s=options.timeout_s, max_repo_bytes=options.max_repo_mib << 20)
    fetch_options = FetchOptions(
        num_workers=options.workers,
        per_host=options.per_host,
        delay_s=options.delay_s,
        num_retries=options.retries,
        repos_per_shard=options.repos_per_shard,
        limits=limits,
    )
    try:
        counts = fetch_list(options.list, options.out, fetch_options)
    except KeyboardInterrupt:
        logger.warning(
            "%s holds the shards that are done, %s the parts of the others. The same command goes "
            "on from there.",
            options.out,
            options.out / "work",
        )
        raise
    _print(options, counts)
    if counts["repositories"] or not counts["failed"]:
        return console.EXIT_OK
    logger.error("Nothing could be fetched; %s says why.", options.out / "failed.jsonl")
    return console.EXIT_FAILED


def _print(options: argparse.Namespace, counts: Mapping[str, object]) -> None:
    if options.json:
        print(json.dumps(counts, ensure_ascii=False))
        return
    print(options.out)
    for name, count in counts.items():
        details = cast("Mapping[str, int]", count) if isinstance(count, Mapping) else {"": count}
        for detail, number in details.items():
            print(f"{number:>14,}  {name}{': ' if detail else ''}{detail}")


def _fill_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=".json, .json.gz or .json.zst: one event or repository a line, or one JSON document",
    )
    parser.add_argument("--out", type=Path, required=True, help="list to write, JSON lines")
    parser.add_argument(
        "--before",
        type=_date,
        required=True,
        metavar="DATE",
        help="only repositories created before this day (UTC), e.g. 2021-01-01",
    )
    parser.add_argument(
        "--language",
        default="Jupyter Notebook",
        metavar="NAME",
        help="primary language as GitHub calls it (default: %(default)s)",
    )
    parser.set_defaults(command=_list)


def _fill_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "list", type=Path, metavar="LIST", help="one address a line, or JSON lines with url"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to fill with shards")
    numbers = (
        ("--workers", _positive, 8, "N", "repositories fetched at the same time"),
        ("--per-host", _positive, 4, "N", "of them, from one host"),
        ("--delay-s", _not_negative, 0.25, "S", "seconds between two fetches from one host"),
        ("--timeout-s", _not_negative, 600.0, "S", "seconds until a git command is ended"),
        ("--retries", _number, 3, "N", "further attempts after a passing failure"),
        ("--max-repo-mib", _positive, 1024, "N", "MiB to receive of one repository"),
        ("--repos-per-shard", _positive, 200, "N", "repositories in one shard"),
    )
    for option, kind, default, metavar, text in numbers:
        parser.add_argument(
            option,
            type=kind,
            default=default,
            metavar=metavar,
            help=f"{text} (default: %(default)s)",
        )
    parser.set_defaults(command=_fetch)


def _date(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return number
