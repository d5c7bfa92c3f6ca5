"""Lists of what was removed, with reasons, as packed JSON lines."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from jupyt5.errors import CorpusError
from jupyt5_corpus.compression import compress, open_packed
from jupyt5_corpus.row import Removal

__all__ = [
    "LIKENESSES",
    "NOT_QUOTED",
    "cited_places",
    "count_reasons",
    "may_quote",
    "pack_removals",
    "read_removals",
    "without_quotation",
]

LIKENESSES = ("same content as", "similar to")
"""How the details of copies begin; then the place of the held-out notebook and, in brackets, its
own detail."""

NOT_QUOTED = "[left out: its owners have opted out]"
"""Stands in the place of a quotation."""

_QUOTATION = re.compile(r"\bcell \d+(?: is [0-9a-f]{64})?: ")
"""What a quotation follows, in details of the steps ``holdout`` and ``overlap``."""

_BRACKET = re.compile(r" \(")


def pack_removals(removals: Iterable[Removal]) -> bytes:
    """Write a list of removals."""
    return compress(b"".join(orjson.dumps(asdict(removal)) + b"\n" for removal in removals))


def read_removals(path: Path) -> Iterator[Removal]:
    """Read a list of removals.

    Raises:
        CorpusError: If the file is missing or damaged.
    """
    try:
        with open_packed(path) as stream:
            for line in stream:
                yield Removal(**orjson.loads(line))
    except FileNotFoundError as exc:
        message = f"{path} is missing. Run `jupyt5-corpus check` on the folder."
        raise CorpusError(message) from exc
    except (orjson.JSONDecodeError, TypeError) as exc:
        message = f"{path} is no list of removals: {exc}. Run `jupyt5-corpus check` on the folder."
        raise CorpusError(message) from exc


def may_quote(removal: Removal) -> bool:
    """Tell whether the removal's detail quotes text of the notebook."""
    return _QUOTATION.search(removal.detail) is not None


def without_quotation(removal: Removal) -> Removal:
    """Return a removal with all but the text that it quotes."""
    match = _QUOTATION.search(removal.detail)
    if match is None:
        return removal
    # Of a copy, the held-out notebook's detail stands in brackets.
    end = ")" if removal.detail.startswith(LIKENESSES) else ""
    return replace(removal, detail=f"{removal.detail[: match.end()]}{NOT_QUOTED}{end}")


def cited_places(removal: Removal) -> Iterator[str]:
    """Yield what may be the place of the held-out notebook that a copy's detail cites."""
    for likeness in LIKENESSES:
        if removal.detail.startswith(likeness):
            place = removal.detail[len(likeness) :].lstrip()
            yield from (place[: match.start()] for match in _BRACKET.finditer(place))


def count_reasons(removals: Iterable[Removal]) -> dict[str, dict[str, int]]:
    """Count removals: step → reason → number."""
    counts: dict[str, dict[str, int]] = {}
    for removal in removals:
        of_step = counts.setdefault(removal.step, {})
        of_step[removal.reason] = of_step.get(removal.reason, 0) + 1
    return counts
