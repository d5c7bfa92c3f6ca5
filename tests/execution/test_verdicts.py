"""Verdicts from replies alone (casebook R01 to R04, without any interpreter)."""

from dataclasses import replace

import pytest

from jupyt5.execution.verdicts import (
    FLAG_CONTEXT_RAISED,
    FLAG_SOLUTION_RAISED,
    CellReply,
    CellStatus,
    Stage,
    Verdict,
    VerdictKind,
    judge,
    shorten,
)

OK, ERROR = CellStatus.OK, CellStatus.ERROR


def reply(
    stage: Stage, status: CellStatus = OK, error: str = "", *, asked_to_exit: bool = False
) -> CellReply:
    return CellReply(
        cell_idx=list(Stage).index(stage),
        stage=stage,
        status=status,
        error_name=error,
        asked_to_exit=asked_to_exit,
    )


def judged(solution: CellReply, *grading: CellReply, context: CellReply | None = None) -> Verdict:
    return judge([context or reply(Stage.CONTEXT), solution, *grading])


SOLUTION, GRADING = reply(Stage.SOLUTION), reply(Stage.GRADING)


def test_pass_needs_an_ok_to_every_grading_cell() -> None:
    assert judged(SOLUTION, GRADING, GRADING).kind is VerdictKind.PASSED
    for status in CellStatus:
        if status is not OK:
            verdict = judged(SOLUTION, GRADING, reply(Stage.GRADING, status))
            assert not verdict.passed


def test_no_grading_cell_is_invalid() -> None:
    assert judge([reply(Stage.CONTEXT), SOLUTION]).kind is VerdictKind.INVALID
    assert judge([]).kind is VerdictKind.INVALID


@pytest.mark.parametrize(
    ("solution", "grading", "kind"),
    [
        (SOLUTION, reply(Stage.GRADING, ERROR, "AssertionError"), "wrong"),
        (SOLUTION, reply(Stage.GRADING, ERROR, "NameError"), "error"),
        (SOLUTION, reply(Stage.GRADING, ERROR, "SystemExit"), "exit"),
        (SOLUTION, reply(Stage.GRADING, ERROR, "KeyboardInterrupt"), "exit"),
        (SOLUTION, reply(Stage.GRADING, ERROR, "MemoryError"), "oom"),
        (SOLUTION, reply(Stage.GRADING, CellStatus.TIMEOUT), "timeout"),
        (SOLUTION, reply(Stage.GRADING, CellStatus.DIED), "died"),
        (SOLUTION, reply(Stage.GRADING, asked_to_exit=True), "exit"),
        (reply(Stage.SOLUTION, asked_to_exit=True), GRADING, "exit"),
        (reply(Stage.SOLUTION, CellStatus.DIED), reply(Stage.GRADING, CellStatus.NOT_RUN), "died"),
        (
            reply(Stage.SOLUTION, CellStatus.TIMEOUT),
            reply(Stage.GRADING, CellStatus.TIMEOUT),
            "timeout",
        ),
        (
            reply(Stage.SOLUTION, ERROR, "IndentationError"),
            reply(Stage.GRADING, ERROR, "NameError"),
            "syntax",
        ),
        (
            reply(Stage.SOLUTION, ERROR, "ZeroDivisionError"),
            reply(Stage.GRADING, ERROR, "NameError"),
            "error",
        ),
    ],
)
def test_kinds_of_failure(solution: CellReply, grading: CellReply, kind: str) -> None:
    assert judged(solution, grading).kind == kind


def test_subclasses_of_syntax_error_are_syntax() -> None:
    solution = replace(
        reply(Stage.SOLUTION, ERROR, "_IncompleteInputError"),
        error_bases=("SyntaxError", "Exception"),
    )
    assert judged(solution, reply(Stage.GRADING, ERROR, "NameError")).kind == "syntax"


def test_pass_in_spite_of_a_raising_solution_cell_is_flagged() -> None:
    verdict = judged(reply(Stage.SOLUTION, ERROR, "SystemExit"), GRADING)
    assert verdict.kind is VerdictKind.PASSED
    assert verdict.flags == (FLAG_SOLUTION_RAISED,)
    assert "SystemExit" in verdict.message


def test_context_failure_is_nobody_elses() -> None:
    raised = reply(Stage.CONTEXT, ERROR, "OSError")
    assert judged(SOLUTION, GRADING, context=raised).kind is VerdictKind.CONTEXT
    verdict = judge([raised, SOLUTION, GRADING], forgive_context=True)
    assert verdict.kind is VerdictKind.PASSED
    assert verdict.flags == (FLAG_CONTEXT_RAISED,)
    for status in (CellStatus.DIED, CellStatus.TIMEOUT):
        ended = reply(Stage.CONTEXT, status)
        assert judge([ended, SOLUTION, GRADING], forgive_context=True).kind is VerdictKind.CONTEXT


def test_texts_are_cut_with_a_mark() -> None:
    assert shorten("a" * 10) == "a" * 10
    for char in ("a", "ß", "€", "🙂", "\ud800"):
        cut = shorten(char * 10_000)
        head, _, mark = cut.rpartition("\n[… ")
        assert 4090 - 3 <= len(cut.encode("utf-8")) <= 4096
        assert mark == f"{10_000 - len(head):,} more characters]"


def test_count_of_dropped_characters_covers_what_was_never_kept() -> None:
    printed = CellReply(
        cell_idx=1, stage=Stage.SOLUTION, status=OK, output_head="€" * 4000, num_dropped_chars=77
    )
    head, _, mark = judged(printed, GRADING).output_head.rpartition("\n[… ")
    assert set(head) == {"€"}
    assert mark == f"{4077 - len(head):,} more characters]"


def test_exit_between_solution_and_grading_is_not_looked_at() -> None:
    between = reply(Stage.BETWEEN, asked_to_exit=True)
    assert judged(SOLUTION, between, GRADING).kind is VerdictKind.PASSED
