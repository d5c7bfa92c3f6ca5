"""From the folders of several runs to one page and its tables."""

from collections.abc import Sequence
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic
from jupyt5.pages import render_page
from jupyt5_dsp.overview.markdown import render_markdown
from jupyt5_dsp.overview.names import name_folders
from jupyt5_dsp.overview.rows import read_run
from jupyt5_dsp.overview.tables import TABLE_FILES, write_tables
from jupyt5_dsp.overview.view import make_view

__all__ = ["write_overview"]

_PAGE, _MARKDOWN = "report.html", "report.md"
_OWN_FILES = frozenset({_PAGE, _MARKDOWN, *TABLE_FILES})


def write_overview(run_paths: Sequence[Path], out_path: Path) -> Path:
    """Write ``report.html``, ``report.md``, and ``runs`` and ``problems`` as CSV and Parquet.

    Args:
        run_paths: Folders of runs, finished or partial. One that is given twice counts once.
        out_path: A folder of its own; made if it is missing.

    Returns:
        Path of the page.

    Raises:
        UsageError: If ``out_path`` holds something else than an earlier report on several runs.
        ProblemSetError: If a run has no results, or its files are damaged.
        OSError: If something cannot be written.
    """
    _check_folder(out_path)
    runs = [read_run(path, name) for path, name in name_folders(run_paths).items()]
    runs.sort(key=lambda run: (run.suite_version, run.provider, run.run))
    out_path.mkdir(parents=True, exist_ok=True)
    write_tables(out_path, runs)
    write_atomic(out_path / _MARKDOWN, render_markdown(runs))
    page = render_page("jupyt5_dsp.overview", make_view(runs), style="overview.css", script="")
    write_atomic(out_path / _PAGE, page)
    return out_path / _PAGE


def _check_folder(out_path: Path) -> None:
    """Refuse what an earlier report did not make: its files might be replaced."""
    if out_path.exists() and not out_path.is_dir():
        message = f"{out_path} is no folder. Choose another --out."
        raise UsageError(message)
    names = {path.name for path in out_path.iterdir()} if out_path.is_dir() else set[str]()
    if "results.json" in names or "run.json" in names:
        message = f"{out_path} is the folder of a run. Choose another --out."
        raise UsageError(message)
    if names and not names >= _OWN_FILES:
        message = (
            f"{out_path} is not empty and holds no earlier report on several runs. "
            "Choose another --out."
        )
        raise UsageError(message)
