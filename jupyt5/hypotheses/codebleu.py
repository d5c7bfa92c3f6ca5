"""CodeBLEU of hypotheses against their reference, computed in processes of their own.

The ``codebleu`` package parses hostile text in C and may have to be ended: see
``codebleu_worker`` for what is counted, and how it departs from the package.
"""

import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

__all__ = ["CODEBLEU_VERSION", "MAX_CHARS", "Comparison", "explain_missing", "score_comparisons"]

CODEBLEU_VERSION = "codebleu-0.7.0/1"
"""Changes with whatever changes a score."""

MAX_CHARS = 4000
"""The metric's cost grows faster than the text: leave longer ones out, they say little."""

_TIMEOUT_S = 1800

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A reference and the texts to score against it; ``name`` is for messages."""

    name: str
    reference: str
    completions: Sequence[str]


def explain_missing(extra: str = "dsp") -> str:
    """Return how to get CodeBLEU if it is not installed; "" if it is.

    Args:
        extra: The extra of ours that brings it.
    """
    missing = [
        name
        for name in ("codebleu", "tree_sitter_python")
        if importlib.util.find_spec(name) is None
    ]
    if not missing:
        return ""
    if sys.version_info >= (3, 13):
        return "The codebleu package has no wheels for Python 3.13 and later."
    return f"Install it with: pip install 'jupyt5[{extra}]'"


def score_comparisons(comparisons: Sequence[Comparison]) -> list[list[float | None] | None]:
    """Return CodeBLEU in [0, 1] of every completion, None for one that cannot be scored.

    A comparison that brings its process down is None as a whole, and a warning names it. Texts
    longer than ``MAX_CHARS`` are better left out by the caller.
    """
    scores: list[list[float | None] | None] = []
    while left := comparisons[len(scores) :]:
        answers, reason = _run_worker(left)
        scores += [cast("list[float | None]", json.loads(line)) for line in answers]
        if len(answers) < len(left):
            logger.warning("CodeBLEU of %s is left out: %s", left[len(answers)].name, reason)
            scores.append(None)
    return scores


def _run_worker(comparisons: Sequence[Comparison]) -> tuple[list[str], str]:
    """Return the lines that a worker answered, and why it stopped if it did not answer all."""
    lines = [
        json.dumps({"reference": one.reference, "completions": list(one.completions)})
        for one in comparisons
    ]
    # The package numbers variables in the order of a set: a fixed hash seed makes it repeatable.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "jupyt5.hypotheses.codebleu_worker"],
            input="\n".join(lines),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        answered: bytes = exc.stdout or b""  # bytes here, even of a text stream
        return _whole_lines(answered.decode()), f"it took more than {_TIMEOUT_S} s"
    reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return _whole_lines(done.stdout), reason[0]


def _whole_lines(output: str) -> list[str]:
    return output.rpartition("\n")[0].splitlines()
