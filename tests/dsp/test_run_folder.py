"""Which folders nobody inside the sandbox sees."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from jupyt5.errors import UsageError
from jupyt5_dsp import commands, run
from jupyt5_dsp.cli import main
from jupyt5_dsp.run_folder import claim_folder, describe_kept, list_sibling_runs

from .biocoder.fixtures import ADD, make_row, write_rows


def make_runs(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text("{}")
    return [folder / name for name in names]


def test_runs_beside_a_run(tmp_path: Path) -> None:
    assert list_sibling_runs(tmp_path / "missing" / "run") == []
    first, second, own = make_runs(tmp_path, "a", "b", "own")
    (tmp_path / "no run").mkdir()
    make_runs(tmp_path / "deep", "c")
    assert list_sibling_runs(own) == [first, second]
    assert list_sibling_runs(tmp_path / "new") == [first, second, own]


def test_what_identifies_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    old = {"settings": {"ks": [1, 10], "seed": 0, "problem_set": "aa"}}
    claim_folder(out, old)
    # An older version's budgets do not matter; a limit says what other problems are meant.
    claim_folder(out, {"settings": {"seed": 0, "problem_set": "aa"}})
    claim_folder(out, {"settings": {"seed": 0, "problem_set": "aa", "limit": 5}})
    with pytest.raises(UsageError, match=r"\(settings.ks: .*; settings.limit: None there, 5 now\)"):
        claim_folder(out, {"settings": {"seed": 0, "problem_set": "bb", "limit": 5}})
    with pytest.raises(UsageError, match=r"settings.seed: 0 there, 1 now"):
        claim_folder(out, {"settings": {"seed": 1, "problem_set": "aa"}})


def test_what_an_interrupted_run_keeps(tmp_path: Path) -> None:
    assert describe_kept(tmp_path / "run") == ""
    claim_folder(tmp_path / "run", {})
    (tmp_path / "run" / "samples.jsonl").write_text("{}\n{}\n")
    assert "keeps 2 samples, 0 findings on problems, 0 verdicts" in describe_kept(tmp_path / "run")


class FoundError(Exception):
    """Ends the command where its sandbox would be chosen."""


@pytest.mark.parametrize("samples", ["gold", "file"])
def test_a_run_hides_what_holds_answers(
    samples: str, add_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[Path] = []

    def choose(name: str, interpreter: object, *, hidden_paths: Sequence[Path]) -> None:
        hidden.extend(hidden_paths)
        raise FoundError

    monkeypatch.setattr(commands, "choose_sandbox", choose)
    (other,) = make_runs(tmp_path / "runs", "other")
    out = tmp_path / "runs" / "own"
    file = tmp_path / "answers" / "samples.jsonl"
    argv = ["run", "--problems", str(add_set), "--out", str(out)]
    with pytest.raises(FoundError):
        main([*argv, "--samples", str(file) if samples == "file" else samples])
    assert hidden == [add_set, out, other, *([file.parent] if samples == "file" else [])]


def test_a_limit_changes_nothing_about_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox_option: str
) -> None:
    environments: list[object] = []

    def claim(out_path: Path, identity: Mapping[str, object]) -> None:
        environments.append(identity["environment"])
        raise FoundError

    monkeypatch.setattr(run, "claim_folder", claim)
    rows = [
        make_row(name, ADD, f"import {module}\n<<insert solution here>>\nprint(add(1, 2))\n")
        for name, module in (("a", "os"), ("b", "tqdm"))
    ]
    path = write_rows(tmp_path / "set" / "python_public.jsonl", rows)
    argv = ["run", "--suite", "biocoder", "--problems", str(path), "--out", str(tmp_path / "run")]
    for limit in ("1", "2"):
        with pytest.raises(FoundError):
            main([*argv, "--samples", "gold", "--sandbox", sandbox_option, "--limit", limit])
    assert environments[0] == environments[1]
    assert "'tqdm': " in str(environments[0])


def test_a_session_that_ends_while_asking_is_timed(
    add_set: Path, tmp_path: Path, sandbox_option: str
) -> None:
    out = tmp_path / "run"
    argv = ["run", "--problems", str(add_set), "--provider", "fake:fail", "--out", str(out)]
    assert main([*argv, "--sandbox", sandbox_option]) == 1
    (session,) = json.loads((out / "timing.json").read_text())
    assert {"generation_s", "total_s"} <= session.keys()
