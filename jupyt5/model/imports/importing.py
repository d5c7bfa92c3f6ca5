"""From a checkpoint of another program to a checkpoint folder of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyt5.errors import CheckpointError
from jupyt5.files import atomic_folder, require_new_folder, sha256_file, write_atomic
from jupyt5.model.checkpoint import TOKENIZER_NAME, CheckpointMeta, FormatterSettings, write_meta
from jupyt5.model.imports.dictionary import (
    Bpe,
    name_rows,
    read_bpe,
    read_dictionary,
    read_vocabulary_folder,
)
from jupyt5.model.imports.fairseq import read_fairseq
from jupyt5.model.imports.huggingface import read_config, read_huggingface
from jupyt5.model.imports.parents import ParentModel, build_bart
from jupyt5.model.imports.reading import find_weights
from jupyt5.model.imports.sentencepieces import MODEL_NAME, read_sentencepiece
from jupyt5.model.imports.tables import replant
from jupyt5.model.imports.vocabulary import (
    ImportedVocabulary,
    RowPlan,
    build_vocabulary,
    plan_transplant,
)
from jupyt5.model.seq2seq import save_model
from jupyt5.tokenizer import Tokenizer

__all__ = [
    "FairseqFiles",
    "ImportOptions",
    "ImportReport",
    "import_fairseq",
    "import_huggingface",
]

_UNKNOWN_LICENCE = "not stated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairseqFiles:
    """The files of a fairseq model.

    Attributes:
        model: ``model.pt``.
        dictionary: ``dict.txt``.
        merges: ``vocab.bpe`` or ``merges.txt``; or None with ``sentencepiece``.
        vocabulary: ``encoder.json`` or ``vocab.json``; None if the dictionary holds token strings.
        sentencepiece: ``sentencepiece.bpe.model`` (PLBART).
    """

    model: Path
    dictionary: Path
    merges: Path | None = None
    vocabulary: Path | None = None
    sentencepiece: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user decides.

    Attributes:
        name: Name of the new model.
        licence: Licence of the parent's weights, as its authors state it.
        tokenizer: Path of a ``tokenizer.json`` to transplant to; None keeps the parent's.
        positions: Longest source and target; None keeps the parent's.
        heads: Attention heads, for fairseq checkpoints that do not say.
    """

    name: str
    licence: str = _UNKNOWN_LICENCE
    tokenizer: Path | None = None
    positions: int | None = None
    heads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did.

    Attributes:
        numbers: Counts: parameters, rows, rows kept, new rows, positions.
        notes: What was left out or made up, one sentence each.
    """

    numbers: Mapping[str, int]
    notes: Sequence[str]


def import_fairseq(files: FairseqFiles, out: Path, options: ImportOptions) -> ImportReport:
    """Import a fairseq BART checkpoint into the new folder ``out``.

    Raises:
        CheckpointError: If a file is damaged, hostile, of another model, or cannot be run.
        UsageError: If an option does not fit the checkpoint.
        FileExistsError: If ``out`` exists.
    """
    require_new_folder(out)
    symbols = read_dictionary(files.dictionary)
    parent = read_fairseq(files.model, heads=options.heads)
    if files.sentencepiece is not None:
        named = name_rows(symbols, Bpe({}, ()), parent.rows, mask_is_last=True)
        vocabulary = read_sentencepiece(files.sentencepiece, named, parent.rows)
    elif files.merges is not None:
        bpe = read_bpe(files.vocabulary, files.merges)
        vocabulary = build_vocabulary(name_rows(symbols, bpe, parent.rows), bpe.merges)
    else:
        message = (
            f"{files.dictionary} names tokens by number. Give --merges vocab.bpe and --vocab "
            "encoder.json of the same model, or --sentencepiece."
        )
        raise CheckpointError(message)
    given = (files.model, files.dictionary, files.merges, files.vocabulary, files.sentencepiece)
    sources = tuple(path for path in given if path is not None)
    return _write(_Import(parent, vocabulary, sources, options), out)


def import_huggingface(folder: Path, out: Path, options: ImportOptions) -> ImportReport:
    """Import a Hugging Face folder of BART or PLBART into the new folder ``out``.

    Raises:
        CheckpointError: If a file is damaged, hostile, of another model, or cannot be run.
        UsageError: If an option does not fit the checkpoint.
        FileExistsError: If ``out`` exists.
    """
    require_new_folder(out)
    is_plbart = read_config(folder)["model_type"] == "plbart"
    parent = read_huggingface(folder)
    if is_plbart:
        vocabulary = read_sentencepiece(folder / MODEL_NAME, None, parent.rows)
    else:
        vocabulary = build_vocabulary(*read_vocabulary_folder(folder, parent.rows))
    names = ("config.json", "vocab.json", "merges.txt", "tokenizer.json", MODEL_NAME)
    sources = (*find_weights(folder), *(folder / name for name in names))
    existing = tuple(path for path in sources if path.is_file())
    return _write(_Import(parent, vocabulary, existing, options), out)


@dataclass(frozen=True, slots=True)
class _Import:
    parent: ParentModel
    vocabulary: ImportedVocabulary
    sources: tuple[Path, ...]
    options: ImportOptions


def _write(job: _Import, out: Path) -> ImportReport:
    tokenizer, plan, num_kept = _choose_vocabulary(job)
    replanted = replant(job.parent, plan, job.options.positions)
    positions = int(replanted.tensors["encoder.embed_positions.weight"].shape[0]) - 2
    model = build_bart(replanted, tokenizer.special, rows=len(plan), positions=positions)
    numbers = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "parent_rows": job.parent.rows,
        "rows": len(plan),
        "rows_kept": num_kept,
        "rows_new": len(plan) - num_kept,
        "positions": positions,
    }
    report = ImportReport(numbers=numbers, notes=_collect_notes(job))
    formatter = FormatterSettings(
        source_budget_tokens=min(FormatterSettings().source_budget_tokens, positions),
        max_target_tokens=min(FormatterSettings().max_target_tokens, positions),
    )
    parents = _describe_parents(job)
    meta = CheckpointMeta(name=job.options.name, formatter=formatter, parents=parents)
    with atomic_folder(out) as folder:
        save_model(model, folder)
        tokenizer.save(folder / TOKENIZER_NAME)
        write_meta(folder, meta)
        write_atomic(folder / "README.md", _write_card(meta, report))
    return report


def _choose_vocabulary(job: _Import) -> tuple[Tokenizer, RowPlan, int]:
    path = job.options.tokenizer
    if path is not None:
        tokenizer = Tokenizer.load(path)
        return (tokenizer, *plan_transplant(tokenizer, job.vocabulary))
    own = job.vocabulary.tokenizer
    if own is None:
        message = (
            "A sentencepiece vocabulary does not keep whitespace, which code needs. Give "
            "--tokenizer nano (or the folder of another JuPyT5 model) to move the model to it."
        )
        raise CheckpointError(message)
    plan = job.vocabulary.rows
    return own, plan, len(plan) - len(job.vocabulary.new_names)


def _collect_notes(job: _Import) -> tuple[str, ...]:
    notes = list(job.parent.notes)
    new_names = job.vocabulary.new_names
    if job.options.tokenizer is None and new_names:
        listed = ", ".join(f"`{token}` ({idx})" for token, idx in new_names.items())
        notes.append(f"Tokens that the parent lacks, and their rows: {listed}.")
    return tuple(notes)


def _describe_parents(job: _Import) -> tuple[dict[str, str], ...]:
    licence = job.options.licence
    parents = [
        {"name": path.name, "sha256": sha256_file(path), "licence": licence} for path in job.sources
    ]
    if job.options.tokenizer is not None:
        path = job.options.tokenizer
        name = f"{path.parent.name}/{path.name}"
        # Its vocabulary only: its licence is that of the model it belongs to.
        parents.append({"name": name, "sha256": sha256_file(path), "licence": _UNKNOWN_LICENCE})
    return tuple(parents)


def _write_card(meta: CheckpointMeta, report: ImportReport) -> str:
    numbers = "\n".join(
        f"| {name.replace('_', ' ')} | {value:,} |" for name, value in report.numbers.items()
    )
    parents = "\n".join(
        f"| `{parent['name']}` | `{parent['sha256']}` | {parent['licence']} |"
        for parent in meta.parents
    )
    notes = "".join(f"- {note}\n" for note in report.notes) or "- Nothing was left out.\n"
    return f"""# {meta.name}

Weights of another BART model, imported for JuPyT5. It has not been trained on notebook cells here:
train it with `jupyt5-train` before you judge what it writes. No number of its quality is known.

| | |
|---|---|
{numbers}

## Where it comes from

| file | SHA-256 | licence |
|---|---|---|
{parents}

The licence is what was given with `--licence`; check it with the authors before you pass this on.

## What the import did

{notes}"""
