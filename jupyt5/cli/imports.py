"""`jupyt5 import-fairseq` and `import-hf`: checkpoint folders from models of other programs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from jupyt5.cli.command import Command
from jupyt5.cli.output import note
from jupyt5.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from jupyt5.model.imports.importing import ImportOptions, ImportReport

__all__ = ["COMMANDS"]

_MERGES = ("vocab.bpe", "merges.txt")
_VOCABULARIES = ("encoder.json", "vocab.json")

_FAIRSEQ_EXAMPLES = """\
examples:
  jupyt5 import-fairseq bart.large/model.pt --dict bart.large/dict.txt --merges vocab.bpe \\
      --vocab encoder.json --licence MIT --out bart-large
  jupyt5 import-fairseq model.pt --dict dict.txt --tokenizer nano --positions 2048 --out mine

The merges are not shipped: take the files that the checkpoint was trained with. Left out, they
are looked for beside the dictionary. Without --tokenizer the model keeps its vocabulary.
"""
_HF_EXAMPLES = """\
examples:
  jupyt5 import-hf bart-base/ --licence Apache-2.0 --out bart-base-jupyt5
  jupyt5 import-hf plbart-base/ --tokenizer nano --out plbart-jupyt5

PLBART needs --tokenizer and the package sentencepiece: its own vocabulary loses whitespace.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="new folder for the result")
    add("--name", help="name of the model (default: that of the folder)")
    add("--licence", default="not stated", help="licence of the weights, for the model card")
    add("--tokenizer", metavar="DIR", help="move the model to a JuPyT5 vocabulary: DIR or nano")
    add("--positions", type=int, metavar="N", help="longest source and target, in tokens")


def _configure_fairseq(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL.pt", help="the fairseq checkpoint")
    add("--dict", type=Path, required=True, metavar="dict.txt", help="its dictionary")
    add("--merges", type=Path, metavar="FILE", help="vocab.bpe or merges.txt")
    add("--vocab", type=Path, metavar="FILE", help="encoder.json or vocab.json")
    add("--sentencepiece", type=Path, metavar="FILE", help="sentencepiece.bpe.model (PLBART)")
    add("--heads", type=int, metavar="N", help="attention heads, if the checkpoint has lost them")
    _configure(parser)


def _configure_hf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="config.json, weights, ...")
    _configure(parser)


def _import_fairseq(options: argparse.Namespace) -> int:
    _require_torch()
    from jupyt5.model.imports.importing import FairseqFiles, import_fairseq

    beside: Path = options.dict.parent
    merges: Path | None = options.merges
    vocabulary: Path | None = options.vocab
    if options.sentencepiece is None:
        merges = merges or _find(beside, _MERGES)
        vocabulary = vocabulary or _find(merges.parent if merges else beside, _VOCABULARIES)
    files = FairseqFiles(
        model=options.model,
        dictionary=options.dict,
        merges=merges,
        vocabulary=vocabulary,
        sentencepiece=options.sentencepiece,
    )
    return _report(import_fairseq(files, options.out, _read_options(options)), options.out)


def _import_hf(options: argparse.Namespace) -> int:
    _require_torch()
    from jupyt5.model.imports.importing import import_huggingface

    folder: Path = options.folder
    if not folder.is_dir():
        message = f"{folder} is no folder. Give one that holds config.json and the weights."
        raise CheckpointError(message)
    return _report(import_huggingface(folder, options.out, _read_options(options)), options.out)


def _require_torch() -> None:
    try:
        import torch
        import transformers
    except ImportError as exc:
        message = (
            f"The import needs {exc.name}, which is not installed: pip install 'jupyt5[train]'"
        )
        raise CheckpointError(message) from exc
    del torch, transformers


def _find(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_options(options: argparse.Namespace) -> "ImportOptions":
    from jupyt5.model.imports.importing import ImportOptions

    for name in ("positions", "heads"):
        value: int | None = getattr(options, name, None)
        if value is not None and value < 1:
            message = f"--{name} {value} is too few. Use 1 or more."
            raise UsageError(message)
    return ImportOptions(
        name=options.name or options.out.name,
        licence=options.licence,
        tokenizer=_find_tokenizer(options.tokenizer) if options.tokenizer else None,
        positions=options.positions,
        heads=getattr(options, "heads", None),
    )


def _find_tokenizer(name: str) -> Path:
    """Return the tokenizer.json of a folder, or of a bundled model by its name."""
    from jupyt5.model.checkpoint import TOKENIZER_NAME

    bundled = Path(__file__).parents[1] / "bundled" / name / TOKENIZER_NAME
    is_name = Path(name).name == name and not Path(name).exists()
    path = bundled if is_name else Path(name)
    path = path / TOKENIZER_NAME if path.is_dir() else path
    if not path.is_file():
        message = f"--tokenizer {name}: {path} is not there. Give a folder with {TOKENIZER_NAME}."
        raise UsageError(message)
    return path


def _report(report: "ImportReport", out: Path) -> int:
    numbers = report.numbers
    note(
        f"Wrote {out}: {numbers['parameters'] / 1e6:.1f}M parameters, {numbers['rows']} rows "
        f"({numbers['rows_kept']} of the parent's {numbers['parent_rows']}, "
        f"{numbers['rows_new']} new), {numbers['positions']} positions."
    )
    for line in report.notes:
        note(line if len(line) <= 300 else f"{line[:300]}... ({out}/README.md has all of it)")
    note(f"Use it with --provider jupyt5:{out}, or train it.")
    return 0


COMMANDS = (
    Command(
        name="import-fairseq",
        summary="import a fairseq BART checkpoint",
        description="Import a fairseq BART or PyMT5 checkpoint. Needs the extra [train].",
        epilog=_FAIRSEQ_EXAMPLES,
        configure=_configure_fairseq,
        body=_import_fairseq,
    ),
    Command(
        name="import-hf",
        summary="import a Hugging Face BART or PLBART folder",
        description="Import a Hugging Face BART or PLBART folder. Needs the extra [train].",
        epilog=_HF_EXAMPLES,
        configure=_configure_hf,
        body=_import_hf,
    ),
)
