"""From the files of a run to its page."""

import json
from collections.abc import Mapping
from pathlib import Path

from jupyt5.files import write_atomic
from jupyt5.pages import render_page
from jupyt5_training.run_report.series import read_history
from jupyt5_training.run_report.view import make_view, read_recipe

__all__ = ["write_report"]

REPORT_NAME = "report.html"


def write_report(run: Path) -> Path:
    """Write ``RUN/report.html`` from ``recipe.json`` and ``metrics.jsonl``; also of a run at work.

    Returns:
        Path of the page, one file with its own style, script and data.

    Raises:
        TrainingError: If the folder holds no run.
    """
    record = read_recipe(run)
    path = run / REPORT_NAME
    write_atomic(path, _render(make_view(record, read_history(run))))
    return path


def _render(view: Mapping[str, object]) -> bytes:
    from markupsafe import Markup

    # "<" cannot end the element that holds the data.
    data = json.dumps(view["readout"], separators=(",", ":")).replace("<", "\\u003c")
    values = {**view, "data": Markup(data), "mark_up": Markup}
    return render_page("jupyt5_training.run_report", values, style="report.css", script="report.js")
