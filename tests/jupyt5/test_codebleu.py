"""CodeBLEU against the traps of its package, and against texts that bring it down."""

import os
from pathlib import Path

import pytest

from jupyt5.hypotheses import codebleu
from jupyt5.hypotheses.codebleu import Comparison, explain_missing, score_comparisons
from jupyt5.hypotheses.codebleu_worker import score_codebleu

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


def test_a_text_that_brings_the_process_down_costs_only_its_own_score(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker is one that dies of the word ``crash``."""
    package = tmp_path / "codebleu"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "def calc_codebleu(references, predictions, lang, tokenizer):\n"
        "    if 'crash' in references[0]: os.abort()\n"
        "    names = ('ngram', 'weighted_ngram', 'syntax', 'dataflow')\n"
        "    return {f'{name}_match_score': 0.5 for name in names}\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    comparisons = [
        Comparison("T/0", "a", ["a", "b"]),
        Comparison("T/1", "crash", ["a"]),
        Comparison("T/2", "c", ["c"]),
    ]
    assert score_comparisons(comparisons) == [[0.5, 0.5], None, [0.5]]
    assert "CodeBLEU of T/1 is left out: exit code -6" in caplog.text
    assert score_comparisons([]) == []


def test_a_worker_that_takes_too_long_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(codebleu, "_TIMEOUT_S", 0.01)
    assert score_comparisons([Comparison("T/0", REFERENCE, [REFERENCE])]) == [None]
    assert "more than 0.01 s" in caplog.text
