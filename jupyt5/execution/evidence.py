"""What a worker's report on one sample proves, and what it merely tells.

The proof is the secret whose hash the sample reported before its hypothesis ran. Everything else
comes from inside the sample and is used only to name its failure.
"""

import base64
import binascii
import errno
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from jupyt5.execution.jobs import Task
from jupyt5.execution.verdicts import CellReply, CellStatus, Stage, shorten

__all__ = ["SampleEvidence", "describe_error", "make_reply", "read_sample"]

_RECORD_BYTES = 33
_FLAG_EXIT = "exit asked"
_FLAG_CHANNEL = "suspect: report channel written"
_SIGXCPU = 24
_MOST_SECONDS = 1e9
_LIMIT_ERRNOS = frozenset({errno.EFBIG, errno.ENOSPC, errno.EAGAIN, errno.EDQUOT})
_THREAD_LIMIT = "can't start new thread"
_ANSI_CODE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Where an object happens to lie differs from run to run.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEvidence:
    """How a sample ran.

    Attributes:
        replies: Context cells (of a fresh process), solution cell, grading cells.
        flags: What it did that honest code does not.
        signal: That ended its process; 0 if none did.
        fault: Why it could not be run at all; "" if it was.
        wall_s: Seconds on the wall clock, for the whole process.
        cpu_s: Processor seconds.
        output: What it wrote to stdout, as far as that is kept; merged with stderr in notebooks.
        num_output_bytes: All that it wrote there.
    """

    replies: tuple[CellReply, ...]
    flags: tuple[str, ...] = ()
    signal: int = 0
    fault: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    output: str = field(default="", repr=False)
    num_output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Report:
    proven: bool
    flags: tuple[str, ...]
    asked_to_exit: bool


def read_sample(content: Fields, task: Task, *, has_context: bool = False) -> SampleEvidence:
    """Read a worker's message on one sample.

    Args:
        content: The message.
        task: The sample's problem.
        has_context: Whether its process ran the context cells itself.
    """
    report = _read_report(content.get("report"))
    details = [cast("Fields", one) for one in content.get("details") or () if isinstance(one, dict)]
    by_kind = {str(detail.get("kind")): detail for detail in details}
    fault = by_kind.get("fault")
    context = _read_context(details, task) if has_context else []
    own = _read_own(content, report, by_kind, task)
    if content.get("ended") == "context timeout" or _died_in_context(content, by_kind):
        own = [_end_context(content, task, context)]
    printed = str(content.get("output") or "")
    num_printed = _read_count(content, "num_output_bytes")
    output = make_plain(printed + str(content.get("errors") or ""))
    num_bytes = num_printed + _read_count(content, "num_error_bytes")
    dropped = max(num_bytes - len(output.encode()), 0)
    own[-1] = replace(own[-1], output_head=output, num_dropped_chars=dropped)
    return SampleEvidence(
        replies=(*context, *own),
        flags=report.flags,
        signal=int(content.get("signal") or 0) if content.get("ended") == "died" else 0,
        # After the commitment the hypothesis runs, and could say anything.
        fault=str(fault.get("text")) if fault and not content.get("report") else "",
        wall_s=float(content.get("wall_s") or 0.0),
        cpu_s=float(content.get("cpu_s") or 0.0),
        output=printed,
        num_output_bytes=num_printed,
    )


def make_reply(content: Fields, stage: Stage) -> CellReply:
    """Return the reply that a worker's description of one cell's end amounts to."""
    reply = CellReply(
        cell_idx=_read_idx(content.get("cell_idx")),
        stage=stage,
        status=CellStatus.OK,
        wall_s=_read_seconds(content.get("wall_s")),
    )
    error = content.get("error")
    return describe_error(reply, cast("Fields", error)) if isinstance(error, dict) else reply


def describe_error(reply: CellReply, error: Fields) -> CellReply:
    """Return ``reply`` as a failure, with what a sample says of its exception."""
    bases = error.get("bases")
    names = cast("list[object]", bases) if isinstance(bases, list) else []
    message = _ADDRESS.sub("0x…", make_plain(str(error.get("message") or "")))
    return replace(
        reply,
        status=CellStatus.ERROR,
        error_name=make_plain(str(error.get("name") or "")),
        error_bases=tuple(str(name) for name in names),
        error_message=shorten(message),
        traceback=_ADDRESS.sub("0x…", make_plain(str(error.get("traceback") or ""))),
        hit_limit=_read_idx(error.get("errno")) in _LIMIT_ERRNOS or _THREAD_LIMIT in message,
    )


def make_plain(text: str) -> str:
    """Take colour codes and control characters out: texts of samples end up on terminals.

    Lone surrogates become question marks, for no file could hold them.
    """
    encodable = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("", _ANSI_CODE.sub("", encodable))


def _read_report(text: object) -> _Report:
    try:
        data = base64.b64decode(str(text or ""), validate=True)
    except binascii.Error:
        return _Report(proven=False, flags=(_FLAG_CHANNEL,), asked_to_exit=False)
    records = [data[start : start + _RECORD_BYTES] for start in range(0, len(data), _RECORD_BYTES)]
    commitment = records[0][1:] if records and records[0][:1] == b"C" else None
    flags: list[str] = []
    proven = asked = False
    for record in records[1:]:
        kind, body = record[:1], record[1:]
        if kind == b"P" and commitment and hashlib.sha256(body).digest() == commitment:
            proven = True
        elif kind == b"F" and body.rstrip(b"\0").decode("utf-8", "replace") == _FLAG_EXIT:
            asked = True
        elif kind == b"F" and body.startswith(b"suspect: "):
            flags.append(make_plain(body.rstrip(b"\0").decode("utf-8", "replace")))
        else:
            flags.append(_FLAG_CHANNEL)
    return _Report(proven, tuple(dict.fromkeys(flags)), asked)


def _read_own(
    content: Fields, report: _Report, by_kind: Mapping[str, Fields], task: Task
) -> list[CellReply]:
    solution = _read_solution(content, by_kind, task)
    if solution.status in {CellStatus.TIMEOUT, CellStatus.DIED}:
        return [solution, *_answer_grading(task, CellStatus.NOT_RUN)]
    if report.proven:
        graded = _answer_grading(task, CellStatus.OK)
        graded[-1] = replace(graded[-1], asked_to_exit=report.asked_to_exit)
        return [solution, *graded]
    failure = by_kind.get("failure")
    at = _read_idx(failure.get("cell_idx")) if failure else -1
    failed_idx = at if at in task.grading_idxs else task.grading_idxs[0]
    reply = CellReply(cell_idx=failed_idx, stage=Stage.GRADING, status=CellStatus.DIED)
    if failure:
        reply = describe_error(reply, failure)
    elif _ran_out_of_time(content):
        reply = replace(reply, status=CellStatus.TIMEOUT)
    return [solution, replace(reply, asked_to_exit=report.asked_to_exit)]


def _read_solution(content: Fields, by_kind: Mapping[str, Fields], task: Task) -> CellReply:
    told = by_kind.get("solution")
    if told is not None:
        return make_reply({**told, "cell_idx": task.cell_idx}, Stage.SOLUTION)
    reply = CellReply(cell_idx=task.cell_idx, stage=Stage.SOLUTION, status=CellStatus.DIED)
    return replace(reply, status=CellStatus.TIMEOUT) if _ran_out_of_time(content) else reply


def _answer_grading(task: Task, status: CellStatus) -> list[CellReply]:
    return [
        CellReply(cell_idx=idx, stage=Stage.GRADING, status=status) for idx in task.grading_idxs
    ]


def _ran_out_of_time(content: Fields) -> bool:
    killed_by_clock = content.get("ended") == "died" and content.get("signal") == _SIGXCPU
    return content.get("ended") == "timeout" or killed_by_clock


def _died_in_context(content: Fields, by_kind: Mapping[str, Fields]) -> bool:
    """Whether a fresh process ended before it came to the sample: it had nothing to commit to."""
    return not content.get("report") and "solution" not in by_kind and "fault" not in by_kind


def _end_context(content: Fields, task: Task, context: Sequence[CellReply]) -> CellReply:
    if context and context[-1].status is CellStatus.ERROR:
        return context[-1]
    timed_out = content.get("ended") == "context timeout"
    return CellReply(
        cell_idx=max((reply.cell_idx + 1 for reply in context), default=0),
        stage=Stage.CONTEXT,
        status=CellStatus.TIMEOUT if timed_out else CellStatus.DIED,
    )


def _read_context(details: Sequence[Fields], task: Task) -> list[CellReply]:
    """Return what was first said of each context cell: what follows may be the sample's words."""
    found: dict[int, CellReply] = {}
    for one in details:
        if one.get("kind") == "cell":
            reply = make_reply(one, Stage.CONTEXT)
            if reply.cell_idx < task.cell_idx:
                found.setdefault(reply.cell_idx, reply)
    return list(found.values())


def _read_count(content: Fields, name: str) -> int:
    return int(content.get(name) or 0)


def _read_idx(value: object) -> int:
    return value if isinstance(value, int) else -1


def _read_seconds(value: object) -> float:
    seconds = value if isinstance(value, int | float) else 0.0
    return float(seconds) if 0 <= seconds < _MOST_SECONDS else 0.0
