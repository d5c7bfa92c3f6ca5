"""CodeBLEU of a run's problems, and what is kept of it."""

from pathlib import Path

import pytest

from jupyt5.hypotheses.codebleu import explain_missing
from jupyt5_dsp.similarity import Answers, score_similarity

pytestmark = pytest.mark.skipif(
    bool(explain_missing()), reason=f"codebleu is not installed. {explain_missing()}"
)

REFERENCE = "def add(a, b):\n    total = a + b\n    return total\n"
OTHER = "def add(x, y):\n    result = x + y\n    return result\n"
FAR = "import os\nprint('hello')\n"


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
