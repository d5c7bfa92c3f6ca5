"""The paper's classes of outcome, from the verdicts of the executor."""

from collections import Counter
from collections.abc import Mapping

from jupyt5.execution.verdicts import VerdictKind

__all__ = ["CLASSES", "class_of", "count_classes", "tabulate"]

CLASSES = ("mismatched output", "invalid syntax", "runtime error", "time out", "passed")

_BY_VERDICT = {
    VerdictKind.PASSED: "passed",
    VerdictKind.WRONG: "mismatched output",
    VerdictKind.SYNTAX: "invalid syntax",
    VerdictKind.TIMEOUT: "time out",
    VerdictKind.ERROR: "runtime error",
    VerdictKind.DIED: "runtime error",
    VerdictKind.EXIT: "runtime error",
    VerdictKind.OOM: "runtime error",
    VerdictKind.LIMIT: "runtime error",
}


def class_of(verdict: str) -> str | None:
    """Return the paper's class of a verdict; None for samples that were not judged.

    Unlike in the published code, a sample whose reference fails has none (``invalid``): there it
    was booked as the sample's own failure.
    """
    return _BY_VERDICT.get(VerdictKind(verdict))


def tabulate(counts: Mapping[str, int]) -> dict[str, tuple[int, float]]:
    """Return count and percentage of each class, to three decimals, as in the paper's Table 6.

    Args:
        counts: By class.
    """
    total = sum(counts.get(name, 0) for name in CLASSES)
    return {
        name: (counts.get(name, 0), round(100 * counts.get(name, 0) / total, 3) if total else 0.0)
        for name in CLASSES
    }


def count_classes(verdict_counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many samples fall into each class.

    Args:
        verdict_counts: By verdict, as in a run's ``results.json``.
    """
    found: Counter[str | None] = Counter()
    for verdict, count in verdict_counts.items():
        found[class_of(verdict)] += count
    return {name: found[name] for name in CLASSES}
