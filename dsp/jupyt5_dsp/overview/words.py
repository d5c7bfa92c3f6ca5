"""Numbers and sentences that the page and the Markdown have in common."""

from jupyt5_dsp.overview.rows import RunRow

__all__ = [
    "COST_CAPTION",
    "NOT_REPORTED",
    "RESULTS_CAPTION",
    "word_attempted",
    "word_interval",
    "word_number",
    "word_rate",
    "word_valid",
]

NOT_REPORTED = "n/a"
RESULTS_CAPTION = (
    "pass@k over valid problems: their reference passes here and their test rejects wrong answers. "
    "A valid problem without samples counts as failed. In brackets two-sided 95 % intervals from a "
    "bootstrap over clusters of problems, never narrower than the exact binomial bound for as many "
    "clusters that all go alike (0 of 10: 0 % to 30.8 %). n/a: some problem has fewer "
    "than k samples. Settings: n hypotheses a problem, temperature T, and what differs from the "
    "defaults or between a suite's runs."
)
COST_CAPTION = (
    "Samples by class: “wrong” is a failed assertion or other output than the reference's, “error” "
    "any other end by itself (a crash and an exit included), “limits” time, memory and the like, "
    "“not judged” a problem that cannot judge here. The rest are means over valid problems: tokens "
    "of the prompt as the model was given it, how many prompts were cut to fit the model "
    "(empty where that was not noted), tokens of an answer (estimated from bytes), wall seconds of "
    "all hypotheses of a problem, and of one sample's process."
)


def word_rate(run: RunRow, k: int, scope: str = "valid") -> str:
    """Return pass@k in words."""
    value = run.pass_at_k[scope].get(k)
    return NOT_REPORTED if value is None else f"{value:.1%}"


def word_interval(run: RunRow, k: int, scope: str = "valid") -> str:
    """Return the interval of a pass@k in words; "" without one."""
    ends = run.ci95[scope].get(k)
    return f"[{ends[0]:.1%}, {ends[1]:.1%}]" if ends else ""


def word_number(value: float | None, digits: int) -> str:
    """Return a number, or nothing where none is known."""
    return "" if value is None else f"{value:,.{digits}f}"


def word_valid(run: RunRow) -> str:
    """Return how many of the problems are valid."""
    return f"{run.num_valid:,}/{run.num_problems:,}"


def word_attempted(run: RunRow) -> str:
    """Return how many valid problems have samples; "" if all have."""
    if run.num_valid_attempted >= run.num_valid:
        return ""
    return f"{run.num_valid_attempted:,} of {run.num_valid:,} attempted"
