"""The `jupyt5` command: one module a subcommand, each of which imports what it needs when run."""

import argparse

from jupyt5 import __version__
from jupyt5.cli import export, fill, imports, lab, listings, serve
from jupyt5.cli.command import Command

__all__ = ["main"]

_COMMANDS = (
    fill.COMMAND,
    lab.COMMAND,
    *listings.COMMANDS,
    serve.COMMAND,
    export.COMMAND,
    *imports.COMMANDS,
)
_EXAMPLES = """\
examples:
  jupyt5 lab                                   JupyterLab with the assistant
  jupyt5 fill analysis.ipynb --cell 4          suggest code for the fifth cell
  jupyt5 fill analysis.ipynb --cell 4 --write  ... and put it there
  jupyt5 providers                             what can do the filling
"""


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 0 done, 1 failed, 2 usage, 130 interrupted."""
    parser = _build_parser()
    options, rest = parser.parse_known_args(argv)
    command: Command = options.command
    if rest and not command.takes_more:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    from jupyt5.console import run, setup_logging

    if options.verbose:
        setup_logging(verbose=True)
    return run(lambda: command.body(options))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyt5",
        description="Fill notebook cells from the cells around them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jupyt5 {__version__}")
    parser.add_argument("--verbose", action="store_true", help="say on stderr what is going on")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.configure(subparser)
        subparser.set_defaults(command=command)
    return parser
