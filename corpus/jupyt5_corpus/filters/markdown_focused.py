"""Step ``markdown_focused``: mark notebooks with code and at least one third Markdown cells."""

from dataclasses import replace

from jupyt5_corpus.row import Row

__all__ = ["STEP", "mark_markdown_focused"]

STEP = "markdown_focused"


def mark_markdown_focused(row: Row) -> Row:
    """Set ``markdown_focused``: at least one code cell, Markdown at least 1/3 of all cells."""
    is_focused = row.num_code >= 1 and 3 * row.num_markdown >= len(row.cells)
    return replace(row, markdown_focused=is_focused)
