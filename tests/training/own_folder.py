"""A folder of notebooks as people have them, made for these tests."""

from __future__ import annotations

import json
from pathlib import Path

CHANNELS = ("pressure", "volume", "flow", "depth")


def make_cell(kind: str, source: str, **fields: object) -> dict[str, object]:
    outputs = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source, **outputs, **fields}


def write_notebook(path: Path, cells: list[dict[str, object]], **metadata: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"nbformat": 4, "nbformat_minor": 4, "metadata": metadata, "cells": cells}
    path.write_text(json.dumps(content))


def well_cells(number: int) -> list[dict[str, object]]:
    cells: list[dict[str, object]] = []
    for channel in CHANNELS:
        name = f"{channel}_{number}"
        cells.append(make_cell("markdown", f"## The {channel} of well {number}\nRead and plot it."))
        source = f"{name} = wells.read_channel({number}, '{channel}')\nplot_channel({name})\n"
        cells.append(make_cell("code", source))
    return cells


def write_wells(folder: Path, num_notebooks: int = 12) -> Path:
    """Write notebooks that are alike, so that some steps on them show."""
    for number in range(num_notebooks):
        write_notebook(folder / f"well-{number}.ipynb", well_cells(number))
    return folder
