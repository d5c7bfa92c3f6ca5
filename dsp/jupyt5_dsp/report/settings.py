"""How a run was made: what ``results.json`` says of it, in fields and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jupyt5.errors import UsageError
from jupyt5_dsp.suites import find_suite

__all__ = ["RunSettings", "read_settings", "word_settings"]

# Said of a run where runs of its suite differ in it, or it has another value than the default.
_SAID_IF_DIFFERENT = {
    "top_p": "top-p",
    "top_k": "top-k",
    "max_tokens": "max tokens",
    "prompt_tokens": "prompt tokens",
    "num_context_cells": "context",
    "num_following_cells": "following",
    "seed": "seed",
    "timeout_s": "time limit",
    "strict": "strict",
}
# --max-tokens' own value: it cuts answers short, so any other is said.
_DEFAULTS = {"max_tokens": 256}
_UNITS = {"timeout_s": " s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of one run; None where it has no such setting.

    Attributes:
        n: Hypotheses of each problem; of given samples, the most that a problem has.
        fewest: Samples of the problem with the fewest, of those that have any.
        temperature: 0 is greedy.
        top_p: Nucleus mass.
        top_k: Most likely tokens kept; 0 keeps all.
        max_tokens: Longest hypothesis in tokens.
        prompt_tokens: Most tokens of a prompt.
        num_context_cells: Cells before that the model sees.
        num_following_cells: Cells after that the model sees.
        seed: Of hypotheses, hash seeds and intervals.
        timeout_s: Processor seconds of a sample.
        strict: Whether passes with a suspicion flag count as failed.
        limit: The run is over so many first problems of its set; None for all, or not said.
        model_sha256: Of the model's files.
        problem_set: Digest of the problems.
        options: The suite's, each with its value.
        defaults: The suite's own values; empty for a suite that is not known here.
    """

    n: int
    fewest: int
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_tokens: int | None
    prompt_tokens: int | None
    num_context_cells: int | None
    num_following_cells: int | None
    seed: int | None
    timeout_s: float | None
    strict: bool
    limit: int | None
    model_sha256: str | None
    problem_set: str | None
    options: Mapping[str, str]
    defaults: Mapping[str, str] = field(repr=False)

    @property
    def chosen(self) -> dict[str, str]:
        """Options that differ from the suite's defaults."""
        return {
            name: value for name, value in self.options.items() if self.defaults.get(name) != value
        }

    def list_fields(self) -> dict[str, object]:
        """Return one field a setting and one an option, for tables."""
        own: dict[str, object] = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in ("options", "defaults", "strict", "fewest")
        }
        return own | {_name_option(name): value for name, value in self.options.items()}


def read_settings(results: Mapping[str, Any]) -> RunSettings:
    """Read what ``results.json`` says.

    Raises:
        KeyError: If it lacks the settings or the problems.
    """
    settings: Mapping[str, Any] = results["settings"]
    sampling: Mapping[str, Any] = settings.get("sampling") or {}
    counts = [count for problem in results["problems"] if (count := problem["num_samples"])]
    given: int | None = settings.get("num_samples")
    return RunSettings(
        n=given or max(counts, default=0),
        fewest=given or min(counts, default=0),
        temperature=sampling.get("temperature"),
        top_p=sampling.get("top_p"),
        top_k=sampling.get("top_k"),
        max_tokens=sampling.get("max_tokens"),
        prompt_tokens=settings.get("prompt_tokens"),
        num_context_cells=settings.get("num_context_cells"),
        num_following_cells=settings.get("num_following_cells"),
        seed=settings.get("seed"),
        timeout_s=settings.get("timeout_s"),
        strict=bool(results["strict"]),
        limit=settings.get("limit"),
        model_sha256=settings.get("model_sha256"),
        problem_set=settings.get("problem_set"),
        options=dict(settings.get("options", {})),
        defaults=_find_defaults(results["suite"]),
    )


def word_settings(settings: RunSettings, peers: Sequence[RunSettings]) -> list[str]:
    """Return what tells a run from others, in short words.

    Args:
        settings: Of the run.
        peers: Of all runs over its suite, itself included.
    """
    ns = f"{settings.fewest} to {settings.n}" if settings.fewest < settings.n else f"{settings.n}"
    words = [f"n = {ns}"]
    if settings.temperature is not None:
        words.append(f"T = {settings.temperature:g}")
    words += [f"{name}={value}" for name, value in settings.chosen.items()]
    if settings.limit is not None:
        words.append(f"first {settings.limit:,} problems")
    for name, label in _SAID_IF_DIFFERENT.items():
        value = getattr(settings, name)
        known = {getattr(peer, name) for peer in peers} - {None}
        is_usual = len(known) <= 1 and value == _DEFAULTS.get(name, value)
        if is_usual or value is None or value is False:
            continue
        words.append(label if value is True else f"{label} {value:g}{_UNITS.get(name, '')}")
    return words


def _find_defaults(suite_name: str) -> dict[str, str]:
    try:
        suite = find_suite(suite_name)
    except UsageError:
        return {}  # of another version, or somebody's own
    return {option.name: option.default for option in suite.options}


def _name_option(name: str) -> str:
    return f"option_{name.replace('-', '_')}"
