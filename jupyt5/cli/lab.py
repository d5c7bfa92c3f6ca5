"""`jupyt5 lab`: JupyterLab with the assistant, open on the demo notebooks, without the internet."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from jupyt5.cli.command import Command
from jupyt5.cli.output import note
from jupyt5.errors import UsageError
from jupyt5.files import write_atomic

__all__ = ["COMMAND", "DEMO_FOLDER", "DEMO_NAMES", "build_command"]

DEMO_FOLDER = "jupyt5-demos"
DEMO_NAMES = ("demo.ipynb", "homework.ipynb", "data-analysis.ipynb")

_PROVIDER_HELP = (
    "what answers (default: the server's setting; without one jupyt5:mine where `jupyt5-train "
    "mine` has made it, else jupyt5:nano)"
)
_ROOT_OPTIONS = ("root_dir", "notebook-dir", "notebook_dir", "default_url")
_EXAMPLES = f"""\
examples:
  jupyt5 lab
  jupyt5 lab analysis.ipynb
  jupyt5 lab --no-browser --port=8890
  jupyt5 lab --provider jupyt5:/models/mine

Every argument that is not listed above goes to `jupyter lab`. Without a notebook or folder among
them, the demo notebooks are opened: copies in {DEMO_FOLDER}/, made where they are not there.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "jupyt5 lab [-h] [--provider URI] [JUPYTER ARGS]"
    parser.add_argument("--provider", metavar="URI", help=_PROVIDER_HELP)


def _lab(options: argparse.Namespace) -> int:
    from jupyt5.server.offline import offline_environment

    command = build_command(options.rest, provider=options.provider, folder=Path.cwd())
    environment = offline_environment(os.environ)
    if os.name == "posix":
        os.execve(command[0], command, environment)  # signals and the terminal go to JupyterLab
    return subprocess.run(command, check=False, env=environment).returncode


def build_command(jupyter_args: list[str], *, provider: str | None, folder: Path) -> list[str]:
    """Return the command that starts JupyterLab, putting the demo notebooks in place.

    Args:
        jupyter_args: Arguments of the user for `jupyter lab`.
        provider: URI of the provider the assistant shall use; None leaves it to the settings.
        folder: Where the demo notebooks are copied if the user names nothing to open.

    Raises:
        UsageError: If the provider URI is malformed.
        ProviderError: If its model is missing.
    """
    from importlib.util import find_spec

    from jupyt5.server.offline import LAB_OFFLINE_ARGS

    if find_spec("jupyterlab") is None:
        message = "JupyterLab is not installed here: pip install jupyterlab"
        raise UsageError(message)
    command = [sys.executable, "-m", "jupyterlab", *LAB_OFFLINE_ARGS]
    if provider is not None:
        from jupyt5.providers import load_provider

        load_provider(provider)  # a wrong one is told now, not at the first cell
        command.append(f"--JuPyT5App.provider={provider}")
    if not any(_is_opened(argument, folder) for argument in jupyter_args):
        path = _place_demos(folder).relative_to(folder)
        # A file as argument would make its folder the root, and not be in the printed address.
        command.append(f"--ServerApp.root_dir={folder}")
        command.append(f"--LabApp.default_url=/lab/tree/{path.as_posix()}")
    return [*command, *jupyter_args]


def _is_opened(argument: str, folder: Path) -> bool:
    """Whether an argument names a notebook or folder to open, or where the server's root is."""
    if argument.startswith("-"):
        return any(word in argument for word in _ROOT_OPTIONS)
    return argument.endswith(".ipynb") or (folder / argument).exists()


def _place_demos(folder: Path) -> Path:
    """Copy the demo notebooks into a folder, those that are not there; return the first's path."""
    target = folder / DEMO_FOLDER
    paths = {name: target / name for name in DEMO_NAMES}
    # A link that leads nowhere is the user's, too.
    missing = [name for name, path in paths.items() if not (path.exists() or path.is_symlink())]
    if missing:
        target.mkdir(exist_ok=True)
        contents = {name: (_find_demos() / name).read_bytes() for name in missing}
        _trust(contents.values())  # first: what is there already is never signed
        for name, content in contents.items():
            write_atomic(paths[name], content)
        note(f"The demo notebooks are in {target}")
    return paths[DEMO_NAMES[0]]


def _trust(contents: Iterable[bytes]) -> None:
    """Sign notebooks of ours as Jupyter does: nothing is tried in one that it does not trust."""
    import sqlite3

    import nbformat
    from nbformat.sign import NotebookNotary

    try:
        notary = NotebookNotary()
        for content in contents:
            notebook = nbformat.reads(content.decode(), as_version=4)  # pyright: ignore[reportUnknownMemberType]
            notary.sign(notebook)  # pyright: ignore[reportUnknownMemberType]
        notary.store.close()
    except (OSError, sqlite3.Error) as exc:
        note(f"The demo notebooks are not signed ({exc}): trust them with File → Trust Notebook.")


def _find_demos() -> Path:
    package = Path(__file__).parents[1]
    packaged = package / "demo"  # in a wheel
    return packaged if packaged.is_dir() else package.parent / "notebooks"


COMMAND = Command(
    name="lab",
    summary="open JupyterLab with the assistant",
    description="Open JupyterLab with the assistant; it asks nothing of the internet.",
    epilog=_EXAMPLES,
    configure=_configure,
    body=_lab,
    takes_more=True,
)
