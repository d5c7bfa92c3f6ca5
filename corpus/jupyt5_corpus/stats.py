"""``jupyt5-corpus stats``: what is in a corpus, counted from its rows, a row group at a time."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from jupyt5.console import progress
from jupyt5.errors import CorpusError
from jupyt5_corpus.filters import exact_duplicates, markdown_focused, parse
from jupyt5_corpus.repositories import digest_of
from jupyt5_corpus.shards import iter_row_groups, repositories_in, require_manifest, shard_paths
from jupyt5_corpus.steps import SECRETS

__all__ = ["CorpusStats", "read_stats"]

_GROUPED_BY = ("language", "licence", "nbformat", "split")
_COLUMNS = (
    *("repo", "markdown_focused", "num_tokens_estimate", "num_redactions", "cells"),
    *_GROUPED_BY,
)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStats:
    """Counts of a finished corpus.

    Cells and tokens are those of the notebooks in the corpus. Tokens are estimated as UTF-8 bytes
    of cell sources / 3.5, rounded for each notebook; those of code and Markdown are their shares
    of ``num_tokens`` by bytes. A count is None where the recipe has no step for it.

    Attributes:
        num_repositories_in: Repositories with any notebook that came in.
        num_repositories: Repositories with a notebook in the corpus.
        num_notebooks_in: Notebooks that came in, readable or not.
        num_notebooks: Those that could be read as notebooks.
        num_compared_notebooks: Those of them that earlier steps left to be compared with each
            other, so that exact duplicates could be removed.
        num_unique_notebooks: ``num_compared_notebooks`` less these duplicates.
        num_kept_notebooks: Notebooks in the corpus, after all steps.
        num_focused_notebooks: Those of them that are Markdown focused.
        num_cells: Cells of all kinds; what is neither code nor Markdown is the rest.
        num_redactions: Secrets and personal data that were replaced.
        groups: Column → value → number of notebooks, most frequent first.
        removed: Step → reason → number of notebooks removed, in the order of the steps.
    """

    num_repositories_in: int
    num_repositories: int
    num_notebooks_in: int
    num_notebooks: int
    num_compared_notebooks: int | None
    num_unique_notebooks: int | None
    num_kept_notebooks: int
    num_focused_notebooks: int | None
    num_cells: int
    num_code_cells: int
    num_markdown_cells: int
    num_tokens: int
    num_code_tokens: int
    num_markdown_tokens: int
    num_focused_tokens: int | None
    num_redactions: int | None
    groups: Mapping[str, Mapping[str, int]]
    removed: Mapping[str, Mapping[str, int]]


class _Tally:
    """Sums over row groups; repositories are kept as 8-byte digests."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_focused = 0
        self.num_tokens = 0
        self.num_focused_tokens = 0
        self.num_redactions = 0
        self.cells: Counter[str] = Counter()
        self.num_bytes: Counter[str] = Counter()
        self.groups: dict[str, Counter[str]] = {name: Counter() for name in _GROUPED_BY}
        self.repos: set[bytes] = set()

    def add(self, rows: pa.Table) -> None:
        """Count the rows of one row group."""
        self.num_rows += rows.num_rows
        focused = rows.column("markdown_focused").to_numpy()
        self.num_focused += int(focused.sum())
        num_tokens = rows.column("num_tokens_estimate").to_numpy()
        self.num_tokens += int(num_tokens.sum())
        self.num_focused_tokens += int(num_tokens[focused].sum())
        self.repos.update(map(digest_of, pc.unique(rows.column("repo")).to_pylist()))
        self.num_redactions += pc.sum(rows.column("num_redactions")).as_py() or 0
        for name, counts in self.groups.items():
            for entry in rows.column(name).value_counts().to_pylist():
                value = entry["values"]
                counts[_UNKNOWN if value is None else str(value)] += entry["counts"]
        for chunk in rows.column("cells").chunks:
            self._add_cells(chunk)

    def _add_cells(self, cells: pa.ListArray) -> None:
        flat = cells.flatten()
        num_bytes = pc.binary_length(flat.field("source")).to_numpy(zero_copy_only=False)
        kinds = flat.field("kind")
        for entry in kinds.value_counts().to_pylist():
            kind = entry["values"]
            self.cells[kind] += entry["counts"]
            of_kind = pc.equal(kinds, kind).to_numpy(zero_copy_only=False)
            self.num_bytes[kind] += int(num_bytes[of_kind].sum())


def read_stats(folder: Path) -> CorpusStats:
    """Count a finished corpus. Memory does not grow with it but for 8 bytes a repository.

    Raises:
        CorpusError: If the folder holds no corpus, or its shards are damaged or not what the
            manifest says.
    """
    manifest = require_manifest(folder)
    tally = _Tally()
    shards = shard_paths(folder, manifest)
    for path in progress(shards, desc="Counting", total=len(shards), unit="shard"):
        for rows in iter_row_groups(path, _COLUMNS):
            tally.add(rows)
    if tally.num_rows != manifest["notebooks_kept"]:
        message = (
            f"The shards of {folder} have {tally.num_rows} rows, its manifest says "
            f"{manifest['notebooks_kept']}. Run `jupyt5-corpus check` on it."
        )
        raise CorpusError(message)
    return _make_stats(manifest, tally, repositories_in(folder, manifest))


def _make_stats(
    manifest: Mapping[str, object], tally: _Tally, num_repositories_in: int
) -> CorpusStats:
    taken = cast("Mapping[str, Sequence[str]]", manifest["recipe"])["steps"]
    steps = cast("Sequence[Mapping[str, object]]", manifest["steps"])
    removed: dict[str, Counter[str]] = {}
    for step in steps:  # `opt_out` may be there several times
        of_step = removed.setdefault(str(step["step"]), Counter())
        of_step.update(cast("Mapping[str, int]", step["removed"]))
    num_in = cast("int", manifest["notebooks_in"])
    compared, unique = _find_compared(steps)
    num_code_tokens, num_markdown_tokens = _share_tokens(tally)
    is_marked = markdown_focused.STEP in taken
    return CorpusStats(
        num_repositories_in=num_repositories_in,
        num_repositories=len(tally.repos),
        num_notebooks_in=num_in,
        num_notebooks=num_in - sum(removed.get(parse.STEP, {}).values()),
        num_compared_notebooks=compared,
        num_unique_notebooks=unique,
        num_kept_notebooks=tally.num_rows,
        num_focused_notebooks=tally.num_focused if is_marked else None,
        num_cells=tally.cells.total(),
        num_code_cells=tally.cells["code"],
        num_markdown_cells=tally.cells["markdown"],
        num_tokens=tally.num_tokens,
        num_code_tokens=num_code_tokens,
        num_markdown_tokens=num_markdown_tokens,
        num_focused_tokens=tally.num_focused_tokens if is_marked else None,
        num_redactions=tally.num_redactions if SECRETS in taken else None,
        groups={name: _sorted(counts) for name, counts in tally.groups.items()},
        removed={step: dict(reasons) for step, reasons in removed.items()},
    )


def _find_compared(steps: Sequence[Mapping[str, object]]) -> tuple[int | None, int | None]:
    """Return how many notebooks the step for exact duplicates saw, and how many it left."""
    for step in steps:
        if step["step"] == exact_duplicates.STEP:
            return cast("int", step["notebooks_in"]), cast("int", step["notebooks_out"])
    return None, None


def _share_tokens(tally: _Tally) -> tuple[int, int]:
    """Share the tokens out to code and Markdown by bytes; together they are never too many."""
    num_bytes = max(tally.num_bytes.total(), 1)
    num_code = tally.num_bytes["code"]
    num_both = num_code + tally.num_bytes["markdown"]
    code_tokens = round(tally.num_tokens * num_code / num_bytes)
    return code_tokens, round(tally.num_tokens * num_both / num_bytes) - code_tokens


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
