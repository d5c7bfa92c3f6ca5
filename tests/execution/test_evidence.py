"""What a worker's message proves, and what a sample can make it say (no interpreter)."""

import base64
import hashlib
import json
from collections.abc import Mapping

import pytest

from jupyt5.execution.evidence import SampleEvidence, make_plain, read_sample
from jupyt5.execution.jobs import Task
from jupyt5.execution.verdicts import CellStatus, Stage, VerdictKind, judge

TASK = Task(name="t", cell_idx=1, grading_idxs=(2, 3), attempts=())
SECRET = b"s" * 32
COMMITMENT = b"C" + hashlib.sha256(SECRET).digest()
PROOF = b"P" + SECRET
SOLUTION = {"kind": "solution", "error": None, "wall_s": 0.1}
FAILURE = {"kind": "failure", "cell_idx": 3, "name": "AssertionError", "bases": ["Exception"]}
END = {"kind": "end"}


def read(
    report: bytes,
    *details: Mapping[str, object],
    ended: str = "said",
    signal: int = 0,
    has_context: bool = False,
) -> SampleEvidence:
    content = {
        "report": base64.b64encode(report).decode(),
        "details": list(details),
        "output": "",
        "num_output_bytes": 0,
        "ended": ended,
        "signal": signal,
    }
    return read_sample(json.loads(json.dumps(content)), TASK, has_context=has_context)


def kind_of(evidence: SampleEvidence) -> VerdictKind:
    return judge(evidence.replies).kind


def flag(text: str) -> bytes:
    return b"F" + text.encode().ljust(32, b"\0")


def test_proof_passes() -> None:
    evidence = read(COMMITMENT + PROOF, SOLUTION, END)
    assert kind_of(evidence) == "passed"
    assert evidence.flags == ()


@pytest.mark.parametrize(
    "report",
    [
        b"",
        COMMITMENT,
        PROOF,
        COMMITMENT + b"P" + b"x" * 32,
        COMMITMENT + b"P" + hashlib.sha256(SECRET).digest(),
        COMMITMENT + PROOF[:-1],
        COMMITMENT + b"x" + PROOF,
        COMMITMENT + b"C" + hashlib.sha256(b"x" * 32).digest() + b"P" + b"x" * 32,
        b"P" + b"x" * 32 + COMMITMENT,
    ],
)
def test_nothing_else_does(report: bytes) -> None:
    for details in ((), (SOLUTION,), (SOLUTION, END), (SOLUTION, END, END)):
        assert kind_of(read(report, *details)) in ("died", "context")


def test_what_does_not_belong_on_the_channel_is_flagged() -> None:
    for strange in (b"x" * 33, b"P" + b"y" * 32, b"F" + b"hello".ljust(32, b"\0"), b"odd"):
        evidence = read(COMMITMENT + strange + PROOF, SOLUTION, END)
        assert "suspect: report channel written" in evidence.flags


def test_flags_are_read_in_order_and_once() -> None:
    report = COMMITMENT + flag("suspect: b") + flag("suspect: a") + flag("suspect: b") + PROOF
    assert read(report, SOLUTION, END).flags == ("suspect: b", "suspect: a")


def test_asked_to_exit_is_no_pass() -> None:
    assert kind_of(read(COMMITMENT + flag("exit asked") + PROOF, SOLUTION, END)) == "exit"


def test_failure_names_the_cell() -> None:
    evidence = read(COMMITMENT, SOLUTION, FAILURE)
    assert kind_of(evidence) == "wrong"
    assert evidence.replies[-1].cell_idx == 3
    # A failure cannot be turned into another cell's.
    elsewhere = read(COMMITMENT, SOLUTION, {**FAILURE, "cell_idx": 99})
    assert elsewhere.replies[-1].cell_idx == 2


@pytest.mark.parametrize(
    ("details", "ended", "signal", "kind"),
    [
        ((), "died", 9, "died"),
        ((), "timeout", 0, "timeout"),
        ((), "died", 24, "timeout"),
        ((SOLUTION,), "timeout", 0, "timeout"),
        ((SOLUTION,), "died", 11, "died"),
        ((SOLUTION,), "flood", 0, "died"),
        (({**SOLUTION, "error": {"name": "SyntaxError"}}, FAILURE), "said", 0, "syntax"),
        (({**SOLUTION, "error": {"name": "OSError", "errno": 27}}, FAILURE), "said", 0, "limit"),
        (
            ({**SOLUTION, "error": {"name": "X", "bases": ["MemoryError"]}}, FAILURE),
            "said",
            0,
            "oom",
        ),
    ],
)
def test_ends(
    details: tuple[Mapping[str, object], ...], ended: str, signal: int, kind: str
) -> None:
    assert kind_of(read(COMMITMENT, *details, ended=ended, signal=signal)) == kind


def test_fault_is_the_machines_only_before_the_commitment() -> None:
    fault = {"kind": "fault", "text": "OSError: no space"}
    assert read(b"", fault).fault == "OSError: no space"
    assert read(COMMITMENT, SOLUTION, fault).fault == ""
    assert read(COMMITMENT + PROOF, SOLUTION, fault).fault == ""


def test_sample_cannot_speak_for_context_cells() -> None:
    cell = {"kind": "cell", "cell_idx": 0, "error": None}
    failed = {"kind": "cell", "cell_idx": 0, "error": {"name": "OSError"}}
    late = {"kind": "cell", "cell_idx": 2, "error": {"name": "OSError"}}
    assert kind_of(read(COMMITMENT, SOLUTION, failed, FAILURE)) == "wrong"
    assert kind_of(read(COMMITMENT, cell, failed, late, FAILURE, has_context=True)) == "died"
    assert kind_of(read(COMMITMENT, cell, SOLUTION, failed, FAILURE, has_context=True)) == "wrong"
    first = read(b"", failed, has_context=True, ended="died")
    assert [reply.stage for reply in first.replies] == [Stage.CONTEXT, Stage.CONTEXT]
    assert first.replies[0].status is CellStatus.ERROR


@pytest.mark.parametrize(
    "details",
    [
        [None, 1, "x", []],
        [{"kind": None}],
        [{"kind": "solution", "error": 5, "wall_s": "x"}],
        [{"kind": "failure", "cell_idx": None}],
        [{"kind": "failure", "cell_idx": "x", "bases": 3, "message": {}}],
        [{"kind": "cell", "cell_idx": None}],
        [{"kind": "solution", "wall_s": True, "error": {"errno": []}}],
        [{"kind": "solution", "wall_s": float("nan")}, {"kind": "failure", "wall_s": 10**400}],
    ],
)
def test_nonsense_is_no_crash(details: list[object]) -> None:
    for has_context in (False, True):
        content = {"report": "!", "details": details, "ended": "said", "output": None}
        evidence = read_sample(content, TASK, has_context=has_context)
        assert not judge(evidence.replies).passed


def test_texts_are_plain() -> None:
    assert make_plain("\x1b[31mred\x1b]0;t\x07 \ud800\x00") == "red]0;t ?"
