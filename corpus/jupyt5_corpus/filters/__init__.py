"""The steps between the reader and the writer, one file each.

A step over one row is a plain function ``(Row) -> Row | Removal``. A step over all notebooks works
on their keys only (``jupyt5_corpus.keys``) and says which rows go. To add a step: one file here,
its name in ``jupyt5_corpus.steps``, one test.
"""

from collections.abc import Callable

from jupyt5_corpus.row import Key, Removal, Row

__all__ = ["RowStep", "removal_of"]

RowStep = Callable[[Row], Row | Removal]


def removal_of(row: Row | Key, *, step: str, reason: str, detail: str) -> Removal:
    """Make the record that stands for a removed row."""
    return Removal(
        repo=row.repo,
        path=row.path,
        commit=row.commit,
        blob_sha=row.blob_sha,
        fork_of=row.fork_of,
        content_hash=row.content_hash,
        is_substantial=row.is_substantial,
        step=step,
        reason=reason,
        detail=detail,
    )
