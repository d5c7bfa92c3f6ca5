"""The options of ``jupyt5-train``."""

import argparse
from collections.abc import Callable
from pathlib import Path

__all__ = ["build_parser"]

_EXAMPLES = """examples:
  jupyt5-train prepare --corpus corpus/ --out data/
  jupyt5-train run debug --data data/ --out runs/debug
  jupyt5-train run nano --data data/ --out runs/nano --set steps=2000
  jupyt5-train run nano --data data/ --out runs/nano --set steps=2000 --resume
  jupyt5-train mine ~/notebooks --minutes 10
  torchrun --standalone --nproc-per-node 8 --no-python jupyt5-train run large --data data/ \\
    --out runs/large --set micro_batches=8 --init-from bart-large/
  jupyt5-train evaluate runs/nano/model --data data/ --context 1,3 --following 0,1
  jupyt5-train report runs/nano

exit codes: 0 done, 1 failed, 2 usage, 75 stopped by SIGTERM or SIGUSR1 (a scheduler's: start again
with --resume), 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; the command's name is ``command``, its options have their own names."""
    parser = argparse.ArgumentParser(
        prog="jupyt5-train",
        description="Train JuPyT5 models on cell infilling.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fillers = {
        "prepare": (_fill_prepare, "turn a corpus, or Python sources, into token arrays"),
        "run": (_fill_run, "train a recipe; under torchrun, on several devices"),
        "mine": (_fill_mine, "train the bundled model on your own notebooks: jupyt5:mine"),
        "evaluate": (_fill_evaluate, "evaluate a checkpoint on held-out cells"),
        "report": (_fill_report, "write a run's report, one HTML page"),
    }
    for name, (fill, text) in fillers.items():
        command = commands.add_parser(name, help=text)
        fill(command)
        command.add_argument("--json", action="store_true", help="print the result as JSON")
        command.add_argument("--verbose", action="store_true", help="log more")
    return parser


def _fill_prepare(prepare: argparse.ArgumentParser) -> None:
    sources = prepare.add_mutually_exclusive_group(required=True)
    sources.add_argument("--corpus", type=Path, help="folder of jupyt5-corpus build")
    sources.add_argument(
        "--python-sources",
        type=Path,
        help="instead: folder of .py files, or of Parquet files with a column of their text",
    )
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
        type=_from(1),
        default=2,
        help="a cell text is a target at most so often (default 2)",
    )


def _fill_run(train: argparse.ArgumentParser) -> None:
    train.add_argument(
        "recipe",
        help="debug (seconds), nano (hours on a CPU), mine (minutes, from nano), base, large, "
        "large-v100, large-c1, large-baseline, large-baseline-c1 or pymt5 (GPUs)",
    )
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
        metavar="FOLDER",
        help="start from the weights of this checkpoint folder, e.g. RUNS/pymt5/model, or of a "
        "bundled model: nano",
    )
    train.add_argument(
        "--dsp-problems",
        type=Path,
        metavar="DIR",
        help="run dsp-eval on the first of these problems every dsp_every steps (see --set)",
    )
    train.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")


def _fill_mine(mine: argparse.ArgumentParser) -> None:
    mine.description = (
        "Train the bundled model on your own notebooks, on this machine. About a tenth of them "
        "is held out; if the model is better on those, it is installed as jupyt5:mine, which the "
        "assistant takes where no provider is set. Interrupted, the same command goes on."
    )
    mine.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="folder of notebooks, looked through to any depth, or a notebook",
    )
    mine.add_argument(
        "--minutes", type=float, default=10.0, help="about how long to train (default 10)"
    )
    mine.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="new folder for the run, removed at the end (default: in Jupyter's data folder)",
    )


def _fill_evaluate(evaluate: argparse.ArgumentParser) -> None:
    evaluate.add_argument(
        "checkpoint", help="checkpoint folder, e.g. RUN/model, or a bundled model: nano"
    )
    evaluate.add_argument("--data", type=Path, required=True, help="folder of jupyt5-train prepare")
    evaluate.add_argument(
        "--context",
        default="",
        metavar="C,C",
        help="numbers of context cells (default: the checkpoint's)",
    )
    evaluate.add_argument(
        "--following",
        default="",
        metavar="N,N",
        help="numbers of following cells (default: the checkpoint's)",
    )
    evaluate.add_argument(
        "--targets", type=_from(1), default=512, help="held-out cells (default 512)"
    )
    evaluate.add_argument(
        "--decode",
        type=_from(0),
        default=0,
        help="code cells to decode for exact match (default 0)",
    )
    evaluate.add_argument("--seed", type=_from(0), default=0, help="of the draw (default 0)")


def _fill_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("run", type=Path, help="folder of the run")


def _from(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers that are not below ``least``."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            message = f"{text} is no whole number from {least} on"
            raise argparse.ArgumentTypeError(message)
        return number

    return read
