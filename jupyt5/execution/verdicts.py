"""From the replies of an interpreter to a verdict. Pure: nothing here runs anything.

A verdict is ``passed`` only with proof: every grading cell was sent in this run and the
interpreter itself answered "ok" to it. Whatever else happened, even nothing at all, is some
other kind. Outputs are kept for people to read and are never looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = [
    "FLAG_CONTEXT_RAISED",
    "FLAG_SOLUTION_RAISED",
    "SUSPECT",
    "CellReply",
    "CellStatus",
    "Stage",
    "Verdict",
    "VerdictKind",
    "judge",
    "shorten",
]

SUSPECT = "suspect: "
FLAG_SOLUTION_RAISED = "solution cell raised"
FLAG_CONTEXT_RAISED = "context cell raised"

_SYNTAX_ERRORS = frozenset({"SyntaxError", "IndentationError", "TabError"})
_EXITS = frozenset({"SystemExit", "KeyboardInterrupt"})
_TEXT_LIMIT_BYTES = 4096


class VerdictKind(StrEnum):
    """What became of one sample."""

    PASSED = "passed"
    WRONG = "wrong"
    ERROR = "error"
    SYNTAX = "syntax"
    TIMEOUT = "timeout"
    DIED = "died"
    EXIT = "exit"
    OOM = "oom"
    LIMIT = "limit"
    CONTEXT = "context"
    INVALID = "invalid"


class Stage(StrEnum):
    """Why a cell is run: it comes before the sample, is the sample, or judges it.

    A cell ``between`` follows the sample but does not judge it; how it ends is not looked at.
    """

    CONTEXT = "context"
    SOLUTION = "solution"
    BETWEEN = "between"
    GRADING = "grading"


class CellStatus(StrEnum):
    """What the interpreter answered to one cell."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    DIED = "died"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReply:
    """The interpreter's answer to one cell, and the beginning of what the cell printed.

    ``num_dropped_chars`` more characters were printed than ``output_head`` was made from.
    ``error_bases`` are the names of the exception's base classes; ``hit_limit`` says that it came
    from a limit on files, disk or processes.
    """

    cell_idx: int
    stage: Stage
    status: CellStatus
    error_name: str = ""
    error_bases: tuple[str, ...] = ()
    error_message: str = ""
    traceback: str = ""
    output_head: str = ""
    num_dropped_chars: int = 0
    asked_to_exit: bool = False
    hit_limit: bool = False
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement on one sample; texts hold at most 4,096 bytes of UTF-8 each.

    ``signal`` ended its process; 0 if none did.
    """

    kind: VerdictKind
    flags: tuple[str, ...] = ()
    message: str = ""
    output_head: str = ""
    traceback: str = ""
    signal: int = 0

    @property
    def passed(self) -> bool:
        """Whether the sample passed."""
        return self.kind is VerdictKind.PASSED


def judge(
    replies: Sequence[CellReply], *, forgive_context: bool = False, flags: Sequence[str] = ()
) -> Verdict:
    """Judge one sample from the replies of its run, in the order in which cells ran.

    Args:
        replies: Context cells, the solution cell, the grading cells.
        forgive_context: Whether an ordinary exception in a context cell is known to be harmless,
            because the reference passes in spite of it. The interpreter's death or a time-out
            there is never harmless.
        flags: What the sample did that honest code does not; kept whatever the verdict.

    Returns:
        ``passed`` only if there is a grading cell and the interpreter answered "ok" to each.
    """
    verdict = _judge(replies, forgive_context=forgive_context)
    return replace(verdict, flags=tuple(dict.fromkeys((*verdict.flags, *flags))))


def _judge(replies: Sequence[CellReply], *, forgive_context: bool) -> Verdict:
    failed_context = _first_failure(replies, Stage.CONTEXT)
    if failed_context and not (forgive_context and failed_context.status is CellStatus.ERROR):
        return _describe(VerdictKind.CONTEXT, failed_context, replies)
    solution = next((reply for reply in replies if reply.stage is Stage.SOLUTION), None)
    grading = [reply for reply in replies if reply.stage is Stage.GRADING]
    # `exit()` is answered with "ok": the interpreter stops a moment later.
    asks_exit = any(r.asked_to_exit for r in (solution, *grading) if r is not None)
    if grading and not asks_exit and all(reply.status is CellStatus.OK for reply in grading):
        return _pass(solution, failed_context, replies)
    if not grading:
        return Verdict(kind=VerdictKind.INVALID, message="There is no grading cell.")
    failed_grading = next((r for r in grading if r.status is not CellStatus.OK), grading[-1])
    return _judge_failure(solution, failed_grading, replies)


def shorten(text: str, limit_bytes: int = _TEXT_LIMIT_BYTES, *, num_dropped_chars: int = 0) -> str:
    """Cut ``text`` to ``limit_bytes`` of UTF-8, saying how many characters were dropped.

    Args:
        text: Any text; lone surrogates in it become question marks.
        limit_bytes: Most bytes of the result, its mark included.
        num_dropped_chars: Characters that were dropped from the text's end before.
    """
    data = text.encode("utf-8", "replace")
    if not num_dropped_chars and len(data) <= limit_bytes:
        return data.decode("utf-8")
    # The mark with the largest possible count is the longest: room for it is enough.
    longest_mark = _mark_dropped(len(text) + num_dropped_chars).encode("utf-8")
    kept = data[: max(limit_bytes - len(longest_mark), 0)].decode("utf-8", "ignore")
    return kept + _mark_dropped(len(text) - len(kept) + num_dropped_chars)


def _mark_dropped(num_chars: int) -> str:
    return f"\n[… {num_chars:,} more characters]"


def _pass(
    solution: CellReply | None, failed_context: CellReply | None, replies: Sequence[CellReply]
) -> Verdict:
    flags: list[str] = []
    message = ""
    if failed_context:
        flags.append(FLAG_CONTEXT_RAISED)
        message = _say_what(failed_context)
    if solution and solution.status is CellStatus.ERROR:
        flags.append(FLAG_SOLUTION_RAISED)
        message = _say_what(solution)
    return Verdict(
        kind=VerdictKind.PASSED,
        flags=tuple(flags),
        message=message,
        output_head=_join_outputs(replies),
    )


def _judge_failure(
    solution: CellReply | None, grading: CellReply, replies: Sequence[CellReply]
) -> Verdict:
    """Find the root of a failure: what the solution cell did comes before what the test did."""
    for reply in (solution, grading):
        if reply is None:
            continue
        if reply.status is CellStatus.TIMEOUT:
            return _describe(VerdictKind.TIMEOUT, reply, replies)
        if reply.status is CellStatus.DIED:
            return _describe(VerdictKind.DIED, reply, replies)
    for reply in (solution, grading):
        if reply is None:
            continue
        if reply.error_name in _EXITS or reply.asked_to_exit:
            return _describe(VerdictKind.EXIT, reply, replies)
        if "MemoryError" in (reply.error_name, *reply.error_bases):
            return _describe(VerdictKind.OOM, reply, replies)
        if reply.hit_limit:
            return _describe(VerdictKind.LIMIT, reply, replies)
    if solution and not _SYNTAX_ERRORS.isdisjoint((solution.error_name, *solution.error_bases)):
        return _describe(VerdictKind.SYNTAX, solution, replies)
    if solution and solution.status is CellStatus.ERROR:
        # The test fails on what the solution left undone: the solution's exception is the cause.
        return _describe(VerdictKind.ERROR, solution, replies)
    is_assertion = "AssertionError" in (grading.error_name, *grading.error_bases)
    kind = VerdictKind.WRONG if is_assertion else VerdictKind.ERROR
    return _describe(kind, grading, replies)


def _first_failure(replies: Sequence[CellReply], stage: Stage) -> CellReply | None:
    bad = (r for r in replies if r.stage is stage and r.status is not CellStatus.OK)
    return next(bad, None)


def _describe(kind: VerdictKind, reply: CellReply, replies: Sequence[CellReply]) -> Verdict:
    return Verdict(
        kind=kind,
        message=_say_what(reply),
        output_head=_join_outputs(replies),
        traceback=shorten(reply.traceback),
    )


def _say_what(reply: CellReply) -> str:
    what = {
        CellStatus.TIMEOUT: "did not finish in the time limit",
        CellStatus.DIED: "ended the interpreter",
        CellStatus.NOT_RUN: "was not reached",
        CellStatus.OK: "asked the interpreter to exit",
        CellStatus.ERROR: f"raised {_name_error(reply)}",
    }[reply.status]
    return shorten(f"{reply.stage.capitalize()} cell {reply.cell_idx} {what}.")


def _name_error(reply: CellReply) -> str:
    text = reply.error_message.strip().split("\n", 1)[0]
    return shorten(f"{reply.error_name}: {text}" if text else reply.error_name, 300)


def _join_outputs(replies: Sequence[CellReply]) -> str:
    own = [reply for reply in replies if reply.stage is not Stage.CONTEXT]
    num_dropped_chars = sum(reply.num_dropped_chars for reply in own)
    text = "".join(reply.output_head for reply in own)
    return shorten(text, num_dropped_chars=num_dropped_chars)
