"""Runs suites on small sets, as a user does."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyt5_dsp.cli import main

Record = dict[str, Any]


class Graded:
    """A finished run's folder."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.results: Record = json.loads((path / "results.json").read_text())
        lines = (path / "verdicts.jsonl").read_text().splitlines()
        records: list[Record] = sorted(map(json.loads, lines), key=lambda one: one["sample_idx"])
        self.by_problem: dict[str, dict[str, Record]] = {}
        for record in records:
            own = self.by_problem.setdefault(record["task_id"], {})
            own[str(names[record["sample_idx"]])] = record
        found = (path / "validation.jsonl").read_text().splitlines()
        self.validations: dict[str, Record] = {
            one["task_id"]: one for one in map(json.loads, found)
        }

    def verdicts(self, task_id: str) -> dict[str, str]:
        return {name: one["verdict"] for name, one in self.by_problem[task_id].items()}


@pytest.fixture
def grade(
    tmp_path: Path, sandbox_option: str, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Graded]:
    """Grade the same completions of each of some problems; they are named."""

    def run(
        suite: str, path: Path, task_ids: Sequence[str], texts: Mapping[str, str], *more: str
    ) -> Graded:
        samples = tmp_path / "samples.jsonl"
        lines = [
            json.dumps({"task_id": task_id, "completion": text}) + "\n"
            for task_id in task_ids
            for text in texts.values()
        ]
        samples.write_text("".join(lines))
        out = tmp_path / f"run {len(list(tmp_path.iterdir()))}"
        argv = ["run", "--suite", suite, "--problems", str(path), "--samples", str(samples)]
        argv += ["--out", str(out), "--sandbox", sandbox_option, "--timeout-s", "1", "-k", "1"]
        assert main([*argv, "--workers", "2", *more]) == 0
        capsys.readouterr()
        return Graded(out, list(texts))

    return run
