"""Options with which JupyterLab opens no connection to the outside."""

__all__ = ["LAB_OFFLINE_ARGS"]

LAB_OFFLINE_ARGS: tuple[str, ...] = (
    # The news feed and its question at the first start.
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    # The default manager lists extensions by asking a package index.
    "--LabApp.extension_manager=readonly",
)
"""Command-line arguments for ``jupyter lab``; Notebook 7 takes the same ones."""
