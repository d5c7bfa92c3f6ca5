"""Options with which JupyterLab opens no connection to the outside, and does not offer to."""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["LAB_OFFLINE_ARGS", "offline_environment"]

LAB_OFFLINE_ARGS: tuple[str, ...] = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    # The default manager lists extensions by asking a package index.
    "--LabApp.extension_manager=readonly",
)
"""Command-line arguments for ``jupyter lab``."""


def offline_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which JupyterLab does not ask whether to fetch news.

    That question is a setting's default, which only a configuration folder can change.
    """
    defaults = str(Path(__file__).with_name("lab_defaults"))
    others = environ.get("JUPYTER_CONFIG_PATH", "")
    return {**environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [others, defaults]))}
