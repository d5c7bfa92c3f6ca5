"""Results of ``dsp-eval``'s commands in words, for a terminal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jupyt5_dsp.reasons import describe_invalid

__all__ = ["print_results", "print_suites", "print_validation"]

Print = Callable[[str], None]

_MOST_IDS = 3


def print_results(results: Mapping[str, Any], echo: Print) -> None:
    """Print pass@k and counts for people."""
    echo(f"{results['suite_version']}  {results['provider']}")
    echo(
        f"valid problems: {results['num_valid']}/{results['num_problems']}, "
        f"distinct tests: {results['num_distinct']}, left out (no samples): "
        f"{results['num_left_out']}, samples: {results['num_samples']}"
    )
    for line in describe_invalid(results["problems"]):
        echo(line)
    for scope, by_k in results["pass_at_k"].items():
        for k, value in by_k.items():
            interval = results["ci95"][scope].get(k)
            band = f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""
            echo(f"pass@{k:<4} over {scope:<10} {value:.4f}{band}")
    for k, blocked in results["blocked_k"].get("valid", {}).items():
        ids = blocked["task_ids"]
        more = ", …" if blocked["num_blocking"] > _MOST_IDS else ""
        named = f" ({', '.join(ids[:_MOST_IDS])}{more})" if ids else ""
        echo(f"pass@{k:<4} over valid      not reported: {blocked['reason']}{named}")
    for name in ("verdict_counts", "passed_with_flag"):
        counts = ", ".join(f"{kind} {count}" for kind, count in results[name].items())
        echo(f"{name.replace('_', ' ')}: {counts or 'none'}")


def print_suites(found: Sequence[Mapping[str, Any]], echo: Print) -> None:
    """Print suites for people."""
    for suite in found:
        echo(f"{suite['name']:<10} {suite['version']:<14} {suite['about']}")
        echo(f"{'':<10} {suite['home']}  (licence of the data: {suite['licence']})")
        for option in suite["options"]:
            choices = ", ".join(option["choices"]) or "any value"
            echo(f"{'':<10} {option['name']}={option['default']}  ({choices}) {option['about']}")


def print_validation(found: Mapping[str, Any], echo: Print) -> None:
    """Print findings for people: every problem that is not usable, then the counts."""
    problems: Sequence[Mapping[str, Any]] = found["problems"]
    for problem in problems:
        usable = problem["usable"]
        reason = f"  {problem['reason']}" if problem["reason"] else ""
        echo(
            f"{problem['task_id']:<12} reference {problem['reference']:<8} usable {usable}{reason}"
        )
    echo("")
    echo(f"problems: {found['num_problems']}, usable: {found['num_valid']}")
    for line in describe_invalid(problems):
        echo(line)
    groups = {
        "gold failing": [p for p in problems if p["usable"] == "no"],
        "test vacuous": [p for p in problems if p["usable"] == "vacuous"],
        "solved before": [p for p in problems if p["usable"] == "solved before"],
        "unstable": [p for p in problems if p["usable"] == "unstable"],
        "passed though a context cell raised": [
            p for p in problems if p["reference"] == "passed" and p["context_errors"]
        ],
    }
    for label, members in groups.items():
        ids = ", ".join(member["task_id"] for member in members)
        echo(f"{label}: {len(members)}" + (f" ({ids})" if members else ""))
    differing = found["differs_from_passes_modern"]
    echo(
        f"reference differs from passes_modern: {len(differing)}"
        + (f" ({', '.join(differing)})" if differing else "")
    )
