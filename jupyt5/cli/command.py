"""What a subcommand is: a name, its arguments, its body."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand of `jupyt5`.

    Attributes:
        name: As it is typed.
        summary: One line for the list of subcommands.
        description: Opens its own help.
        epilog: Closes it: examples, and what the arguments do not say.
        configure: Adds its arguments to a parser.
        body: Does the work and returns the exit code.
        takes_more: Arguments that the parser does not know go on to another program.
    """

    name: str
    summary: str
    description: str
    epilog: str
    configure: Callable[[argparse.ArgumentParser], None]
    body: Callable[[argparse.Namespace], int]
    takes_more: bool = False
