"""``jupyt5-train``: prepare token arrays and run recipes."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from jupyt5.console import run, setup_logging

__all__ = ["main"]

_EXAMPLES = """examples:
  jupyt5-train prepare --corpus corpus/ --out data/
  jupyt5-train run debug --data data/ --out runs/debug
  jupyt5-train run nano --data data/ --out runs/nano --set steps=2000
  jupyt5-train run nano --data data/ --out runs/nano --set steps=2000 --resume
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns 0 done, 1 failed, 2 usage, 130 interrupted."""
    args = _build_parser().parse_args(argv)
    setup_logging(verbose=args.verbose)
    command = {"prepare": _prepare, "run": _run}[args.command]
    return run(lambda: command(args), extra="train")


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyt5-train",
        description="Train JuPyT5 models on cell infilling.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="turn a corpus into token arrays")
    train = commands.add_parser("run", help="train a recipe: debug (seconds) or nano (hours, CPU)")
    _fill_prepare(prepare)
    _fill_run(train)
    for command in (prepare, train):
        command.add_argument("--json", action="store_true", help="print the result as JSON")
        command.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _fill_prepare(prepare: argparse.ArgumentParser) -> None:
    prepare.add_argument("--corpus", type=Path, required=True, help="folder of jupyt5-corpus build")
    prepare.add_argument("--out", type=Path, required=True, help="new folder for the arrays")
    prepare.add_argument(
        "--tokenizer", type=Path, help="use this tokenizer.json; default: train one"
    )
    prepare.add_argument(
        "--vocab-size", type=int, default=8192, help="ids of a trained tokenizer (default 8192)"
    )
    prepare.add_argument(
        "--language", default="python", help="keep this language; 'all' keeps all (default python)"
    )
    prepare.add_argument(
        "--markdown-focused", action="store_true", help="keep Markdown-focused notebooks only"
    )
    prepare.add_argument(
        "--max-target-copies",
        type=int,
        default=2,
        help="a cell text is a target at most so often (default 2)",
    )


def _fill_run(train: argparse.ArgumentParser) -> None:
    train.add_argument("recipe", help="name of a recipe")
    train.add_argument("--data", type=Path, required=True, help="folder of jupyt5-train prepare")
    train.add_argument("--out", type=Path, required=True, help="folder of the run")
    train.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a recipe setting, e.g. steps=2000 or optimizer.peak_lr=5e-4",
    )
    train.add_argument(
        "--init-from",
        type=Path,
        metavar="FOLDER",
        help="start from the weights of this checkpoint folder, e.g. RUNS/pymt5/model",
    )
    train.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")


def _prepare(args: argparse.Namespace) -> int:
    from jupyt5_training.prepare import PrepareConfig, prepare

    config = PrepareConfig(
        vocab_size=args.vocab_size,
        language=args.language,
        markdown_focused_only=args.markdown_focused,
        max_target_copies=args.max_target_copies,
    )
    info = prepare(args.corpus, args.out, config, tokenizer_path=args.tokenizer)
    _print(info if args.json else {"out": str(args.out), **_flat(info["counts"])}, args.json)
    return 0


def _run(args: argparse.Namespace) -> int:
    # Batches come in many shapes, and oneDNN keeps a compiled kernel for each of the last 1024:
    # 4 GB more every thousand steps. It reads this when torch first computes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from jupyt5_training.recipes import apply_settings, find_recipe
    from jupyt5_training.runs import run_recipe

    recipe = apply_settings(find_recipe(args.recipe), args.settings)
    result = run_recipe(recipe, args.data, args.out, resume=args.resume, init_from=args.init_from)
    if int(os.environ.get("RANK", "0")) == 0:
        _print(result, args.json)
    return 0


def _flat(counts: object) -> dict[str, object]:
    if not isinstance(counts, dict):
        return {}
    return {
        f"{split} {key}": value for split, part in counts.items() for key, value in part.items()
    }


def _print(result: Mapping[str, object], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result, sort_keys=True))
        return
    for key, value in result.items():
        print(f"{key.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    sys.exit(main())
