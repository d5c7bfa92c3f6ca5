"""The paper's classes and its Table 6."""

from jupyt5.execution.verdicts import VerdictKind
from jupyt5_dsp.biocoder.outcomes import CLASSES, class_of, count_classes, tabulate


def test_table_6_of_the_paper() -> None:
    counts = {
        "mismatched output": 8661,
        "invalid syntax": 117665,
        "runtime error": 55351,
        "time out": 4,
        "passed": 7982,
    }
    assert sum(counts.values()) == 189663
    # As printed, but for 62.038 % where 117665 of 189663 are 62.03898 %: cut there, not rounded.
    assert {name: percent for name, (_, percent) in tabulate(counts).items()} == {
        "mismatched output": 4.567,
        "invalid syntax": 62.039,
        "runtime error": 29.184,
        "time out": 0.002,
        "passed": 4.209,
    }


def test_every_verdict_has_a_class_or_was_not_judged() -> None:
    unjudged = {kind for kind in VerdictKind if class_of(kind) is None}
    assert unjudged == {VerdictKind.INVALID, VerdictKind.CONTEXT}
    assert {class_of(kind) for kind in VerdictKind} - {None} == set(CLASSES)


def test_counts_leave_out_what_was_not_judged() -> None:
    counts = count_classes({"passed": 1, "wrong": 1, "oom": 1, "error": 1, "invalid": 4})
    assert counts == {
        "mismatched output": 1,
        "invalid syntax": 0,
        "runtime error": 2,
        "time out": 0,
        "passed": 1,
    }
    assert tabulate({})["passed"] == (0, 0.0)
