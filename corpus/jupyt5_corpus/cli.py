"""The command line ``jupyt5-corpus``."""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from jupyt5 import __version__, console
from jupyt5.files import write_atomic
from jupyt5_corpus.holdout_lists import bundled_file, from_dsp_manifest, read_file
from jupyt5_corpus.workers import default_num_workers

__all__ = ["main"]

_EXAMPLES = """\
examples:
  jupyt5-corpus build shards/ --out corpus/
  jupyt5-corpus build 00.tar.zst my-notebooks/ --out corpus/ --workers 4
  jupyt5-corpus build shards/ --out corpus/ --holdout juice.jsonl --json > result.json
  jupyt5-corpus check corpus/
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _make_parser().parse_args(argv)
    console.setup_logging(verbose=options.verbose)
    return console.run(lambda: cast("int", options.command(options)), extra="corpus")


def _build(options: argparse.Namespace) -> int:
    from jupyt5_corpus.build import build_corpus
    from jupyt5_corpus.recipe import Recipe

    start_s = time.monotonic()
    holdout_files = [bundled_file(), *(read_file(path) for path in options.holdout)]
    manifest = build_corpus(
        options.sources,
        options.out,
        recipe=Recipe(holdout_files=holdout_files),
        num_workers=options.workers,
    )
    if options.json:
        print(json.dumps(manifest, ensure_ascii=False))
    else:
        print(f"{options.out}  ({time.monotonic() - start_s:.1f} s)")
        print(_summary(manifest))
    return console.EXIT_OK


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
    print(f"{options.out}: {len(entries.splitlines())} entries")
    return console.EXIT_OK


def _summary(manifest: Mapping[str, object]) -> str:
    removed = cast("Mapping[str, int]", manifest["removed"])
    totals = cast("Mapping[str, int]", manifest["totals"])
    split = cast("Mapping[str, int]", manifest["split"])
    counts = {
        "notebooks in": cast("int", manifest["notebooks_in"]),
        **{f"removed: {reason}": count for reason, count in removed.items()},
        "notebooks kept": cast("int", manifest["notebooks_kept"]),
        "of them Markdown focused": totals.get("num_markdown_focused", 0),
        "of them for validation": split["num_validation_notebooks"],
        "repositories": split["num_repositories"],
        "families of repositories": split["num_families"],
        "tokens (estimate)": totals.get("num_tokens_estimate", 0),
    }
    return "\n".join(f"{count:>14,}  {name}" for name, count in counts.items())


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyt5-corpus",
        description="Make a training corpus (Parquet) from Jupyter notebooks.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as JSON")
    common.add_argument("--verbose", action="store_true", help="say more on stderr")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser(
        "build",
        parents=[common],
        help="build a corpus",
        description="Read notebooks, drop unreadable, held-out and duplicate ones, mark "
        "Markdown-focused ones, write Parquet. The holdout list of the DSP benchmark always "
        "applies. OUT appears when all is done; until then the work is in OUT.partial, and the "
        "same command goes on from there after a stop.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _fill_build(build)
    check = commands.add_parser("check", parents=[common], help="verify a finished corpus")
    check.add_argument("folder", type=Path, metavar="DIR", help="folder that build made")
    check.set_defaults(command=_check)
    make_holdout = commands.add_parser(
        "make-holdout", parents=[common], help="make a holdout list from a DSP manifest"
    )
    _fill_make_holdout(make_holdout)
    return parser


def _fill_build(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="SOURCE",
        help="folder of .tar/.tar.zst shards (with repos.jsonl and files.jsonl.zst, if there), "
        "one archive, or a folder of notebooks",
    )
    build.add_argument("--out", type=Path, required=True, help="folder to make")
    build.add_argument(
        "--holdout",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="further holdout list: JSON lines with source and repo, content_sha256 or "
        "cell_sha256; may be given several times",
    )
    build.add_argument(
        "--workers",
        type=_positive,
        default=default_num_workers(),
        metavar="N",
        help="processes; the result is the same for any number (default: %(default)s)",
    )
    build.set_defaults(command=_build)


def _fill_make_holdout(make_holdout: argparse.ArgumentParser) -> None:
    make_holdout.add_argument("manifest", type=Path, help="manifest.jsonl of the problem set")
    make_holdout.add_argument("--out", type=Path, required=True, help="list to write")
    make_holdout.add_argument("--source", default="DSP", help="name to report (default: DSP)")
    make_holdout.set_defaults(command=_make_holdout)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


if __name__ == "__main__":
    raise SystemExit(main())
