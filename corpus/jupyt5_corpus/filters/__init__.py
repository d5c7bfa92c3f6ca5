"""The steps between the reader and the writer, one file each.

A step over one row is a plain function ``(Row) -> Row | Removal``; ``apply_steps`` runs rows
through several of them, generator in, generator out. A step over all notebooks works on their
keys only (``Key``) and says which rows go. To add a step: one file here, its entry in
``jupyt5_corpus.recipe``, one test.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from jupyt5_corpus.row import Key, Removal, Row

__all__ = ["RowStep", "apply_steps", "removal_of"]

RowStep = Callable[[Row], Row | Removal]


def apply_steps(
    items: Iterable[Row | Removal], steps: Sequence[RowStep]
) -> Iterator[Row | Removal]:
    """Pass rows through the steps in order; what a step removed passes by all later ones."""
    for item in items:
        current = item
        for step in steps:
            if isinstance(current, Removal):
                break
            current = step(current)
        yield current


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
