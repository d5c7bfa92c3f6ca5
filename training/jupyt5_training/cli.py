"""``jupyt5-train``: prepare token arrays, run recipes, evaluate checkpoints, report on runs."""

import argparse
import json
import os
import sys
from collections.abc import Mapping

from jupyt5.console import run, setup_logging
from jupyt5.errors import UsageError
from jupyt5_training.options import build_parser

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns an exit code, see ``--help``."""
    args = build_parser().parse_args(argv)
    setup_logging(verbose=args.verbose)
    commands = {"prepare": _prepare, "run": _run, "evaluate": _evaluate, "report": _report}
    return run(lambda: commands[args.command](args), extra="train")


def _prepare(args: argparse.Namespace) -> int:
    from jupyt5_training.prepare import PrepareConfig, prepare
    from jupyt5_training.python_sources import prepare_python

    config = PrepareConfig(
        vocab_size=args.vocab_size,
        language=args.language,
        markdown_focused_only=args.markdown_focused,
        max_target_copies=args.max_target_copies,
    )
    if args.python_sources:
        info = prepare_python(args.python_sources, args.out, config, tokenizer_path=args.tokenizer)
    else:
        info = prepare(args.corpus, args.out, config, tokenizer_path=args.tokenizer)
    _print(info if args.json else {"out": str(args.out), **_flat(info["counts"])}, args.json)
    return 0


def _run(args: argparse.Namespace) -> int:
    # Batches come in many shapes, and oneDNN keeps a compiled kernel for each of the last 1024:
    # 4 GB more every thousand steps. It reads this when torch first computes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from jupyt5_training.recipes import apply_settings, find_recipe
    from jupyt5_training.runs import run_recipe
    from jupyt5_training.stopping import RequeueRequest, requeue_exit_code

    recipe = apply_settings(find_recipe(args.recipe), args.settings)
    try:
        result = run_recipe(
            recipe,
            args.data,
            args.out,
            resume=args.resume,
            init_from=args.init_from,
            dsp_problems=args.dsp_problems,
        )
    except RequeueRequest:
        return requeue_exit_code()
    if int(os.environ.get("RANK", "0")) == 0:
        _print(result, args.json)
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from jupyt5_training.checkpoint_evaluation import (
        CheckpointEvalConfig,
        describe_evaluation,
        evaluate_checkpoint,
    )
    from jupyt5_training.evaluation import EvalConfig

    config = CheckpointEvalConfig(
        contexts=_split_numbers("--context", args.context),
        followings=_split_numbers("--following", args.following),
        evaluation=EvalConfig(num_targets=args.targets, num_decoded=args.decode, seed=args.seed),
    )
    found = evaluate_checkpoint(args.checkpoint, args.data, config)
    print(json.dumps(found) if args.json else "\n".join(describe_evaluation(found)))
    return 0


def _report(args: argparse.Namespace) -> int:
    from jupyt5_training.run_report import write_report

    _print({"report": str(write_report(args.run))}, args.json)
    return 0


def _split_numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        message = f"{option} {text} is not a list of whole numbers, e.g. {option} 1,3."
        raise UsageError(message)
    return tuple(int(part) for part in parts)


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
