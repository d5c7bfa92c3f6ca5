"""`jupyt5 export`: from a trained checkpoint folder to the runtime of the base install."""

import argparse
import importlib
from pathlib import Path

from jupyt5.cli.command import Command
from jupyt5.cli.output import note
from jupyt5.errors import CheckpointError, UsageError

__all__ = ["COMMAND"]

# Each runtime with what its export imports, so that a missing one is named.
_NEEDS = {
    "ctranslate2": ("torch", "transformers"),
    "onnx": ("torch", "transformers", "onnx", "onnxscript", "onnxruntime"),
}
_EXAMPLES = """\
examples:
  jupyt5 export runs/nano/model --to onnx --quantization int8 --out nano-int8
  jupyt5 export runs/nano/model --to ctranslate2 --quantization float32 --out nano-ct2
  jupyt5 fill analysis.ipynb --cell 4 --provider jupyt5:nano-int8
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a checkpoint folder")
    add("--to", choices=sorted(_NEEDS), default="ctranslate2", help="the runtime")
    add(
        "--quantization",
        default="int8",
        help="int8 (default) or float32; ctranslate2 has float16 too",
    )
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
        for name in _NEEDS[options.to]:
            importlib.import_module(name)
    except ImportError as exc:
        message = (
            f"The export needs {exc.name}, which is not installed: pip install 'jupyt5[train]'"
        )
        raise CheckpointError(message) from exc
    from jupyt5.model.export import export_ctranslate2, export_onnx

    export = export_onnx if options.to == "onnx" else export_ctranslate2
    export(folder, out, options.quantization)
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
