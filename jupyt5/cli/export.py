"""`jupyt5 export`: from a trained checkpoint folder to the runtime of the base install."""

import argparse
from pathlib import Path

from jupyt5.cli.command import Command
from jupyt5.cli.output import note
from jupyt5.errors import CheckpointError, UsageError

__all__ = ["COMMAND"]

_EXAMPLES = """\
examples:
  jupyt5 export runs/nano/model --to ctranslate2 --quantization int8 --out nano-int8
  jupyt5 fill analysis.ipynb --cell 4 --provider jupyt5:nano-int8
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a checkpoint folder")
    add("--to", choices=["ctranslate2"], default="ctranslate2", help="the runtime")
    add("--quantization", default="int8", help="int8 (default), float16 or float32")
    add("--out", type=Path, required=True, metavar="DIR", help="new folder for the result")


def _export(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    out: Path = options.out
    if not folder.is_dir():
        message = f"{folder} is no folder. Give the checkpoint folder of a training run."
        raise CheckpointError(message)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        message = f"{out} exists already. Give another --out or remove it."
        raise UsageError(message)
    try:
        import torch
        import transformers
    except ImportError as exc:
        message = (
            f"The export needs {exc.name}, which is not installed: pip install 'jupyt5[train]'"
        )
        raise CheckpointError(message) from exc
    del torch, transformers
    from jupyt5.model.export import export_ctranslate2

    export_ctranslate2(folder, out, options.quantization)
    size_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    note(f"Wrote {out} ({size_bytes / 1e6:.1f} MB). Use it with --provider jupyt5:{out}")
    return 0


COMMAND = Command(
    name="export",
    summary="convert a trained model for fast answers",
    description="Convert a checkpoint folder. Needs the extra [train].",
    epilog=_EXAMPLES,
    configure=_configure,
    body=_export,
)
