"""A folder that a JupyterLab server lives in, and how the server is started there."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyt5.server.offline import LAB_OFFLINE_ARGS, offline_environment

__all__ = [
    "CONNECTIONS",
    "TOKEN",
    "build_command",
    "build_environment",
    "find_port",
    "prepare_folder",
]

ROOT = Path(__file__).parents[2]
TOKEN = "browser-tests"
CONNECTIONS = "connections.txt"
# Runs in the server and its kernels: notes every address that Python code connects to.
SITECUSTOMIZE = """
import os, sys

def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        with open(os.environ["JUPYT5_TEST_CONNECTIONS"], "a") as file:
            file.write(repr(args[1] if event == "socket.connect" else args[0]) + "\\n")

sys.addaudithook(hook)
"""


def prepare_folder(folder: Path) -> None:
    """Make what a server finds in its folder."""
    built = ROOT / "jupyt5" / "labextension"
    if not (built / "package.json").is_file():
        pytest.fail("The interface is not built. Run `make test`, or jlpm build:prod.")
    for name in ("root", "labextensions", "etc", "site"):
        (folder / name).mkdir()
    (folder / "labextensions" / "jupyt5-labextension").symlink_to(built)
    config = ROOT / "jupyt5" / "server" / "config"
    (folder / "etc" / "jupyter_server_config.d").symlink_to(config)
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    (folder / CONNECTIONS).touch()


def build_environment(
    folder: Path, python_path: Path | None, config_path: Path | None
) -> dict[str, str]:
    env = os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_CONFIG_PATH": join_paths(folder / "etc", config_path),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": join_paths(folder / "site", ROOT, python_path),
        "JUPYT5_TEST_CONNECTIONS": str(folder / CONNECTIONS),
    }
    return offline_environment(env)


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def build_command(folder: Path, port: int, options: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *LAB_OFFLINE_ARGS,
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={folder / 'root'}",
        *options,
        *(
            f"--{app}.{option}"
            for app in ("LabApp", "JupyterNotebookApp")
            for option in (
                f"extra_labextensions_path={folder / 'labextensions'}",
                "expose_app_in_browser=True",
            )
        ),
    ]


def join_paths(*paths: Path | None) -> str:
    return os.pathsep.join(str(path) for path in paths if path)
