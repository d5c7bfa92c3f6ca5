"""``python -m jupyt5.hypotheses.codebleu_worker``: CodeBLEU for lines of JSON on standard input.

A line is ``{"reference", "completions"}``, its answer a list of numbers in [0, 1] or null.

CodeBLEU (Ren et al. 2020) is the mean of four matches: n-grams, weighted n-grams, syntax trees,
data flow. Three departures from ``codebleu.calc_codebleu``, each against a trap of the package:

- it gives full marks for data flow to a hypothesis that shares none with the reference (``or 1``);
  here that counts 0, and where the reference has no data flow the other three are averaged;
- it splits tokens at blanks, which is right only for texts tokenised before; here by a pattern;
- it visits loop bodies twice, so nested loops cost 2 to the power of their depth; here an alarm
  ends it, and neither that hypothesis nor those after it have a score.
"""

import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import cast

__all__ = ["score_codebleu"]

# Processor time. The longest text taken costs a tenth of it.
_TIMEOUT_S = 1.0
_TOKEN = re.compile(r"\w+|[^\w\s]")
_PARTS = ("ngram_match_score", "weighted_ngram_match_score", "syntax_match_score")
_DATA_FLOW = "dataflow_match_score"

Calculate = Callable[..., dict[str, float]]


class _TooLongError(BaseException):
    """Raised by the alarm; no ``Exception``, because the package catches those."""


def score_codebleu(reference: str, completions: list[str]) -> list[float | None]:
    """Return CodeBLEU of each completion; None where it cannot be had."""
    scores: list[float | None] = []
    # One time limit that holds is enough: a model that nests loops so does it again.
    with suppress(_TooLongError):
        own = _match(reference, reference)
        has_data_flow = own is not None and own[_DATA_FLOW] > 0
        names = (*_PARTS, _DATA_FLOW) if has_data_flow else _PARTS
        for completion in completions:
            parts = _match(reference, completion) if own else None
            scores.append(sum(parts[name] for name in names) / len(names) if parts else None)
    return scores + [None] * (len(completions) - len(scores))


def _match(reference: str, completion: str) -> dict[str, float] | None:
    from codebleu import calc_codebleu  # pyright: ignore[reportUnknownVariableType]

    calculate = cast("Calculate", calc_codebleu)
    try:
        with _time_limit():
            return calculate([reference], [completion], lang="python", tokenizer=_TOKEN.findall)
    except (RecursionError, ValueError, IndexError, ZeroDivisionError):
        # A text that the package cannot take is no reason to lose the others' scores.
        return None


@contextmanager
def _time_limit() -> Generator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _TIMEOUT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _main() -> None:
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        job = json.loads(line)
        scores = score_codebleu(job["reference"], job["completions"])
        sys.stdout.write(json.dumps(scores) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
