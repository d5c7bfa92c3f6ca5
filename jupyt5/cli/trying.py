"""`jupyt5 fill --try`: hypotheses tried against the cell below, in a sandbox."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jupyt5.cli.output import note
from jupyt5.errors import ExecutionError, UsageError

if TYPE_CHECKING:
    from jupyt5.execution.trials import Tried
    from jupyt5.notebook import Notebook
    from jupyt5.providers import Draft

__all__ = ["find_grading_idx", "try_drafts", "verdict_to_json"]


def find_grading_idx(notebook: "Notebook", options: argparse.Namespace) -> int:
    """Return the next code cell below the target.

    Raises:
        UsageError: If there is none, or the target is no code cell.
    """
    cells, cell_idx = notebook.cells, int(options.cell)
    below = (idx for idx in range(cell_idx + 1, len(cells)) if cells[idx].kind == "code")
    grading_idx = next(below, None)
    if cells[cell_idx].kind != "code" or grading_idx is None:
        message = (
            f"Cell {cell_idx} of {options.notebook} cannot be tried: that takes a code cell with "
            "another code cell below it. Leave --try out, or give another --cell."
        )
        raise UsageError(message)
    return grading_idx


def try_drafts(
    notebook: "Notebook", drafts: "Sequence[Draft]", options: argparse.Namespace
) -> "dict[int, Tried]":
    """Run the cells above, then each hypothesis with the cell below; nothing they do lasts.

    Returns:
        What was found, by hypothesis; nothing, and a note, where there is no sandbox.
    """
    from jupyt5.execution.jobs import Limits
    from jupyt5.execution.trials import Trial, try_fresh
    from jupyt5.execution.verdicts import VerdictKind

    cells, cell_idx = notebook.cells, int(options.cell)
    trial = Trial(
        cells=tuple((idx, cell.source) for idx, cell in enumerate(cells) if cell.kind == "code"),
        target_idx=cell_idx,
        grading_idx=find_grading_idx(notebook, options),
    )
    texts = {
        str(draft.hypothesis_idx): cells[cell_idx].source + draft.text
        for draft in drafts
        if draft.text.strip()
    }
    folder = Path(options.notebook).resolve().parent
    try:
        found = list(try_fresh(trial, texts, folder, limits=Limits()))
    except ExecutionError as exc:
        note(f"Not tried: {exc}")
        return {}
    if found and all(tried.verdict.kind is VerdictKind.CONTEXT for tried in found):
        note(f"Nothing was judged: {found[0].verdict.message} Fill or mend the cells above first.")
    return {int(tried.key): tried for tried in found}


def verdict_to_json(tried: "Mapping[int, Tried]", hypothesis_idx: int) -> dict[str, object]:
    """Return the fields that a try adds to a hypothesis."""
    one = tried.get(hypothesis_idx)
    if one is None:
        return {"verdict": None}
    verdict = one.verdict
    return {
        "verdict": verdict.kind.value,
        "flags": list(verdict.flags),
        "message": verdict.message,
        "wall_s": round(one.wall_s, 3),
    }
