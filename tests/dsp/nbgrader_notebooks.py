"""Notebooks as nbgrader writes them, for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Part = Literal["text", "code", "solution", "test", "manual"]
Cells = Sequence[tuple[Part, str]]

_ROLES = {
    "solution": {"solution": True, "grade": False, "locked": False},
    "test": {"solution": False, "grade": True, "locked": True, "points": 1},
    "manual": {"solution": True, "grade": True, "locked": False, "points": 1},
}


def write_nbgrader(path: Path, cells: Cells, *, schema: int = 3, language: str = "python") -> Path:
    """Write a notebook whose cells have nbgrader's marks in the given schema version."""
    document = {
        "nbformat": 4,
        "nbformat_minor": 2,
        "metadata": {"kernelspec": {"name": language, "display_name": "", "language": language}},
        "cells": [
            _make_cell(part, source, idx, schema) for idx, (part, source) in enumerate(cells)
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def _make_cell(part: Part, source: str, idx: int, schema: int) -> dict[str, object]:
    metadata: dict[str, object] = {}
    if part in _ROLES:
        marks: dict[str, object] = {"grade_id": f"cell-{idx}", **_ROLES[part]}
        if schema:
            marks["schema_version"] = schema
        else:
            # Version 0 left out what is not so, and may hold points as text.
            marks = {key: value for key, value in marks.items() if value is not False}
            marks |= {"points": "1"} if "points" in marks else {}
        metadata["nbgrader"] = marks
    cell: dict[str, object] = {
        "cell_type": "markdown" if part == "text" else "code",
        "metadata": metadata,
        "source": source,
    }
    if part != "text":
        cell |= {
            "execution_count": 4,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}],
        }
    return cell
