"""The files of a run, problem by problem: only the place of each line is kept in memory."""

import json
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from jupyt5.errors import ProblemSetError

__all__ = ["GradedText", "RunStore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedText:
    """A sample with its verdict, as a reader of the report sees it.

    ``raw`` is what the model wrote, where that is another text than ``completion``; else "".
    ``isolation`` is ``fork`` or ``kernel``, ``isolation_reason`` says why it was no fork.
    """

    sample_idx: int
    completion: str
    verdict: str
    raw: str = ""
    flags: tuple[str, ...] = ()
    message: str = ""
    output: str = ""
    traceback: str = ""
    mean_logprob: float | None = None
    isolation: str = ""
    isolation_reason: str = ""
    cold_rerun: bool = False
    wall_s: float | None = None


class RunStore:
    """Reads ``samples.jsonl`` and ``verdicts.jsonl`` of a run; a context manager.

    A file that is missing counts as empty; a last line that a crash cut off is passed over.

    Raises:
        ProblemSetError: If a line is damaged; names file and line.
    """

    def __init__(self, run_path: Path) -> None:
        self._run_path = run_path
        self._files = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as files:
            self._samples = files.enter_context(_Lines(self._run_path / "samples.jsonl"))
            self._verdicts = files.enter_context(_Lines(self._run_path / "verdicts.jsonl"))
            self._files = files.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._files.close()

    @property
    def num_samples(self) -> int:
        """Samples of the run, graded or not."""
        return self._samples.num_lines

    def iter_completions(self, task_id: str) -> Iterator[str]:
        """Yield the problem's completions, graded or not, in file order."""
        for record in self._samples.iter_of(task_id):
            yield str(record.get("completion") or "")

    def iter_graded(self, task_id: str) -> Iterator[GradedText]:
        """Yield the problem's graded samples in their order.

        Only the verdicts' places are held, so a problem may have any number of samples. Of several
        verdicts on one sample the last one counts: the run was taken up again with other inputs.
        """
        places: dict[int, int] = {}
        for place, record in self._verdicts.iter_placed(task_id):
            sample_idx = record.get("sample_idx")
            if isinstance(sample_idx, int):
                places[sample_idx] = place
        # Samples are numbered as dsp_eval numbers them when it reads a file: in file order.
        for sample_idx, sample in enumerate(self._samples.iter_of(task_id)):
            if sample_idx in places:
                yield _join(sample_idx, sample, self._verdicts.read_at(places[sample_idx]))


class _Lines:
    """A JSON Lines file, and where in it the lines of each problem begin."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._offsets: dict[str, array[int]] = {}
        self.num_lines = 0

    def __enter__(self) -> Self:
        if self._path.is_file():
            self._stream = self._path.open("rb")
            try:
                self._index(self._stream)
            except BaseException:
                self._stream.close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stream:
            self._stream.close()

    def _index(self, stream: BinaryIO) -> None:
        offset = 0
        for line in stream:
            if line.strip() and line.endswith(b"\n"):
                self.num_lines += 1
                key = str(self._parse(line).get("task_id"))
                self._offsets.setdefault(key, array("q")).append(offset)
            offset += len(line)

    def iter_of(self, task_id: str) -> Iterator[Mapping[str, object]]:
        for _, record in self.iter_placed(task_id):
            yield record

    def iter_placed(self, task_id: str) -> Iterator[tuple[int, Mapping[str, object]]]:
        for offset in self._offsets.get(task_id, ()):
            yield offset, self.read_at(offset)

    def read_at(self, offset: int) -> Mapping[str, object]:
        assert self._stream
        self._stream.seek(offset)
        return self._parse(self._stream.readline())

    def _parse(self, line: bytes) -> Mapping[str, object]:
        try:
            record: object = json.loads(line)
        except ValueError as exc:
            message = f"{self._path}, line {self.num_lines}: {exc}. Mend or remove the line."
            raise ProblemSetError(message) from exc
        if not isinstance(record, dict):
            message = f"{self._path}, line {self.num_lines}: not a JSON object. Remove the line."
            raise ProblemSetError(message)
        return cast("dict[str, object]", record)


def _join(
    sample_idx: int, sample: Mapping[str, object], verdict: Mapping[str, object]
) -> GradedText:
    logprob, wall_s = sample.get("mean_logprob"), verdict.get("wall_s")
    flags = cast("list[object]", verdict.get("flags") or [])
    completion, raw = str(sample.get("completion") or ""), str(sample.get("raw") or "")
    return GradedText(
        sample_idx=sample_idx,
        completion=completion,
        raw=raw if raw.strip() != completion.strip() else "",
        verdict=str(verdict.get("verdict")),
        flags=tuple(str(flag) for flag in flags),
        message=str(verdict.get("message") or ""),
        output=str(verdict.get("output_head") or ""),
        traceback=str(verdict.get("traceback") or ""),
        mean_logprob=float(logprob) if isinstance(logprob, int | float) else None,
        isolation=str(verdict.get("isolation") or ""),
        isolation_reason=str(verdict.get("isolation_reason") or ""),
        cold_rerun=verdict.get("cold_rerun") is True,
        wall_s=float(wall_s) if isinstance(wall_s, int | float) else None,
    )
