"""The command line ``jupyt5-corpus``."""

import argparse
import json
from pathlib import Path
from typing import cast

from jupyt5 import __version__, console
from jupyt5.files import write_atomic
from jupyt5_corpus import build_cli, holdout_commands
from jupyt5_corpus.explore import cli as explore_cli
from jupyt5_corpus.fetch import cli as fetch_cli
from jupyt5_corpus.holdout_lists import from_dsp_manifest

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _make_parser().parse_args(argv)
    console.setup_logging(verbose=options.verbose)
    return console.run(lambda: cast("int", options.command(options)), extra="corpus")


def _check(options: argparse.Namespace) -> int:
    from jupyt5_corpus.check import check_corpus

    problems = check_corpus(options.folder)
    if options.json:
        print(json.dumps({"ok": not problems, "problems": problems}, ensure_ascii=False))
    else:
        print("\n".join(problems) or f"{options.folder} is whole.")
    return console.EXIT_FAILED if problems else console.EXIT_OK


def _make_holdout(options: argparse.Namespace) -> int:
    entries = from_dsp_manifest(options.manifest, options.source)
    write_atomic(options.out, entries)
    num_entries = len(entries.splitlines())
    if options.json:
        print(json.dumps({"list": str(options.out), "entries": num_entries}, ensure_ascii=False))
    else:
        print(f"{options.out}: {num_entries} entries")
    return console.EXIT_OK


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyt5-corpus",
        description="Make a training corpus (Parquet) from Jupyter notebooks.",
        epilog=build_cli.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as JSON")
    common.add_argument("--verbose", action="store_true", help="say more on stderr")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build_cli.add_command(commands, common)
    check = commands.add_parser("check", parents=[common], help="verify a finished corpus")
    check.add_argument("folder", type=Path, metavar="DIR", help="folder that build made")
    check.set_defaults(command=_check)
    make_holdout = commands.add_parser(
        "make-holdout", parents=[common], help="make a holdout list from a DSP manifest"
    )
    _fill_make_holdout(make_holdout)
    fetch_cli.add_commands(commands, common)
    explore_cli.add_commands(commands)
    holdout_commands.add_commands(commands)
    return parser


def _fill_make_holdout(make_holdout: argparse.ArgumentParser) -> None:
    make_holdout.add_argument("manifest", type=Path, help="manifest.jsonl of the problem set")
    make_holdout.add_argument("--out", type=Path, required=True, help="list to write")
    make_holdout.add_argument("--source", default="DSP", help="name to report (default: DSP)")
    make_holdout.set_defaults(command=_make_holdout)


if __name__ == "__main__":
    raise SystemExit(main())
