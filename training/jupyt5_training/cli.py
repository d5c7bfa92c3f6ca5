"""``jupyt5-train``: prepare token arrays, run recipes, evaluate checkpoints, report on runs."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from jupyt5.console import run, setup_logging
from jupyt5.errors import TrainingError, UsageError
from jupyt5_training.options import build_parser

__all__ = ["main"]

logger = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns an exit code, see ``--help``."""
    args = build_parser().parse_args(argv)
    setup_logging(verbose=args.verbose)
    commands = {
        "prepare": _prepare,
        "run": _run,
        "mine": _mine,
        "evaluate": _evaluate,
        "report": _report,
    }
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
    _set_up_threads()
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
            init_from=_find_start(args.init_from) if args.init_from else None,
            dsp_problems=args.dsp_problems,
        )
    except RequeueRequest:
        return requeue_exit_code()
    except KeyboardInterrupt:
        logger.info("the same command with --resume goes on")
        raise
    if int(os.environ.get("RANK", "0")) == 0:
        _print(result, args.json)
    return 0


def _mine(args: argparse.Namespace) -> int:
    _set_up_threads()
    from jupyt5.providers.places import OWN_URI, own_model_folder
    from jupyt5_training.mine import MineConfig, make_own_model
    from jupyt5_training.stopping import RequeueRequest, requeue_exit_code

    target = own_model_folder()
    config = MineConfig(
        start=_find_start("jupyt5:nano"),
        work=args.out or target.parents[1] / "mine-run",
        target=target,
        minutes=args.minutes,
    )
    try:
        result = make_own_model(args.folders, config)
    except RequeueRequest:
        return requeue_exit_code()
    found: dict[str, object] = {
        **result.counts,
        "held_out_notebooks": result.num_held_out,
        "steps": result.steps,
        "validation_loss_before": round(result.loss_before, 4),
        "validation_loss_after": round(result.loss_after, 4),
        "provider": OWN_URI if result.installed else None,
        "folder": str(result.installed) if result.installed else None,
    }
    _print(found, args.json)
    if result.installed:
        return 0
    message = (
        f"The model did not get better on {result.num_held_out} held-out notebooks of yours: "
        f"validation loss {result.loss_before:.4f} with jupyt5:nano, {result.loss_after:.4f} after "
        f"training. It was not installed, {OWN_URI} is what it was. More notebooks help most."
    )
    raise TrainingError(message)


def _set_up_threads() -> None:
    """Set what torch's libraries read once, when they are loaded; the user's own values stay."""
    # Batches come in many shapes, and oneDNN keeps a compiled kernel for each of the last 1024:
    # 4 GB more every thousand steps.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # Beside other work OpenMP's threads would spin for each other: 90 s for a step of 1 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _find_start(name: str) -> Path:
    """Return the checkpoint folder of that path; a bundled model goes by its name."""
    from jupyt5.providers.places import bundled_folders

    if Path(name).is_dir():
        return Path(name)
    bundled = {folder.name: folder for folder in bundled_folders()}
    found = bundled.get(name.removeprefix("jupyt5:"))
    if found is None and name.startswith("jupyt5:"):
        message = (
            f"There is no bundled model {name} in this installation (there is: "
            f"{', '.join(bundled) or 'none'}). Install jupyt5 from a wheel, which has it."
        )
        raise TrainingError(message)
    return found or Path(name)


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
    found = evaluate_checkpoint(_find_start(args.checkpoint), args.data, config)
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
