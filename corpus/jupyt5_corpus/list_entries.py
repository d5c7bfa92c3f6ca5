"""Lines of holdout and opt-out lists: JSON objects that name repositories, owners and contents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import orjson

__all__ = ["parse_entry", "read_names"]

_HEX_DIGITS = frozenset("0123456789abcdef")

Fail = Callable[[str], Exception]
"""Makes the error for a line out of what is wrong with it."""


def parse_entry(line: bytes, fail: Fail) -> Mapping[str, object]:
    """Parse one line.

    Raises:
        Exception: What ``fail`` makes, if the line is no JSON object.
    """
    try:
        parsed: object = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise fail(f"not JSON ({exc})") from exc
    if not isinstance(parsed, dict):
        raise fail("not a JSON object")
    return cast("dict[str, object]", parsed)


def read_names(
    entry: Mapping[str, object], fields: Sequence[str], fail: Fail
) -> Iterator[tuple[str, str]]:
    """Yield field and value, in lower case, of all fields that an entry has.

    Raises:
        Exception: What ``fail`` makes, if there is none or a value cannot be one.
    """
    present = [field for field in fields if entry.get(field) is not None]
    if not present:
        raise fail(f"none of {', '.join(fields)}")
    for field in present:
        value = entry[field]
        if not isinstance(value, str) or not _is_valid(field, value.lower()):
            raise fail(f"{field} is {value!r}")
        yield field, value.lower()


def _is_valid(field: str, value: str) -> bool:
    if field == "repo":
        return all(value.split("/")) and value.count("/") <= 1
    if field == "owner":
        return bool(value) and "/" not in value
    return len(value) == 64 and _HEX_DIGITS.issuperset(value)
