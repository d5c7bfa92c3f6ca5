"""CodeBLEU against the traps of its package."""

from pathlib import Path

import pytest

from jupyt5_dsp.similarity import Answers, explain_missing, score_similarity
from jupyt5_dsp.similarity_worker import score_codebleu

pytestmark = pytest.mark.skipif(
    bool(explain_missing()), reason=f"codebleu is not installed. {explain_missing()}"
)

REFERENCE = "def add(a, b):\n    total = a + b\n    return total\n"
OTHER = "def add(x, y):\n    result = x + y\n    return result\n"
FAR = "import os\nprint('hello')\n"
NESTED = "".join(f"{' ' * depth}for i in x:\n" for depth in range(90)) + " " * 91 + "pass\n"


def test_scores_fall_with_distance() -> None:
    same, other, far, empty = score_codebleu(REFERENCE, [REFERENCE, OTHER, FAR, ""])
    assert same == pytest.approx(1)
    assert other is not None
    assert far is not None
    assert 1 > other > far > 0.0
    # The package itself gives an empty text a quarter.
    assert empty == 0


def test_reference_without_data_flow_is_scored_by_the_other_parts() -> None:
    reference = "print('hello', 'world', 1, 2)"
    assert score_codebleu(reference, [reference])[0] == pytest.approx(1)


def test_blanks_do_not_matter() -> None:
    first, second = score_codebleu(REFERENCE, [REFERENCE.replace("a, b", "a,b"), REFERENCE])
    assert first == pytest.approx(second)


def test_texts_that_cannot_be_scored_stop_nothing() -> None:
    scores = score_codebleu(REFERENCE, ["\ud800", REFERENCE, NESTED, REFERENCE])
    assert scores[0] is None
    assert scores[1] == pytest.approx(1)
    assert scores[2:] == [None, None]  # The time limit ends the problem.


def test_scores_are_kept_and_taken_up_again(tmp_path: Path) -> None:
    cache_path = tmp_path / "codebleu.jsonl"
    long_text = "x = 1\n" * 10_000
    problems = [
        Answers("T/0", REFERENCE, [REFERENCE, REFERENCE, FAR, long_text]),
        Answers("T/1", REFERENCE, [OTHER] * 50),
        Answers("T/2", "", [OTHER]),
    ]
    found = score_similarity(problems, cache_path, num_workers=1)
    assert found.keys() == {"T/0", "T/1"}
    assert found["T/0"].num_scored == 3
    assert found["T/1"].num_scored == 10
    assert found["T/0"].codebleu is not None
    assert 0.6 < found["T/0"].codebleu < 1
    before = cache_path.read_bytes()
    assert score_similarity(problems, cache_path) == found
    assert cache_path.read_bytes() == before
    changed = [Answers("T/0", REFERENCE, [REFERENCE])]
    assert score_similarity(changed, cache_path, only_known=True) == {}
    assert score_similarity(changed, cache_path, num_workers=1)["T/0"].codebleu == 1
