"""From the files of a run to its page."""

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from pathlib import Path

from jupyt5.files import write_atomic
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
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("jupyt5_training.run_report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _read_asset("report.css"), _read_asset("report.js")
    # "<" cannot end the element that holds the data.
    data = json.dumps(view["readout"], separators=(",", ":")).replace("<", "\\u003c")
    page = environment.get_template("page.html").render(
        view,
        policy=Markup(_make_policy(style, script)),
        style=Markup(style),
        script=Markup(script),
        data=Markup(data),
        mark_up=Markup,
    )
    return page.encode("utf-8", "replace")


def _read_asset(name: str) -> str:
    return (importlib.resources.files("jupyt5_training.run_report") / name).read_text("utf-8")


def _make_policy(style: str, script: str) -> str:
    """Allow this one style sheet and this one script; nothing is loaded, sent or evaluated."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
