"""``jupyt5-corpus check``: is a corpus folder whole, and does it say the truth about itself?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from jupyt5.console import progress
from jupyt5.files import sha256_file
from jupyt5_corpus.content import content_hash
from jupyt5_corpus.filters import RowStep, exact_duplicates
from jupyt5_corpus.holdout_lists import bundled_file, load
from jupyt5_corpus.removals import read_removals
from jupyt5_corpus.row import Removal, Row
from jupyt5_corpus.shards import require_manifest
from jupyt5_corpus.split import side_of
from jupyt5_corpus.steps import HELD_OUT_BY, StepChoice, StepContext, make_steps
from jupyt5_corpus.tables import Added, iter_corpus

__all__ = ["check_corpus"]


def check_corpus(folder: Path) -> tuple[str, ...]:
    """Check files against the manifest, counts against each other, rows against their hashes.

    Returns:
        One sentence for each thing that is wrong; nothing for a good corpus.

    Raises:
        CorpusError: If the folder holds no corpus.
    """
    return tuple(_find_problems(folder, require_manifest(folder)))


def _find_problems(folder: Path, manifest: Mapping[str, object]) -> Iterator[str]:
    shards = cast("Sequence[Mapping[str, object]]", manifest["shards"])
    removed_files = cast("Sequence[Mapping[str, object]]", manifest["removed_files"])
    # README.md and the reports; corpora of older versions have no hashes of them.
    files = cast("Sequence[Mapping[str, object]]", manifest.get("files", []))
    entries = (*shards, *removed_files, *files)
    broken = [problem for entry in entries for problem in _check_file(folder, entry)]
    yield from broken
    yield from _check_strays(folder, [*shards, *removed_files])
    if broken:
        return
    yield from _check_rows(folder, manifest, shards)
    yield from _check_removals(folder, manifest, removed_files)


def _check_file(folder: Path, entry: Mapping[str, object]) -> Iterator[str]:
    path = folder / str(entry["file"])
    if not path.is_file():
        yield f"{path} is missing."
    elif sha256_file(path) != entry["sha256"]:
        yield f"{path} has changed: its SHA-256 is not the manifest's."


def _check_strays(folder: Path, entries: Sequence[Mapping[str, object]]) -> Iterator[str]:
    named = {str(entry["file"]) for entry in entries}
    for path in sorted([*folder.glob("data/*"), *folder.glob("removed/*")]):
        if path.relative_to(folder).as_posix() not in named:
            yield f"{path} is not in the manifest."


def _check_rows(
    folder: Path, manifest: Mapping[str, object], shards: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    rules = _held_out_rules(manifest)
    seen: set[bytes] = set()
    num_rows = 0
    for shard in progress(shards, desc="Checking", total=len(shards), unit="shard"):
        rows_before = num_rows
        for row, added in iter_corpus(folder / str(shard["file"])):
            num_rows += 1
            where = f"{shard['file']}: {row.repo}/{row.path}"
            yield from (f"{where} {problem}" for problem in _check_row(row, added, rules))
            digest = bytes.fromhex(row.content_hash)
            if digest in seen and _drops_duplicates(manifest):
                yield f"{where} is there twice."
            seen.add(digest)
        if num_rows - rows_before != shard["rows"]:
            yield f"{shard['file']} has {num_rows - rows_before} rows, not {shard['rows']}."
    if num_rows != manifest["notebooks_kept"]:
        yield f"The shards have {num_rows} rows, notebooks_kept is {manifest['notebooks_kept']}."


def _check_row(row: Row, added: Added, rules: Sequence[RowStep]) -> Iterator[str]:
    # What was redacted does not have the content it was found with.
    if not row.num_redactions and content_hash(row.cells) != row.content_hash:
        yield "does not have the content of its content_hash."
    if added.split != side_of(added.family):
        yield "is on the wrong side of the split."
    for rule in rules:
        result = rule(row)
        if isinstance(result, Removal):
            yield f"is held out ({result.reason}: {result.detail})."


def _held_out_rules(manifest: Mapping[str, object]) -> list[RowStep]:
    """Return the holdout steps of the corpus's recipe, with the lists that the package brings."""
    steps = _steps_of(manifest)
    context = StepContext(holdouts=load([bundled_file()]), opt_out=None, own_steps={})
    choices = [StepChoice(name=name, options={}) for name in steps if name in HELD_OUT_BY]
    return [step for _, step in make_steps(choices, context)]


def _drops_duplicates(manifest: Mapping[str, object]) -> bool:
    return exact_duplicates.STEP in _steps_of(manifest)


def _steps_of(manifest: Mapping[str, object]) -> Sequence[str]:
    recipe = cast("Mapping[str, object]", manifest["recipe"])
    return cast("Sequence[str]", recipe["steps"])


def _check_removals(
    folder: Path, manifest: Mapping[str, object], removed_files: Sequence[Mapping[str, object]]
) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for entry in removed_files:
        counts.update(each.reason for each in read_removals(folder / str(entry["file"])))
    if counts != manifest["removed"]:
        yield f"removed/ has {dict(counts)}, the manifest {manifest['removed']}."
    num_kept, num_in = manifest["notebooks_kept"], manifest["notebooks_in"]
    if cast("int", num_kept) + counts.total() != num_in:
        yield f"{num_kept} kept and {counts.total()} removed are not the {num_in} that came in."
