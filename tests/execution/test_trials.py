"""What candidates are tried against, and which of them comes first."""

import pytest

from jupyt5.execution.trials import Trial, rank
from jupyt5.execution.verdicts import Verdict, VerdictKind

CELLS = (
    (0, "import numpy as np\nfrom nose.tools import assert_equal\ndef helper(a):\n    b = a"),
    (2, "%matplotlib inline\nlimit = 3"),
    (4, ""),
    (5, "z = 1"),
    (7, "assert_equal(add(limit), np.sum(z))\nassert helper(len(w))"),
    (9, "more"),
)


def test_parts_of_a_trial():
    trial = Trial(cells=CELLS, target_idx=4, grading_idx=7)
    assert [idx for idx, _ in trial.above] == [0, 2]
    assert [idx for idx, _ in trial.below] == [5, 7]
    assert trial.wanted == {"add", "z", "w"}


def test_a_test_that_cannot_be_read_wants_nothing():
    assert Trial(cells=((0, ""), (1, "assert (")), target_idx=0, grading_idx=1).wanted == set()


PASSED = Verdict(kind=VerdictKind.PASSED)
SUSPECT = Verdict(kind=VerdictKind.PASSED, flags=("suspect: shell changed",))
MARKED = Verdict(kind=VerdictKind.PASSED, flags=("solution cell raised",))
WRONG = Verdict(kind=VerdictKind.WRONG)


@pytest.mark.parametrize(
    ("logprobs", "verdicts", "order"),
    [
        ({0: -0.9, 1: -0.1, 2: -0.5}, {}, (1, 2, 0)),
        ({0: None, 1: None}, {}, (0, 1)),
        ({0: -0.1, 1: -0.9, 2: -0.5}, {0: WRONG, 1: PASSED, 2: PASSED}, (2, 1, 0)),
        ({0: -0.1, 1: -0.9}, {0: SUSPECT, 1: PASSED}, (1, 0)),
        ({0: -0.1, 1: -0.9}, {0: WRONG, 1: SUSPECT}, (1, 0)),
        ({0: -0.1, 1: -0.5, 2: -0.9}, {0: WRONG, 1: MARKED, 2: PASSED}, (2, 1, 0)),
        ({}, {}, ()),
    ],
)
def test_order(logprobs, verdicts, order):
    assert rank(logprobs, verdicts) == order
