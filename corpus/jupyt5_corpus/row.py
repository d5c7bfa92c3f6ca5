"""The one record of the pipeline: a notebook as it goes from the parser to the writer."""

from dataclasses import dataclass

__all__ = ["CellText", "Key", "Removal", "Row", "Signals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellText:
    """A cell as the corpus keeps it: its kind and its source, nothing else."""

    kind: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Quality signals of a notebook's code and text; fractions are in [0, 1].

    Attributes:
        num_code_lines: Lines of code cells that are not blank.
        max_line_chars: Longest line of any cell.
        mean_line_chars: Mean length of the code lines counted above, 0.0 without any.
        alphanumeric_fraction: Letters and digits among the characters of all cells.
        comment_fraction: Comment lines among the code lines counted above.
    """

    num_code_lines: int
    max_line_chars: int
    mean_line_chars: float
    alphanumeric_fraction: float
    comment_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One parsed notebook.

    Attributes:
        repo: ``owner/name``.
        path: Path inside the repository.
        commit: Commit the file was taken from; 12 hex digits for an older version that the
            archive names so, None if unknown.
        blob_sha: Git blob id of the original file.
        licence: SPDX expression of the repository, None if unknown.
        licence_source: Where ``licence`` was read.
        fork_of: The repository this one was forked from, None if it is no known fork.
        retrieved: When the source was fetched, as its metadata says; never the clock.
        content_hash: See ``jupyt5_corpus.content``.
        is_substantial: Whether the content is long enough to tell notebooks apart.
        is_old_version: Whether the file comes from the history, not the newest commit.
        num_redactions: Secrets and personal data that were replaced in the cells.
        signals: None where the recipe asks for none.
    """

    repo: str
    path: str
    commit: str | None
    blob_sha: str
    licence: str | None
    licence_source: str | None
    fork_of: str | None
    retrieved: str | None
    nbformat: int
    language: str | None
    kernel: str | None
    cells: tuple[CellText, ...]
    num_code: int
    num_markdown: int
    markdown_fraction: float
    markdown_focused: bool
    num_tokens_estimate: int
    content_hash: str
    is_substantial: bool
    is_old_version: bool
    num_redactions: int = 0
    signals: Signals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One notebook that a step took out, with the step's reason."""

    repo: str
    path: str
    commit: str | None
    blob_sha: str | None
    fork_of: str | None
    content_hash: str | None
    is_substantial: bool
    step: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What the steps over all notebooks need to know of one: where it is and what it equals.

    ``unit_idx`` and ``row_idx`` say in which input unit it was read and at which place.
    """

    unit_idx: int
    row_idx: int
    repo: str
    path: str
    commit: str | None
    blob_sha: str
    fork_of: str | None
    content_hash: str
    is_substantial: bool
    is_old_version: bool
