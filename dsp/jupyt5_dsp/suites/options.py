"""Options of suites: how problems are shown, which of them there are."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyt5.errors import UsageError

__all__ = ["CORRECTIONS", "PRESENTATION", "Option", "read_options"]

PRESENTATION = "presentation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One choice that a user has.

    Attributes:
        name: As in ``--option NAME=VALUE``.
        default: Value without the option.
        choices: All values; empty if the suite itself reads the value.
        about: What it does, in a line.
    """

    name: str
    default: str
    choices: tuple[str, ...] = ()
    about: str


CORRECTIONS = Option(
    name="corrections",
    default="no",
    choices=("no", "yes"),
    about="repair slips of syntax first; what was repaired is in the flags",
)


def read_options(
    suite_name: str, options: Sequence[Option], given: Mapping[str, str]
) -> dict[str, str]:
    """Return a value for each option.

    Raises:
        UsageError: If the suite has no such option, or the option no such value.
    """
    known = {option.name: option for option in options}
    values = {option.name: option.default for option in options}
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            what = f"Its options: {', '.join(known)}." if known else "It has none."
            message = f"Suite {suite_name} has no option {name!r}. {what}"
            raise UsageError(message)
        if option.choices and value not in option.choices:
            near = difflib.get_close_matches(value, option.choices, n=1)
            guess = f" Did you mean {near[0]}?" if near else ""
            message = (
                f"{name}={value} is unknown to suite {suite_name}.{guess} "
                f"Choose one of: {', '.join(option.choices)}."
            )
            raise UsageError(message)
        values[name] = value
    return values
