"""Why problems are not valid, grouped: a missing package is one line, however many it takes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["describe_invalid", "name_reason"]

_MOST_LINES = 8
_MISSING = re.compile(r"No module named '([^'.]+)")
_RAISED = re.compile(r"\braised (\w+)")
_FAILS = "the reference does not pass here: "
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


def describe_invalid(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each reason why problems are not valid, the most frequent first.

    Args:
        problems: With ``usable`` and ``reason``, as in results and in findings.
    """
    counts = Counter(name_reason(one["reason"]) for one in problems if one["usable"] != "yes")
    lines = [(str(count), reason) for reason, count in counts.most_common()]
    if len(lines) > _MOST_LINES:
        num_rest = sum(int(count) for count, _ in lines[_MOST_LINES - 1 :])
        num_reasons = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [(str(num_rest), f"for {num_reasons} other reasons")]
    width = max((len(count) for count, _ in lines), default=0)
    for count, reason in lines:
        yield f"not valid: {count:>{width}} {reason}"
