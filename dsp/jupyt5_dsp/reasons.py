"""Why problems are not valid, grouped: a missing package is one line, however many it takes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["count_reasons", "describe_invalid", "name_reason"]

_MOST_LINES = 8
_MISSING = re.compile(r"No module named '([^'.]+)")
_RAISED = re.compile(r"\braised (\w+)")
_FAILS = "the reference does not pass here: "
_HINT = (
    "hint: --python names an interpreter that has missing packages "
    "(docs/environments.md, docs/biocoder.md)"
)
_WHERE = re.compile(r" on input \d+ of \d+")


def name_reason(reason: str) -> str:
    """Return a problem's reason without what only that problem has: names, numbers, values."""
    if missing := _MISSING.search(reason):
        return f"no module named {missing[1]!r}"
    text = reason.removeprefix(_FAILS)
    if text != reason and (raised := _RAISED.search(text)):
        return f"the reference raises {raised[1]}"
    text = text.partition(": ")[0].partition(", of which")[0]
    text = re.sub(r"\d+", "…", _WHERE.sub("", text)).rstrip(".")
    return text[:1].lower() + text[1:]


def count_reasons(problems: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Return (how many problems are not valid, why), the most frequent first; few at most.

    Args:
        problems: With ``usable`` and ``reason``, as in results and in findings.
    """
    counts = Counter(name_reason(one["reason"]) for one in problems if one["usable"] != "yes")
    found = [(count, reason) for reason, count in counts.most_common()]
    rest = found[_MOST_LINES - 1 :]
    if len(rest) > 1:
        num_rest = sum(count for count, _ in rest)
        found[_MOST_LINES - 1 :] = [(num_rest, f"for {len(rest)} other reasons")]
    return found


def describe_invalid(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of ``count_reasons`` for a terminal; a hint where packages are missing."""
    found = count_reasons(problems)
    width = len(str(max((count for count, _ in found), default=0)))
    for count, reason in found:
        yield f"not valid: {count:>{width}} {reason}"
    if any(one["usable"] != "yes" and _MISSING.search(one["reason"]) for one in problems):
        yield _HINT
