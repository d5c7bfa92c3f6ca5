"""How a problem set is written: notebooks without outputs, and a line for each problem."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from jupyt5.notebook import Cell, Notebook
from jupyt5_dsp.problems import split_initial_comments

__all__ = ["cell_sha256", "make_record", "render_notebook"]

_NUM_PROMPT_CELLS = 3
_KEPT_METADATA = ("kernelspec", "language_info")
_DEFAULT_METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
}
_IDS_SINCE_MINOR = 5


def cell_sha256(source: str) -> str:
    """Return the digest by which manifests know a cell: SHA-256 of its source in UTF-8."""
    return hashlib.sha256(source.encode()).hexdigest()


def make_record(
    task_id: str,
    notebook_path: str,
    cells: Sequence[Cell],
    cell_idx: int,
    grading_idxs: Sequence[int],
) -> dict[str, object]:
    """Return a problem's line of ``problems.jsonl``, in the published set's fields.

    ``prompt`` is the three cells before the solution and its initial comment lines; ``solution``
    is what follows these.
    """
    source = cells[cell_idx].source
    comments, solution = split_initial_comments(source)
    before = cells[max(cell_idx - _NUM_PROMPT_CELLS, 0) : cell_idx]
    prompt = "\n".join(cell.source for cell in before) + "\n" + comments.strip()
    test = "\n".join(cells[idx].source for idx in grading_idxs)
    return {
        "task_id": task_id,
        "notebook_path": notebook_path,
        "cell_index": cell_idx,
        "grading_cells": list(grading_idxs),
        "prompt": prompt,
        "prompt_cells": [{"cell_type": cell.kind, "source": cell.source} for cell in before],
        "initial_comments": comments.strip(),
        "solution": solution.strip(),
        "test": test,
        "cell_sha256": cell_sha256(source),
        "grading_sha256": cell_sha256(test),
    }


def render_notebook(notebook: Notebook, cells: Sequence[Cell], task_ids: Mapping[int, str]) -> str:
    """Return a notebook file of nbformat 4 without outputs, counts and attachments.

    Args:
        notebook: Where language and kernel come from.
        cells: Its cells.
        task_ids: Index of each solution cell → its task id, for the cell's metadata.
    """
    ids = [cell.id for cell in cells]
    has_ids = notebook.nbformat_minor >= _IDS_SINCE_MINOR and None not in ids
    has_ids = has_ids and len(set(ids)) == len(ids)
    metadata = {key: notebook.metadata[key] for key in _KEPT_METADATA if key in notebook.metadata}
    document = {
        "cells": [
            _render_cell(cell, task_ids.get(idx), has_id=has_ids) for idx, cell in enumerate(cells)
        ],
        "metadata": metadata or _DEFAULT_METADATA,
        "nbformat": 4,
        "nbformat_minor": _IDS_SINCE_MINOR if has_ids else _IDS_SINCE_MINOR - 1,
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _render_cell(cell: Cell, task_id: str | None, *, has_id: bool) -> dict[str, object]:
    metadata = {key: value for key, value in cell.metadata.items() if key != "task_id"}
    if task_id is not None:
        metadata["task_id"] = task_id
    rendered: dict[str, object] = {"cell_type": cell.kind}
    if has_id:
        rendered["id"] = cell.id
    rendered["metadata"] = metadata
    rendered["source"] = cell.source.splitlines(keepends=True)
    if cell.kind == "code":
        rendered |= {"execution_count": None, "outputs": []}
    return rendered
