"""The samples of a run in compressed blocks, small enough that the whole page stays small."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jupyt5_dsp.report.references import Reference
from jupyt5_dsp.report.store import GradedText, RunStore
from jupyt5_dsp.report.words import Words

__all__ = ["BUDGET_BYTES", "Heads", "Packed", "ProblemParts", "Tally", "deflate", "pack_samples"]

BUDGET_BYTES = 27_000_000
"""For all blocks together, in base64; the rest of the page takes a few hundred kilobytes."""

_BLOCK_SAMPLES = 400
_PART_SAMPLES = 2000
_ZLIB_LEVEL = 6
_ANSI_CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Heads:
    """How many characters the page keeps of each text; the run's files have more."""

    source: int
    message: int
    output: int
    traceback: int


# Taken in turn until everything fits; the last one fits a hundred thousand samples of any kind.
_LEVELS = (
    Heads(20_000, 500, 2000, 3000),
    Heads(6000, 300, 600, 1200),
    Heads(2000, 200, 200, 500),
    Heads(800, 120, 80, 160),
    Heads(80, 40, 0, 0),
)


@dataclass(slots=True)
class Tally:
    """What is counted over all graded samples on the way."""

    flags: Counter[str] = field(default_factory=Counter[str])
    isolations: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])
    num_cold_reruns: int = 0

    def add(self, sample: GradedText) -> None:
        """Count one sample."""
        self.flags.update(sample.flags)
        self.isolations[sample.isolation] += 1
        if sample.isolation_reason:
            self.reasons[sample.isolation_reason] += 1
        self.num_cold_reruns += sample.cold_rerun


@dataclass(slots=True)
class ProblemParts:
    """A problem's row of the table, as far as its samples tell.

    ``places`` has a block index, the index of the part in it, and the part's number of samples.
    """

    places: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    verdicts: Counter[str] = field(default_factory=Counter[str])
    num_flagged: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """The blocks, each zlib-compressed JSON in base64, and what was learnt on the way."""

    blocks: Sequence[str]
    problems: Mapping[str, ProblemParts]
    tally: Tally
    heads: Heads


class _OverBudgetError(Exception):
    """Raised when the blocks outgrow the budget; the next level is tried."""


def pack_samples(
    store: RunStore,
    task_ids: Sequence[str],
    references: Mapping[str, Reference],
    words: Words,
    *,
    budget_bytes: int = BUDGET_BYTES,
) -> Packed:
    """Pack all graded samples; texts are cut as far as the budget makes it necessary.

    A completion, message, output or traceback that samples of a problem share is stored once (for
    each 2,000 samples of the problem).
    """
    *firsts, last = _LEVELS
    for heads in firsts:
        try:
            return _pack(store, task_ids, references, _Packer(heads, words, budget_bytes))
        except _OverBudgetError:
            continue
    return _pack(store, task_ids, references, _Packer(last, words, None))


def deflate(value: object) -> str:
    """Return a JSON value compressed and in base64, which may stand in HTML as it is."""
    # ASCII: a lone surrogate of a sample's output survives as an escape.
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), _ZLIB_LEVEL)).decode("ascii")


class _Packer:
    """Fills blocks with parts; a part is up to 2,000 samples of one problem."""

    def __init__(self, heads: Heads, words: Words, budget_bytes: int | None) -> None:
        self.heads = heads
        self.words = words
        self.blocks: list[str] = []
        self._budget_bytes = budget_bytes
        self._num_bytes = 0
        self._parts: list[object] = []
        self._num_held = 0

    def add(self, part: object, num_samples: int) -> tuple[int, int, int]:
        place = (len(self.blocks), len(self._parts), num_samples)
        self._parts.append(part)
        self._num_held += num_samples
        if self._num_held >= _BLOCK_SAMPLES:
            self.close_block()
        return place

    def close_block(self) -> None:
        if not self._parts:
            return
        self.blocks.append(deflate(self._parts))
        self._num_bytes += len(self.blocks[-1])
        self._parts, self._num_held = [], 0
        if self._budget_bytes is not None and self._num_bytes > self._budget_bytes:
            raise _OverBudgetError


def _pack(
    store: RunStore,
    task_ids: Sequence[str],
    references: Mapping[str, Reference],
    packer: _Packer,
) -> Packed:
    tally = Tally()
    problems: dict[str, ProblemParts] = {}
    for task_id in task_ids:
        problem = problems[task_id] = ProblemParts()
        reference = _describe(references.get(task_id), packer.heads)
        for samples in _iter_chunks(store.iter_graded(task_id)):
            for sample in samples:
                tally.add(sample)
                problem.verdicts[sample.verdict] += 1
                problem.num_flagged += bool(sample.flags)
            part = {**reference, **_make_part(samples, packer.heads, packer.words)}
            problem.places.append(packer.add(part, len(samples)))
    packer.close_block()
    return Packed(packer.blocks, problems, tally, packer.heads)


def _iter_chunks(samples: Iterable[GradedText]) -> Iterator[list[GradedText]]:
    chunk: list[GradedText] = []
    for sample in samples:
        chunk.append(sample)
        if len(chunk) == _PART_SAMPLES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _describe(reference: Reference | None, heads: Heads) -> dict[str, object]:
    if reference is None:
        return {}
    texts = {
        "prefix": reference.prefix,
        "suffix": reference.suffix,
        "reference": reference.reference,
        "before": reference.before,
        "after": reference.after,
    }
    # The cell beside a test program only names it.
    grading = () if reference.has_program else reference.grading
    return {
        "cell_idx": reference.cell_idx,
        **{name: _cut(text, heads.source) for name, text in texts.items()},
        "grading": [_cut(source, heads.source) for source in grading],
    }


def _make_part(samples: Sequence[GradedText], heads: Heads, words: Words) -> dict[str, object]:
    """Return texts once each, and rows that name them by index; report.js reads the same order."""
    indices: dict[str, int] = {}

    def intern(text: str) -> int:
        return indices.setdefault(text, len(indices))

    rows = [
        [
            sample.sample_idx,
            sample.verdict,
            intern(_cut(sample.completion, heads.source)),
            intern(_cut(words.say(sample.message), heads.message)),
            intern(_cut(_plain(sample.output), heads.output)),
            intern(_cut(_plain(sample.traceback), heads.traceback, keep_tail=True)),
            [intern(_cut(words.name_flag(flag), heads.message)) for flag in sample.flags],
            intern(sample.isolation),
            intern(_cut(sample.isolation_reason, heads.message)),
            int(sample.cold_rerun),
            sample.wall_s,
            sample.mean_logprob,
            intern(_cut(sample.raw, heads.output)),
        ]
        for sample in samples
    ]
    return {"texts": list(indices), "samples": rows}


def _cut(text: str, limit: int, *, keep_tail: bool = False) -> str:
    if len(text) <= limit:
        return text
    mark = f"[… {len(text) - limit:,} more characters in the run's files]"
    return f"{mark}\n{text[-limit:] if limit else ''}" if keep_tail else f"{text[:limit]}\n{mark}"


def _plain(text: str) -> str:
    return _ANSI_CODE.sub("", text)
