"""Findings at hand: whose file it is, and why some of them do not hold here."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from jupyt5.errors import ProblemSetError
from jupyt5.execution.interpreters import Interpreter
from jupyt5.execution.jobs import Limits
from jupyt5.execution.sandbox import choose_sandbox
from jupyt5_dsp.grader import Execution, Grader
from jupyt5_dsp.jsonl import append_jsonl
from jupyt5_dsp.problems import load_problem_set
from jupyt5_dsp.validation import Validation, make_key, validate_set


def make_grader(folder: Path, *, timeout_s: float = 10.0) -> Grader:
    # Nothing is run: it need not be asked what it has.
    interpreter = Interpreter(Path(sys.executable), "3.11.0", {}, {}, ())
    execution = Execution(
        interpreter=interpreter,
        sandbox=choose_sandbox("none", interpreter),
        limits=Limits(timeout_s=timeout_s),
    )
    return Grader(load_problem_set(folder), execution)


@pytest.fixture
def unfit_set(add_set: Path) -> Path:
    """Problems that no kernel is needed for: their grading cells are missing."""
    path = add_set / "problems.jsonl"
    records = [json.loads(line) | {"grading_cells": []} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return add_set


@pytest.mark.parametrize(
    "content",
    [
        b"my thesis\nand its unfinished end",
        b"one line of something",
        b'{"task_id": "T/0", "completion": "pass"}\n{"task_id": ',
        b'{"task_id": "T/0", "reference": "passed", "usable": "yes"}\n{"other": 1',
        b"[1]\n",
        b"\xff\xfe\n\x00",
    ],
)
def test_foreign_file_is_refused_untouched(unfit_set: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(content)
    with pytest.raises(ProblemSetError, match="Choose another --out"):
        validate_set(make_grader(unfit_set), {}, num_workers=1, log_path=path)
    assert path.read_bytes() == content


def test_cut_last_line_is_mended(unfit_set: Path, tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_bytes(b'{"task_')
    found = validate_set(make_grader(unfit_set), {}, num_workers=1, log_path=path)
    assert [json.loads(line)["task_id"] for line in path.read_text().splitlines()] == ["T/0", "T/1"]
    assert [one.usable for one in found] == ["no", "no"]


def test_findings_made_otherwise_are_counted_with_the_reason(
    unfit_set: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "findings.jsonl"
    validate_set(make_grader(unfit_set, timeout_s=60.0), {}, num_workers=1, log_path=path)
    grader = make_grader(unfit_set)
    caplog.clear()
    validate_set(grader, {}, num_workers=1, log_path=path)
    assert len(caplog.records) == 1
    assert "2 of 2 findings do not hold here (made with other time limits)" in caplog.text
    caplog.clear()
    validate_set(grader, {}, num_workers=1, log_path=path)
    assert not caplog.records


def test_finding_of_an_older_version_is_made_again(
    unfit_set: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "findings.jsonl"
    old = Validation(task_id="T/0", reference="passed", usable="yes", key="0" * 64)
    append_jsonl(path, [asdict(old)])
    found = validate_set(make_grader(unfit_set), {}, num_workers=1, log_path=path)
    assert found[0].usable == "no"
    assert "1 of 1 findings" in caplog.text


def test_key_follows_the_data_files(add_set: Path) -> None:
    data_path = add_set / "repo" / "data.csv"
    keys: list[str] = []
    for text in ("1", "2"):
        data_path.write_text(text)
        grader = make_grader(add_set)
        keys.append(make_key(grader, grader.problem_set.problems[0], {}))
    assert keys[0] != keys[1]
